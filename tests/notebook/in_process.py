"""Kernels without a process: an IPython shell, and of a kernel only what kin_nb asks of one (kin_nb/notebook/cell_io.py)."""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets.config import Config

from tests.notebook.people import standing_in

_CONFIG = Config()
_CONFIG.HistoryManager.enabled = False
_KERNEL = type("Kernel", (), {"__module__": "ipykernel.in_process"})


class _Session:
    """Keeps what a kernel would send on iopub."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def send(self, stream: object, msg_type: str, content: dict[str, Any], **_: object) -> None:
        self.sent.append((msg_type, content))


class CellKernel(_KERNEL):  # type: ignore[misc, valid-type]
    """What kin_nb asks of a kernel: `session.send`, and the `parent` message of the running cell."""

    ident = "kernel"
    iopub_socket = None

    def __init__(self, session: Any) -> None:
        self.session = session
        self.parent: dict[str, Any] = {}

    def get_parent(self, _: str) -> dict[str, Any]:
        return self.parent


class CellShell(InteractiveShell):
    @classmethod
    def create(cls, kernel: CellKernel) -> CellShell:
        shell = cls(config=_CONFIG)
        shell.kernel = kernel
        return shell

    def _showtraceback(self, etype: type[BaseException], evalue: BaseException, stb: list[str]) -> None:
        self.kernel.session.send(
            None, "error", {"ename": etype.__name__, "evalue": str(evalue), "traceback": list(stb)}
        )


class Kernel:
    """A person's kernel: `home` is theirs, `file` the notebook that it serves. `load_ext` has run.

    `named`: whether the front end tells the kernel which file that is.
    """

    def __init__(self, home: Path, file: Path, *, named: bool = True) -> None:
        self.home, self.file, self._named = home, file, named
        with self._at_home():
            self.shell = CellShell.create(CellKernel(_Session()))
            self._displays: dict[str, dict[str, Any]] = {}
            self._messages = 0
            self.shell.extension_manager.load_extension("kin_nb")

    def run(
        self, source: str, cell_id: str | None, *, stop_on_error: bool = True, **environ: str
    ) -> tuple[list[dict[str, Any]], BaseException | None]:
        """What a front end keeps of the cell's outputs, and what it raised."""
        kernel = self.shell.kernel
        kernel.session.sent = []
        kernel.parent = {
            "metadata": {"cellId": cell_id} if cell_id else {},
            "content": {"code": source, "allow_stdin": False, "stop_on_error": stop_on_error},
            "header": {"msg_id": "m"},
        }
        printed = io.StringIO()
        with self._at_home(environ), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            result = self.shell.run_cell(source, store_history=True, cell_id=cell_id)
        outputs = self._kept(kernel.session.sent)
        if printed.getvalue():
            outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
        return outputs, result.error_before_exec or result.error_in_exec

    def close(self) -> None:
        with self._at_home():
            close_shell(self.shell)

    @contextlib.contextmanager
    def _at_home(self, environ: Mapping[str, str] | None = None) -> Iterator[None]:
        before, folder = dict(os.environ), Path.cwd()
        own = {"HOME": self.home, "KIN_HOME": self.home / "kin", "JPY_SESSION_NAME": self.file if self._named else ""}
        os.environ.update({name: str(path) for name, path in own.items()})
        os.environ.update({"KIN_APPROVAL": "headless", **(environ or {})})
        os.chdir(self.file.parent)
        try:
            yield
        finally:
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(before)

    def _kept(self, sent: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
        """The last state of each display, and errors. An update of an earlier cell's display changes what `run` returned."""
        kept: dict[str, dict[str, Any]] = {}
        for kind, content in json.loads(json.dumps(sent)):
            self._messages += 1
            name = content.get("transient", {}).get("display_id", str(self._messages))
            if kind == "update_display_data" and name not in kept:
                self._displays[name] |= {"data": content["data"], "metadata": content["metadata"]}
            elif kind in {"display_data", "update_display_data"}:
                kept[name] = {"output_type": "display_data", "data": content["data"], "metadata": content["metadata"]}
            elif kind == "stream":
                kept[name] = {"output_type": "stream", **content}
            elif kind == "error":
                kept[name] = {"output_type": "error", **content}
        self._displays |= kept
        return list(kept.values())


class ShellOfPerson:
    """An IPython shell that has `environ` and `folder`, as a kernel process would. What it sends goes to `send`.

    Code that changes the environment or the folder changes them for the next cell, and not for the tests.
    """

    def __init__(self, environ: Mapping[str, str], folder: Path | str) -> None:
        self._environ, self._folder = dict(environ), str(folder)
        with self._inside():
            self.shell = CellShell.create(CellKernel(self))

    def send(
        self, _: object, msg_type: str, content: dict[str, Any], *, parent: dict[str, Any] | None = None, **__: object
    ) -> None:
        """Take what a kernel would send on iopub; `parent`: the request that it belongs to, None for the running one."""
        raise NotImplementedError

    def execute(self, request: dict[str, Any]) -> ExecutionResult:
        self.shell.kernel.parent = request
        printed = _Printed(self)
        content, cell = request["content"], request["metadata"].get("cellId")
        with self._inside(), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            return self.shell.run_cell(content["code"], store_history=True, cell_id=cell)

    def close(self) -> None:
        with self._inside():
            close_shell(self.shell)

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        with standing_in(self._environ, self._folder):
            try:
                yield
            finally:
                self._environ, self._folder = dict(os.environ), str(Path.cwd())


class _Printed(io.TextIOBase):
    """What a cell prints."""

    def __init__(self, shell: ShellOfPerson) -> None:
        self._shell = shell

    def write(self, text: str) -> int:
        if text:
            self._shell.send(None, "stream", {"name": "stdout", "text": text})
        return len(text)


def close_shell(shell: CellShell) -> None:
    shell.extension_manager.unload_extension("kin_nb")
    shell.restore_sys_module_state()
    atexit.unregister(shell.atexit_operations)  # which would keep the shell, and all that it ran
