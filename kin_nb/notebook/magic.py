"""%%kin and %kin: how a notebook speaks to its sessions. Parsing and help only; session.py does the work."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from IPython.core.inputtransformer2 import cell_magic as to_python
from IPython.core.inputtransformer2 import leading_empty_lines
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from traitlets import Enum, Float, TraitError, Unicode, validate

from kin_nb.core.commands.registry import magic_help
from kin_nb.notebook.completion import matcher
from kin_nb.notebook.errors import KinError
from kin_nb.notebook.options import options_parser, parse_options, session_named
from kin_nb.notebook.queued import Queued
from kin_nb.notebook.since_written import SinceWritten
from kin_nb.notebook.welcome import welcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.notebook.session import KinSession

_MAGIC = re.compile(r"%%kin\s")
_PLAYED = "_kin_nb_played"
"""What tells, within one cell, that `%reload_ext kin_nb` ends playback: what is below must not turn to a model."""
_LOAD = re.compile(r"%load_ext[ \t]+kin_nb\s*")


@magics_class
class KinMagics(Magics):
    """Settings: `c.KinMagics.NAME = ...` in ipython_config.py, or `%config KinMagics.NAME = ...` before the first prompt."""

    mode = Unicode(None, allow_none=True, help="The mode that a session begins in.").tag(config=True)
    model = Unicode(None, allow_none=True, help="The model (an alias) that a session begins with.").tag(config=True)
    rerun = Enum(
        ["ask", "show", "retry", "new"],
        "ask",
        help="Running an answered cell again: ask with buttons, show that answer, ask again from where it stood, "
        "or ask as a new turn. Where nobody can be asked, `ask` shows the answer.",
    ).tag(config=True)
    max_price = Float(None, allow_none=True, help="USD that all sessions of this notebook may cost.").tag(config=True)

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._sessions: dict[str, KinSession] = {}
        self.matcher = matcher(shell, self.session)
        self.since_written = SinceWritten(shell)
        self.queued = Queued(shell)

    def events(self) -> list[tuple[str, Callable[..., None]]]:
        """What is told of IPython's events."""
        return [
            ("pre_execute", self.queued.executes),
            ("pre_run_cell", self.queued.cell_begins),
            ("post_run_cell", self.queued.cell_ran),
            ("post_run_cell", self.since_written.cell_ran),
        ]

    def session(self, name: str = "") -> KinSession:
        """Made with its first command or prompt. The notebook's own has no name.

        What it plays was perhaps asked under another name: while it plays, it is asked first, whatever is named.
        """
        return self._sessions[""] if self.in_playback else self.beside(name)

    @property
    def in_playback(self) -> bool:
        own = self._sessions.get("")
        return own is not None and own.in_playback

    def beside(self, name: str) -> KinSession:
        """The session of that name, whatever the notebook's own does."""
        if name not in self._sessions:
            from kin_nb.notebook.session import KinSession  # noqa: PLC0415  (%load_ext stays under its budget)

            self._sessions[name] = KinSession(self.shell, self, name)
            if name and "" in self._sessions:
                self._sessions[""].play_beside(self._sessions[name])
        return self._sessions[name]

    def begin_again(self, session: KinSession) -> None:
        """The notebook's own session begins to play: the others, which stay in the log, play anew beside it."""
        if self._sessions.get("") is session:
            for name in [each for each in self._sessions if each]:
                self._sessions.pop(name).close()

    def spent_besides(self, session: KinSession) -> float:
        """USD that the other sessions have cost until now."""
        others = [other.begun for other in self._sessions.values() if other is not session]
        return sum(agent.stats.all_cost for agent in others if agent is not None)

    def _asked(self, name: str = "") -> KinSession:
        """`session(name)`, for a person. Raises KinError when it is a tool's code that asks: it would allow itself more."""
        session = self.session(name)
        from kin_nb.notebook.live.main_thread import for_a_tool  # noqa: PLC0415  (the session has it by now)

        if for_a_tool.get():
            raise KinError("Only the person can use %kin and %%kin: code that a tool runs cannot.")
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
        from kin_nb.notebook.commands import run_line  # noqa: PLC0415  (%load_ext stays under its budget)

        name, rest = session_named(line)
        run_line(self._asked(name), rest, name)

    @cell_magic("kin_recording")
    def recording(self, line: str, cell: str) -> None:
        """The recording of this notebook, in a cell: from here on its prompts are played from it."""
        self._asked().replay(line.strip(), None, cell)

    def close(self) -> None:
        while self._sessions:
            self._sessions.popitem()[1].close()

    @validate("max_price")
    def _is_an_amount(self, proposal: Any) -> Any:
        if proposal["value"] is not None and not proposal["value"] >= 0:
            raise TraitError("KinMagics.max_price is an amount in USD, from 0 on.")
        return proposal["value"]


KinMagics.prompt.__doc__ = options_parser().format_help()  # what %%kin? shows
KinMagics.command.__doc__ = magic_help()  # what %kin? shows


def to_the_letter(lines: list[str]) -> list[str]:
    """The first input transformer: a %%kin cell has its text from here on, before others take `>>>` or `In [1]:` out of it."""
    cell = leading_empty_lines(lines)
    return to_python(cell) if cell and _MAGIC.match(cell[0]) else lines


to_the_letter.has_side_effects = True  # type: ignore[attr-defined]  # so IPython asks of %%kin, not of this, what is complete


def without_loading_again(lines: list[str]) -> list[str]:
    """An input transformer: a cell that begins with `%load_ext kin_nb` shows what it showed when that was not loaded yet.

    IPython would print that it is, which no saved notebook has: in the Kin kernel, and when all is run without a restart.
    """
    first = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith("#")), None)
    if first is None or not _LOAD.fullmatch(lines[first]):
        return lines
    return [*lines[:first], "\n", *lines[first + 1 :]]


def check_kernel(ip: InteractiveShell) -> None:
    """Raise KinError in a kernel that is not ipykernel, such as xeus-python; IPython in a terminal has no kernel."""
    kernel = getattr(ip, "kernel", None)
    if kernel is None or any(base.__module__.split(".")[0] == "ipykernel" for base in type(kernel).__mro__):
        return
    raise KinError(
        f"kin_nb needs the ipykernel kernel; this one is {type(kernel).__module__}.{type(kernel).__qualname__}.\n"
        "Choose the kernel “Python 3 (ipykernel)” for this notebook, or install it: pip install ipykernel"
    )


def load(ip: InteractiveShell) -> None:
    check_kernel(ip)
    magics = KinMagics(ip)
    if magics.queued.cell in ip.__dict__.pop(_PLAYED, ()):
        magics.session().lose_playback("kin_nb was loaded again above, and playback began in the first cell")
    ip.register_magics(magics)
    for event, told in magics.events():
        ip.events.register(event, told)
    ip.input_transformers_cleanup[:0] = [to_the_letter, without_loading_again]
    if ip.Completer is not None:
        ip.Completer.custom_matchers.append(magics.matcher)
    welcome(ip)


def unload(ip: InteractiveShell) -> None:
    magics = ip.magics_manager.registry.pop("KinMagics", None)
    if magics is not None:
        if magics.in_playback and magics.queued.cell:
            ip.__dict__[_PLAYED] = (magics.queued.cell,)
        magics.close()
        for event, told in magics.events():
            with suppress(ValueError):  # somebody took it out
                ip.events.unregister(event, told)
        for transformer in (to_the_letter, without_loading_again):
            if transformer in ip.input_transformers_cleanup:
                ip.input_transformers_cleanup.remove(transformer)
        if ip.Completer is not None and magics.matcher in ip.Completer.custom_matchers:
            ip.Completer.custom_matchers.remove(magics.matcher)
    for kind in ("line", "cell"):
        for name in ("kin", "kin_recording"):
            ip.magics_manager.magics[kind].pop(name, None)
