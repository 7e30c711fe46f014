"""%%kin and %kin: how a notebook speaks to its session. Parsing and help only; session.py does the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class

from kin_nb.core.commands.registry import magic_help
from kin_nb.notebook.options import parse_options

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.notebook.session import KinSession


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
        from kin_nb.notebook.commands import run_line  # noqa: PLC0415  (%load_ext stays under its budget)

        run_line(self.session, line)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


KinMagics.command.__doc__ = magic_help()  # what %kin? shows


def load(ip: InteractiveShell) -> None:
    ip.register_magics(KinMagics)


def unload(ip: InteractiveShell) -> None:
    magics = ip.magics_manager.registry.pop("KinMagics", None)
    if magics is not None:
        magics.close()
    for kind in ("line", "cell"):
        ip.magics_manager.magics[kind].pop("kin", None)
