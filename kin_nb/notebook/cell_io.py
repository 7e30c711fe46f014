"""Writing to one cell, from any thread. `cell_io(ip)` chooses what fits the shell."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Protocol

CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The ids that nbformat allows."""


class CellOutput(Protocol):
    """The output area of a cell: where a turn is shown.

    `updates_in_place`: whether `display(update=True)` redraws what `display_id` names. Where it does not, show only
    what is settled: a person reads along there (a console). `is_watched`: a front end shows what changes. `cell_id` is
    None when the client gave none; `allow_stdin` says whether `input()` reaches a person.
    """

    @property
    def updates_in_place(self) -> bool: ...

    @property
    def is_watched(self) -> bool: ...

    @property
    def parent(self) -> dict[str, Any]: ...

    @property
    def cell_id(self) -> str | None: ...

    @property
    def allow_stdin(self) -> bool: ...

    def display(
        self,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        display_id: str | None = None,
        update: bool = False,
    ) -> None: ...

    def stream(self, text: str, name: str = "stdout") -> None: ...

    def asking(self, prompt: str) -> str:
        """Return the prompt for `input()` in this front end."""
        ...


class CellIO:
    """The output of the cell that is executing when this is created, also while the kernel runs a later cell.

    A bare `display()` from a thread goes to the kernel's newest cell, so every message names its parent.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._parent: dict[str, Any] = kernel.get_parent("shell")
        self._column = _Column()
        _flush_printed()  # what the cell has printed so far comes first

    @property
    def updates_in_place(self) -> bool:
        """Whether outputs can be redrawn. Consoles cannot: they send no cell id, take input, and draw an output once."""
        return self.is_watched or not self.allow_stdin

    @property
    def is_watched(self) -> bool:
        """Whether a front end shows the outputs now. nbclient and papermill send no cell id, and show them at the end."""
        return self.cell_id is not None

    @property
    def parent(self) -> dict[str, Any]:
        """Return the cell's execute_request message."""
        return self._parent

    @property
    def cell_id(self) -> str | None:
        """Return the cell's id. VS Code sends a URI with the notebook's path, which must not be saved: a digest replaces it."""
        found = self._parent.get("metadata", {}).get("cellId")
        if not isinstance(found, str) or not found:
            return None
        return found if CELL_ID.fullmatch(found) else sha256(found.encode(errors="backslashreplace")).hexdigest()[:32]

    @property
    def allow_stdin(self) -> bool:
        return bool(self._parent.get("content", {}).get("allow_stdin"))

    def display(
        self,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        display_id: str | None = None,
        update: bool = False,
    ) -> None:
        """Show a MIME bundle. With `update`, redraw every output that was shown under `display_id`; a console does not."""
        if update and not self.updates_in_place:
            return
        transient = {"display_id": display_id} if display_id else {}
        content = {"data": dict(data), "metadata": dict(metadata or {}), "transient": transient}
        if not self.updates_in_place:
            content["data"]["text/plain"] = self._column.card(data, metadata, bold=_wants_bold())
        self._send("update_display_data" if update else "display_data", content)

    def stream(self, text: str, name: str = "stdout") -> None:
        self._send("stream", {"name": name, "text": text if self.updates_in_place else self._column.line(text)})

    def asking(self, prompt: str) -> str:
        return prompt if self.updates_in_place else self._column.question(prompt, bold=_wants_bold())

    def _send(self, msg_type: str, content: dict[str, Any]) -> None:
        kernel = self._kernel
        topic = f"kernel.{kernel.ident}.{msg_type}".encode()
        kernel.session.send(kernel.iopub_socket, msg_type, content, parent=self._parent, ident=topic)


class TerminalIO:
    """IPython in a terminal: text/plain, printed once. Nothing printed can be redrawn."""

    updates_in_place = False
    is_watched = False
    parent: dict[str, Any] = {}  # noqa: RUF012  (never written to)
    cell_id: str | None = None

    def __init__(self) -> None:
        self._column = _Column()

    @property
    def allow_stdin(self) -> bool:
        return sys.stdin is not None and sys.stdin.isatty()

    def display(
        self,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        display_id: str | None = None,  # noqa: ARG002
        update: bool = False,
    ) -> None:
        if update:
            return
        if _is_reply(metadata) and _is_terminal():
            from kin_nb.render.terminal import wrapped  # noqa: PLC0415  (%load_ext draws nothing)

            data = {**data, "text/plain": wrapped(_text(data), shutil.get_terminal_size().columns)}
        self._print(self._column.card(data, metadata, bold=_is_terminal() and _wants_bold()) + "\n")

    def stream(self, text: str, name: str = "stdout") -> None:
        self._print(self._column.line(text), name)

    def asking(self, prompt: str) -> str:
        return self._column.question(prompt, bold=_is_terminal() and _wants_bold())

    def _print(self, text: str, name: str = "stdout") -> None:
        print(text, end="", file=sys.stderr if name == "stderr" else sys.stdout, flush=True)


class _Column:
    """The printed text of a cell where outputs cannot be redrawn.

    A blank line separates two cards, and precedes a question. Their first line may be bold.
    """

    def __init__(self) -> None:
        self._begun = self._ends_in_card = False

    def card(self, data: Mapping[str, Any], metadata: Mapping[str, Any] | None, *, bold: bool) -> str:
        text = self._apart(
            _text(data), bold=bold and not _is_reply(metadata)
        )  # the first line of a reply is not a heading
        self._ends_in_card = True
        return text

    def question(self, prompt: str, *, bold: bool) -> str:
        return self._apart(prompt, bold=bold)

    def line(self, text: str) -> str:
        """Print a line. Consecutive lines have no blank line between them."""
        above = "\n" if self._ends_in_card else ""
        self._begun, self._ends_in_card = True, False
        return above + text

    def _apart(self, text: str, *, bold: bool) -> str:
        above = "\n" if self._begun else ""
        self._begun, self._ends_in_card = True, False
        fact, newline, rest = text.partition("\n")
        return above + (f"\x1b[1m{fact}\x1b[0m{newline}{rest}" if bold else text)


def cell_io(ip: Any) -> CellOutput:
    """Return the output of the cell that `ip` (an InteractiveShell) is running."""
    kernel = getattr(ip, "kernel", None)
    return CellIO(kernel) if kernel is not None else TerminalIO()


def _text(data: Mapping[str, Any]) -> str:
    return str(data.get("text/plain", ""))


def _is_reply(metadata: Mapping[str, Any] | None) -> bool:
    return bool((metadata or {}).get("kin", {}).get("kind", "reply") == "reply")


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _wants_bold() -> bool:
    """Whether text may be bold: not if NO_COLOR is set and not empty (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _flush_printed() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def has_reader(io: CellOutput) -> bool:
    """Whether a user may read the output now: a notebook sends a cell id, and a console takes input."""
    return bool(io.cell_id or io.allow_stdin)
