"""Parse the options of a %%kin line; the exceptions that a cell shows. Light: `%load_ext` imports it."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn


class KinError(Exception):
    """Shown by IPython as its message alone; the cell counts as failed, so Run All stops there."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows instead of a stack trace (its own hook)."""
        return str(self).splitlines()


class InPlaybackError(KinError):
    """A command that has no effect in playback. With a user it becomes a notice, so that Run All continues."""


class TurnFailedError(KinError):
    """The turn ended with an error. The cell shows what happened before it."""


_DESCRIPTION = "Ask the agent: the cell's text is the prompt, sent verbatim."
_EPILOG = """In a prompt, @name attaches a variable, @path a file, @error the last error.
The answer, a card per tool call and the approvals appear in this cell. %kin help lists the commands."""


@dataclass(frozen=True)
class CellOptions:
    """The options of one %%kin line. `text`: the line with single blanks; it is part of the cell's key.

    `max_requests` (to the model) and `max_price` (USD) limit this cell only. `out`: the variable that gets the reply.
    """

    mode: str | None = None
    model: str | None = None
    tools: bool = True
    new: bool = False
    retry: bool = False
    cached: bool = False
    live: bool = False
    session: str | None = None
    out: str | None = None
    max_requests: int | None = None
    max_price: float | None = None
    help: bool = False
    text: str = ""


class OptionsParser(argparse.ArgumentParser):
    """An argparse parser with errors of one line: the option, the value and the valid ones."""

    @property
    def names(self) -> list[str]:
        """Return all options as they are typed."""
        return [name for action in self._actions for name in action.option_strings]

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words of a line. Raises KinError."""
        try:
            found, unknown = self.parse_known_args(words)
        except argparse.ArgumentError as error:
            raise KinError(f"%%kin: {_in_words(error)}") from None
        if unknown:
            raise KinError(f"%%kin: {self._unknown(unknown[0])}")
        return found

    def error(self, message: str) -> NoReturn:
        raise KinError(f"%%kin: {message}. %%kin --help lists all options.")

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"`{word}` is not an option. Write the prompt below the %%kin line."
        from difflib import get_close_matches  # noqa: PLC0415  (only for a mistake)

        name = word.partition("=")[0]
        near = [each for each in self.names if each.startswith(name) and name not in ("-", "--")]
        near = near or get_close_matches(name, self.names, 2)
        hint = f"Did you mean {' or '.join(near[:3])}? " if near else ""
        return f"unknown option {name}. {hint}%%kin --help lists all."


def _in_words(error: argparse.ArgumentError) -> str:
    name = (error.argument_name or "").partition("/")[0]
    if other := re.search(r"not allowed with argument (\S+)", error.message):
        return f"{name} and {other[1].partition('/')[0]} exclude each other. Use one of them."
    if error.message.startswith("ignored explicit"):
        return f"{name} takes no value. %%kin --help lists all options."
    if error.message.startswith("expected"):
        return f"{name} needs a value. %%kin --help lists all options."
    return f"{name} {error.message}"


def options_parser() -> OptionsParser:
    parser = OptionsParser(
        prog="%%kin",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        add_help=False,
        allow_abbrev=False,
        exit_on_error=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=100),
    )
    add = parser.add_argument
    add("--mode", help="default, plan, accept-edits, auto-approve, or one of agents/*.toml; for this cell")
    add("--model", metavar="ALIAS", help="the model for this cell and the ones after it; %%kin model lists them")
    add("--no-tools", dest="tools", action="store_false", help="the model gets no tools for this prompt")
    add("--new", action="store_true", help="start a new conversation")
    again = parser.add_mutually_exclusive_group()
    again.add_argument(
        "--retry",
        action="store_true",
        help="ask this cell again: its old answer and everything after it are undone first, files too",
    )
    again.add_argument("--cached", action="store_true", help="show the saved answer, or fail: no model is asked")
    again.add_argument("--live", action="store_true", help="ask the model, also in a notebook that plays a recording")
    add("--session", metavar="NAME", type=_name, help="a second, separate session of this notebook")
    add("--out", metavar="NAME", type=_variable, help="the variable that gets the reply as text")
    add("--max-requests", "--max-turns", metavar="N", type=_count, help="stop this cell after N model requests")
    add("--max-price", metavar="USD", type=_price, help="stop once this cell has cost more")
    add("-h", "--help", action="store_true", help="show this text")
    return parser


def parse_options(line: str) -> CellOptions:
    """Parse a %%kin line. Raises KinError: one line with the option, the value and the valid ones."""
    try:
        words: Sequence[str] = shlex.split(line)
    except ValueError:
        raise KinError("%%kin: a quotation mark is not closed. Write --option 'a value' with both.") from None
    if not words:
        return CellOptions()  # the usual case: making the parser takes a quarter of the time of playing a turn
    found = options_parser().parse(words)
    return CellOptions(**vars(found), text=" ".join(line.split()))


def session_named(line: str) -> tuple[str, str]:
    """Split `%kin [--session NAME] COMMAND` into the session's name and the rest. Raises KinError for an invalid name."""
    word, _, rest = line.strip().partition(" ")
    if word != "--session" and not word.startswith("--session="):
        return "", line
    name, _, rest = (word.removeprefix("--session=") + " " + rest if "=" in word else rest.strip()).partition(" ")
    try:
        return _name(name), rest
    except argparse.ArgumentTypeError as error:
        raise KinError(f"%kin: --session {error}") from None


def _name(text: str) -> str:
    if not text.replace("-", "_").isidentifier():
        raise argparse.ArgumentTypeError(f"must be letters, digits, _ and -, not starting with a digit; got {text!r}.")
    return text


def _variable(text: str) -> str:
    import keyword  # noqa: PLC0415  (only with --out)

    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"needs a variable name such as `answer`, got {text!r}.")
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or more; got {text!r}.")
    return int(text)


def _price(text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0 <= price < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number in USD, 0 or more, such as 0.50; got {text!r}.")
    return price
