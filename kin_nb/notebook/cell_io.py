"""Writing to one cell, from any thread. `cell_io(ip)` chooses what fits the shell."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Protocol

_CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""As nbformat has them."""


class CellOutput(Protocol):
    """Where one turn is shown.

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


class CellIO:
    """The cell that is being executed when this is made; its outputs stay its own, whatever the kernel runs next.

    A bare `display()` from a thread goes to the kernel's newest cell, so every message names its parent.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._parent: dict[str, Any] = kernel.get_parent("shell")
        _flush_printed()  # what the cell has printed so far comes first

    @property
    def updates_in_place(self) -> bool:
        """Consoles do not: they name no cells, take input, and draw no output twice."""
        return self.is_watched or not self.allow_stdin

    @property
    def is_watched(self) -> bool:
        """Notebooks name their cells; nbclient and papermill do not, and nobody looks until they are done."""
        return self.cell_id is not None

    @property
    def parent(self) -> dict[str, Any]:
        """The cell's execute_request."""
        return self._parent

    @property
    def cell_id(self) -> str | None:
        """VS Code gives a URI with the notebook's path in it: that is saved nowhere, a digest of it names the cell."""
        found = self._parent.get("metadata", {}).get("cellId")
        if not isinstance(found, str) or not found:
            return None
        return found if _CELL_ID.fullmatch(found) else sha256(found.encode(errors="backslashreplace")).hexdigest()[:32]

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
        """Show a MIME bundle. With `update`, redraw every output that was shown under `display_id`."""
        transient = {"display_id": display_id} if display_id else {}
        content = {"data": dict(data), "metadata": dict(metadata or {}), "transient": transient}
        self._send("update_display_data" if update else "display_data", content)

    def stream(self, text: str, name: str = "stdout") -> None:
        self._send("stream", {"name": name, "text": text})

    def _send(self, msg_type: str, content: dict[str, Any]) -> None:
        kernel = self._kernel
        topic = f"kernel.{kernel.ident}.{msg_type}".encode()
        kernel.session.send(kernel.iopub_socket, msg_type, content, parent=self._parent, ident=topic)


class TerminalIO:
    """IPython in a terminal: text/plain, printed once, a blank line between two. Nothing printed can be redrawn.

    A card's first line, the fact, is bold where a terminal draws that and the person has not set NO_COLOR.
    """

    updates_in_place = False
    is_watched = False
    parent: dict[str, Any] = {}  # noqa: RUF012  (never written to)
    cell_id: str | None = None

    def __init__(self) -> None:
        self._has_shown = False

    @property
    def allow_stdin(self) -> bool:
        return sys.stdin is not None and sys.stdin.isatty()

    def display(
        self,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        display_id: str | None = None,  # noqa: ARG002
        update: bool = False,  # noqa: ARG002
    ) -> None:
        text = str(data.get("text/plain", ""))
        kind = (metadata or {}).get("kin", {}).get("kind", "reply")
        if kind != "reply" and _draws_bold():  # in a reply the first line is no heading
            fact, newline, rest = text.partition("\n")
            text = f"\x1b[1m{fact}\x1b[0m{newline}{rest}"
        self.stream(("\n" if self._has_shown else "") + text + "\n")
        self._has_shown = True

    def stream(self, text: str, name: str = "stdout") -> None:
        print(text, end="", file=sys.stderr if name == "stderr" else sys.stdout, flush=True)


def cell_io(ip: Any) -> CellOutput:
    """The output of the cell that `ip` (an InteractiveShell) is running."""
    kernel = getattr(ip, "kernel", None)
    return CellIO(kernel) if kernel is not None else TerminalIO()


def _draws_bold() -> bool:
    """https://no-color.org: NO_COLOR set to anything but nothing."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout is not None and sys.stdout.isatty()


def _flush_printed() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
