"""What stands on a %%kin line, and what goes wrong in a cell. Light: `%load_ext` imports it."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn


class KinError(Exception):
    """Shown by IPython as its message alone; the cell counts as failed, so Run All stops there."""

    def _render_traceback_(self) -> list[str]:
        """IPython's own hook for exceptions that know how to show themselves."""
        return str(self).splitlines()


class InPlaybackError(KinError):
    """A command that can do nothing in playback. Where a person is there it is a notice, so that Run All goes on."""


class TurnFailedError(KinError):
    """The turn ended with an error; what had happened until then is shown above."""


_DESCRIPTION = "Ask the agent: the cell's text is the prompt, to the letter."
_EPILOG = """In a prompt, @name attaches a variable, @path a file, @error the last error.
The answer, a card per tool call and the approvals appear in this cell. %kin help lists the commands."""


@dataclass(frozen=True)
class CellOptions:
    """What stands on the %%kin line. `text` is the line with its blanks evened out: part of the cell's key.

    `max_turns` counts requests to the model, `max_price` USD; both are about this cell alone. `out`: the variable that
    gets the reply.
    """

    mode: str | None = None
    model: str | None = None
    tools: bool = True
    fresh: bool = False
    retry: bool = False
    cached: bool = False
    live: bool = False
    session: str | None = None
    out: str | None = None
    max_turns: int | None = None
    max_price: float | None = None
    help: bool = False
    text: str = ""


class OptionsParser(argparse.ArgumentParser):
    """argparse that raises one clear line instead of leaving the process."""

    @property
    def names(self) -> list[str]:
        """All options, as they are typed."""
        return [name for action in self._actions for name in action.option_strings]

    def error(self, message: str) -> NoReturn:
        usage = " ".join(self.format_usage().removeprefix("usage: ").split())
        raise KinError(f"%%kin: {message}. Usage: {usage}")


def options_parser() -> OptionsParser:
    parser = OptionsParser(
        prog="%%kin",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        add_help=False,
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=100),
    )
    add = parser.add_argument
    add("--mode", help="default, plan, accept-edits, auto-approve, or one of agents/*.toml; for this cell")
    add("--model", metavar="ALIAS", help="which model answers, from here on")
    add("--no-tools", dest="tools", action="store_false", help="this prompt is answered without tools")
    add("--fresh", action="store_true", help="begin a new conversation")
    again = parser.add_mutually_exclusive_group()
    again.add_argument(
        "--retry", action="store_true", help="ask this cell again from where it stood: what came after it is undone"
    )
    again.add_argument("--cached", action="store_true", help="show the recorded answer, or fail: no model is called")
    again.add_argument("--live", action="store_true", help="ask the model, also where this notebook is in playback")
    add("--session", metavar="NAME", type=_name, help="another conversation, beside the notebook's own")
    add("--out", metavar="NAME", type=_variable, help="the variable that gets the reply as text")
    add("--max-turns", metavar="N", type=_count, help="at most so many requests to the model")
    add("--max-price", metavar="USD", type=_price, help="stop once this cell has cost more")
    add("-h", "--help", action="store_true", help="this text")
    return parser


def parse_options(line: str) -> CellOptions:
    """Raises KinError that names the option and shows the usage."""
    try:
        words: Sequence[str] = shlex.split(line)
    except ValueError as error:
        raise KinError(f"%%kin: {error}.") from error
    if not words:
        return CellOptions()  # nearly always: making the parser takes a quarter of what playing a turn takes
    found = options_parser().parse_args(words)
    return CellOptions(**vars(found), text=" ".join(line.split()))


def session_named(line: str) -> tuple[str, str]:
    """(the session's name, the rest) of a `%kin [--session NAME] COMMAND` line. Raises KinError for what is no name."""
    word, _, rest = line.strip().partition(" ")
    if word != "--session" and not word.startswith("--session="):
        return "", line
    name, _, rest = (word.removeprefix("--session=") + " " + rest if "=" in word else rest.strip()).partition(" ")
    try:
        return _name(name), rest
    except argparse.ArgumentTypeError as error:
        raise KinError(f"%kin --session: {error}.") from None


def _name(text: str) -> str:
    if not text.replace("-", "_").isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is no name: letters, digits, _ and -")
    return text


def _variable(text: str) -> str:
    import keyword  # noqa: PLC0415  (rarely asked for)

    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name for a variable")
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, got {text!r}")
    return int(text)


def _price(text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0 <= price < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of USD from 0, got {text!r}")
    return price
