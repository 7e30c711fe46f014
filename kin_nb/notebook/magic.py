"""%%kin and %kin: how a notebook speaks to its session. Parsing and help only; session.py does the work."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class

from kin_nb.notebook.errors import KinError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.notebook.session import KinSession


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


@magics_class
class KinMagics(Magics):
    """One session per kernel, made with the first command or prompt."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._session: KinSession | None = None

    @property
    def session(self) -> KinSession:
        if self._session is None:
            from kin_nb.notebook.session import KinSession  # noqa: PLC0415  (%load_ext stays under its budget)

            self._session = KinSession(self.shell)
        return self._session

    @cell_magic("kin")
    def prompt(self, line: str, cell: str) -> None:
        """Ask the agent: the cell's text is the prompt, to the letter.

            %%kin [--mode default|plan|accept-edits|auto-approve] [--model ALIAS]
            The test in tests/test_stats.py fails. Find out why and fix it.

        The answer, a card per tool call and the approvals appear in this cell. `%kin help` lists the commands.
        """
        options = parse_options(line)
        self.session.run_cell(cell, options)

    @line_magic("kin")
    def command(self, line: str) -> None:
        """A command to the session.

        %kin save [PATH]                  write the session notebook
        %kin replay SESSION@DIGEST        play this notebook's recording: no model, no key
        %kin live                         leave playback: later %%kin cells ask the model
        %kin model [ALIAS]                which model answers; change it
        %kin mode [MODE]                  default, plan, accept-edits, auto-approve
        %kin last                         show the last turn again
        %kin help                         this
        """
        words = line.split()
        from kin_nb.notebook.commands import run_command  # noqa: PLC0415

        run_command(self.session, words[0] if words else "help", words[1:])

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def load(ip: InteractiveShell) -> None:
    ip.register_magics(KinMagics)


def unload(ip: InteractiveShell) -> None:
    magics = ip.magics_manager.registry.pop("KinMagics", None)
    if magics is not None:
        magics.close()
    for kind in ("line", "cell"):
        ip.magics_manager.magics[kind].pop("kin", None)
