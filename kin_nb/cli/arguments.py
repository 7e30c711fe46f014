"""The argument parser of `kin-nb`: errors in two plain lines, and the types of option values."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, NoReturn

from kin_nb.cli.console import USAGE

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_TOO_LARGE = 10**6
_REWRITES = (
    (r"argument (?P<name>\S+): (?P<what>must .*)", r"\g<name> \g<what>"),
    (r"argument (?P<name>\S+): not allowed with argument (?P<other>\S+)", r"Give only one of \g<other> and \g<name>"),
    (r"argument (?P<name>\S+): expected one argument", r"\g<name> needs a value"),
    (r"argument (?P<name>\S+): expected (?P<count>\d+) arguments", r"\g<name> needs \g<count> values"),
    (r"the following arguments are required: (?P<names>.*)", r"\g<names> is missing"),
    (r"ambiguous option: (?P<name>\S+) could match (?P<others>.*)", r"\g<name> could mean \g<others>"),
)
"""argparse's messages, and the same in plain words. A message that matches none is shown as it is."""


class ArgumentParser(argparse.ArgumentParser):
    """Reports wrong usage in two lines: what is wrong, and the command that lists what is right.

    `hint`: replaces the second line, where another command helps more.
    """

    hint = ""

    def error(self, message: str) -> NoReturn:
        hint = self.hint or f"`{self.prog} --help` lists what it takes."
        text = self._plain(message).rstrip(".")
        self.exit(USAGE, f"{self.prog}: {text}{'' if text.endswith('?') else '.'}\n{hint}\n")

    def _plain(self, message: str) -> str:
        for pattern, text in _REWRITES:
            if found := re.fullmatch(pattern, message, re.DOTALL):
                return found.expand(text)
        if found := re.fullmatch(r"argument (\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)", message):
            name, value, choices = found[1], found[2], found[3].replace("'", "").split(", ")
            wrong = f"unknown command {value}" if name == "COMMAND" else f"{name} must be one of {', '.join(choices)}"
            return f"{wrong}{'' if name == 'COMMAND' else f', got {value}'}{_did_you_mean(value, choices)}"
        if found := re.fullmatch(r"unrecognized arguments: (.*)", message):
            option = found[1].split()[0].partition("=")[0]
            known = [name for action in self._actions for name in action.option_strings]
            return f"unknown argument {found[1]}{_did_you_mean(option, known)}"
        return message

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Report an unknown option with the options of its own command.

        argparse itself reports it from the outermost parser, which does not know these.
        """
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown


def _did_you_mean(word: str, known: list[str]) -> str:
    near = get_close_matches(word, known, n=2)
    return f". Did you mean {' or '.join(near)}?" if near else ""


def whole_number(text: str) -> int:
    """From 0."""
    return _whole(text, 0)


def positive_number(text: str) -> int:
    """A whole number, from 1."""
    return _whole(text, 1)


def _whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None
    if number < least:
        raise argparse.ArgumentTypeError(f"must be {least} or more, got {number}")
    if number >= _TOO_LARGE:
        raise argparse.ArgumentTypeError(f"must be less than {_TOO_LARGE}, got {number}")
    return number


def price(text: str) -> float:
    """An amount of USD, from 0."""
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not amount >= 0:
        raise argparse.ArgumentTypeError(f"must be a number in USD such as 0.50, got {text!r}")
    return amount


def time_since(text: str) -> datetime:
    """`90s`, `5m`, `2h`, `3d` or `1w` ago; or a date, with or without a time, in local time unless it has an offset."""
    if ago := re.fullmatch(r"(\d{1,6})([smhdw])", text):
        try:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"must be a time such as 2h, 3d or 2025-01-31, got {text!r}") from None
