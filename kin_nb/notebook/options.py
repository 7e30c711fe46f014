"""What stands on a %%kin line. Light: `%load_ext` imports it."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from typing import NoReturn

from kin_nb.notebook.errors import KinError


@dataclass(frozen=True)
class CellOptions:
    """What stands on the %%kin line. `text` is the line with its blanks evened out: part of the cell's key."""

    mode: str | None = None
    model: str | None = None
    text: str = ""


class _Parser(argparse.ArgumentParser):
    """argparse that raises one clear line instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        raise KinError(f"%%kin: {message}. Usage: {self.format_usage().removeprefix('usage: ').strip()}")


def parse_options(line: str) -> CellOptions:
    """Raises KinError that names the option and shows the usage."""
    parser = _Parser(prog="%%kin", add_help=False, allow_abbrev=False)
    parser.add_argument("--mode")
    parser.add_argument("--model")
    try:
        found = parser.parse_args(shlex.split(line))
    except ValueError as error:
        raise KinError(f"%%kin: {error}.") from error
    return CellOptions(found.mode, found.model, " ".join(line.split()))
