"""How a session notebook is saved: what `%kin save`, `/save` and `kin-nb save` take."""

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
    """`results`: whether what tool calls gave is stored, or their hashes only."""

    portable: bool = False
    sidecar: bool = False
    results: bool = True
    redact: tuple[re.Pattern[str], ...] = ()
    plain: bool = False
    play: bool = True
    """Whether what was saved is played once, as the settings have it (`[save] check_seconds`)."""


def add_save_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--portable", action="store_true", help="the recording in a cell, for kernels that see no file")
    form.add_argument("--sidecar", action="store_true", help="long texts in a file beside it")
    form.add_argument("--plain", action="store_true", help="no recording: what it did, as cells that need no kin_nb")
    add("--no-check", dest="play", action="store_false", help="what was saved is not played once, in a confined copy")
    add("--no-results", dest="results", action="store_false", help="hashes in place of what tools gave")
    add(
        "--redact",
        metavar="PATTERN",
        action="append",
        type=_pattern,
        default=[],
        help="take out what this regular expression matches; may be given again",
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
    """What to say of a notebook that was written with a sidecar, or is large; "" of any other."""
    if options.sidecar:
        return f"Its long texts are in {sidecar_name(path)}, which belongs beside it: copy and commit both."
    size = path.stat().st_size
    if size <= LARGE_BYTES or options.portable:
        return ""
    return f"It has {size / 1024 / 1024:.1f} MB. With --sidecar, long results go into a file beside it."


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
        raise ReplayError(f"save: {message}. Usage: {usage}")


def _pattern(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None
    if pattern.search(""):
        raise argparse.ArgumentTypeError(f"{text!r} matches nothing at all, everywhere")
    return pattern
