"""%%kin and %kin: how a notebook speaks to its sessions. Parsing and help only; sessions.py and session.py do the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from traitlets import Float, TraitError, Unicode, validate

from kin_nb.core.commands.dispatch import magic_help
from kin_nb.notebook.completion import matcher
from kin_nb.notebook.notebook_file import NotebookFileWatch
from kin_nb.notebook.options import KinError, options_parser, parse_options, session_named
from kin_nb.notebook.output_backup import OutputBackup

if TYPE_CHECKING:
    from typing import Any

    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.notebook.session import NotebookSession
    from kin_nb.notebook.sessions import NotebookSessions


@magics_class
class KinMagics(Magics):
    """Settings: `c.KinMagics.NAME = ...` in ipython_config.py, or `%config KinMagics.NAME = ...` before the first prompt."""

    mode = Unicode(None, allow_none=True, help="The mode that a session begins in.").tag(config=True)
    model = Unicode(None, allow_none=True, help="The model (an alias) that a session begins with.").tag(config=True)
    max_price = Float(None, allow_none=True, help="USD that all sessions of this notebook may cost.").tag(config=True)

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._notebook: NotebookSessions | None = None
        self.matcher = matcher(shell, self.session)
        self.since_written = NotebookFileWatch(shell)
        self.backup = OutputBackup(shell)

    @property
    def notebook(self) -> NotebookSessions:
        """Return the sessions, created with the first prompt or command, so that `%load_ext` stays fast."""
        if self._notebook is None:
            from kin_nb.notebook.sessions import NotebookSessions  # noqa: PLC0415  (as above)

            self._notebook = NotebookSessions(self.shell, self, self.since_written, self.backup)
        return self._notebook

    def session(self, name: str = "") -> NotebookSession:
        return self.notebook.session(name)

    def _asked(self, name: str = "") -> NotebookSession:
        """Return the session for the user. Raises KinError for code that a tool runs: it could grant itself permissions."""
        session = self.session(name)
        from kin_nb.notebook.namespace.time_limit import runs_for_tool  # noqa: PLC0415  (the session has it by now)

        if runs_for_tool.get():
            raise KinError("%kin and %%kin are not available to code that the agent runs.")
        return session

    @cell_magic("kin")
    def prompt(self, line: str, cell: str) -> None:
        options = parse_options(line)
        if options.help:
            print(options_parser().format_help())  # noqa: T201  (as other magics show theirs)
            return
        self._asked(options.session or "").run_cell(cell, options)

    @line_magic("kin")
    def command(self, line: str) -> None:
        from kin_nb.notebook.commands import run_line  # noqa: PLC0415  (as above)

        name, rest = session_named(line)
        run_line(self._asked(name), rest, name)

    @cell_magic("kin_recording")
    def recording(self, line: str, cell: str) -> None:
        """Cell magic that holds the recording of this notebook; its prompts are played from it."""
        self._asked().replay(line.strip(), None, cell)

    def close(self) -> None:
        notebook, self._notebook = self._notebook, None
        self.backup.known = tuple
        if notebook is not None:
            notebook.close()

    @validate("max_price")
    def _is_an_amount(self, proposal: Any) -> Any:
        if proposal["value"] is not None and not proposal["value"] >= 0:
            raise TraitError(f"KinMagics.max_price must be a number in USD, 0 or more; got {proposal['value']}.")
        return proposal["value"]


KinMagics.prompt.__doc__ = options_parser().format_help()  # what %%kin? shows
KinMagics.command.__doc__ = magic_help()  # what %kin? shows
