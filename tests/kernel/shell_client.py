"""A front end of an IPython shell in this process: the part of `LiveKernel` that needs no ipykernel, at a fifth of its cost."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.notebook.in_process import CellKernel, CellShell, close_shell
from tests.notebook.people import UNPLAYED


class ShellClient:
    """Cells run one after another, when `done` asks for their reply; those queued behind one that failed are aborted.

    It answers no questions, and nothing interrupts it.
    """

    def __init__(self, home: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KIN_", "PYTEST_"))}
        own = {"HOME": str(home), "IPYTHONDIR": str(home / "ipython"), "KIN_SAVE": UNPLAYED}
        self._environ, self._folder = kept | own, str(home)
        self._queue: list[dict[str, Any]] = []
        self._replies: dict[str, dict[str, Any]] = {}
        self.seen: list[dict[str, Any]] = []
        with self._inside():
            self.shell = CellShell.create(CellKernel(self))

    def send(self, _: object, msg_type: str, content: dict[str, Any], *, parent: Any = None, **__: object) -> None:
        """Keep what a kernel would send on iopub."""
        header = (parent or self.shell.kernel.parent).get("header", {})
        message = {"msg_type": msg_type, "content": content, "parent_header": header}
        self.seen.append(json.loads(json.dumps(message)) | {"header": {"msg_id": f"out-{len(self.seen)}"}})

    def run(self, code: str, *, cell: str | None = "cell-1", allow_stdin: bool = True) -> str:
        """Queue a cell; returns its message id."""
        msg_id = f"cell-{len(self._replies) + len(self._queue)}"
        request = {
            "header": {"msg_id": msg_id},
            "metadata": {"cellId": cell} if cell else {},
            "content": {"code": code, "allow_stdin": allow_stdin, "stop_on_error": True},
        }
        self._queue.append(request)
        return msg_id

    def done(self, msg_id: str) -> dict[str, Any]:
        """The reply to a cell, which has run then."""
        while msg_id not in self._replies:
            request = self._queue.pop(0)
            reply = self._execute(request)
            self._replies[request["header"]["msg_id"]] = {"content": reply}
            if reply["status"] == "error":
                aborted = {each["header"]["msg_id"]: {"content": {"status": "aborted"}} for each in self._queue}
                self._replies |= aborted
                self._queue.clear()
        return self._replies[msg_id]

    def quietly(self, code: str) -> None:
        """Run code that is no cell of anybody: it counts nowhere."""
        with self._inside():
            self.shell.run_cell(code, store_history=False, silent=True).raise_error()

    def of(self, msg_id: str) -> list[dict[str, Any]]:
        return [message for message in self.seen if message["parent_header"].get("msg_id") == msg_id]

    def text(self, msg_id: str) -> str:
        return "".join(each["content"]["text"] for each in self.of(msg_id) if each["msg_type"] == "stream")

    def close(self) -> None:
        with self._inside():
            close_shell(self.shell)

    def _execute(self, request: dict[str, Any]) -> dict[str, Any]:
        self.shell.kernel.parent = request
        printed = _Printed(self)
        content, cell = request["content"], request["metadata"].get("cellId")
        with self._inside(), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            result = self.shell.run_cell(content["code"], store_history=True, cell_id=cell)
        error = result.error_before_exec or result.error_in_exec
        if error is None:
            return {"status": "ok", "execution_count": result.execution_count}
        return {"status": "error", "ename": type(error).__name__, "evalue": str(error)}

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        """With the environment and the folder of this kernel, which cells may change."""
        outside, folder = dict(os.environ), Path.cwd()
        _replace_environ(self._environ)
        os.chdir(self._folder)
        try:
            yield
        finally:
            self._environ, self._folder = dict(os.environ), str(Path.cwd())
            _replace_environ(outside)
            os.chdir(folder)


class _Printed(io.TextIOBase):
    """What a cell prints."""

    def __init__(self, client: ShellClient) -> None:
        self._client = client

    def write(self, text: str) -> int:
        if text:
            self._client.send(None, "stream", {"name": "stdout", "text": text})
        return len(text)


def _replace_environ(environ: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)
