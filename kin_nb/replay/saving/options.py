"""The options of `%kin save`, `/save` and `kin-nb save`."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.storage import sidecar_name

LARGE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class SaveOptions:
    """`results`: whether the results of tool calls are stored, or only their hashes."""

    portable: bool = False
    sidecar: bool = False
    results: bool = True
    redact: tuple[re.Pattern[str], ...] = ()
    plain: bool = False
    play: bool = True
    """Whether the saved notebook is played once, as configured (`[save] check_seconds`)."""


def add_save_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--portable", action="store_true", help="store the recording in a cell, for kernels that cannot read the file"
    )
    form.add_argument("--sidecar", action="store_true", help="store long texts in a second file")
    form.add_argument("--plain", action="store_true", help="no recording: ordinary cells that need no kin_nb")
    add("--no-check", dest="play", action="store_false", help="do not play the saved notebook once in a sandbox")
    add("--no-results", dest="results", action="store_false", help="store hashes instead of tool results")
    add(
        "--redact",
        metavar="PATTERN",
        action="append",
        type=_pattern,
        default=[],
        help="redact what this regular expression matches; may be repeated",
    )


def save_options(found: argparse.Namespace) -> SaveOptions:
    return SaveOptions(
        portable=found.portable,
        sidecar=found.sidecar,
        results=found.results,
        redact=tuple(found.redact),
        plain=found.plain,
        play=found.play,
    )


def describe_files(path: Path, options: SaveOptions) -> str:
    """Return a note about a notebook that has a sidecar or is large; "" for any other."""
    if options.sidecar:
        return f"Long texts are in {sidecar_name(path)}: copy and commit both files."
    size = path.stat().st_size
    if size <= LARGE_BYTES or options.portable:
        return ""
    return f"The file has {size / 1024 / 1024:.1f} MB. To move long results to a second file: --sidecar"


def parse_save(line: str) -> tuple[str | None, SaveOptions]:
    """(the path, None by default; the options) of what follows `save`. Raises ReplayError with the usage."""
    parser = _Parser(prog="save", add_help=False, allow_abbrev=False)
    parser.add_argument("path", nargs="*", metavar="PATH")
    add_save_options(parser)
    try:
        words = shlex.split(line)
    except ValueError as error:
        parser.error(str(error))
    found = parser.parse_intermixed_args(words)
    return " ".join(found.path) or None, save_options(found)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        usage = " ".join(self.format_usage().removeprefix("usage: ").split())
        raise ReplayError(f"%kin save: {_in_plain_words(message)}.\nUsage: {usage}")


def _in_plain_words(message: str) -> str:
    """Shorten a message of argparse."""
    both = re.fullmatch(r"argument (--\S+): not allowed with argument (--\S+)", message)
    if both is not None:
        return f"use either {both[2]} or {both[1]}"
    return re.sub(r"^argument (--[\w-]+)[^:]*?: ", r"\1: ", message).replace(
        "unrecognized arguments:", "unknown option"
    )


def _pattern(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        literal = re.escape(text)
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid regular expression ({error}). To match it literally: {literal!r}"
        ) from None
    if pattern.search(""):
        raise argparse.ArgumentTypeError(f"{text!r} matches the empty text, and so everywhere")
    return pattern
