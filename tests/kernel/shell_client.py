"""A front end of an IPython shell in this process: the part of `LiveKernel` that needs no ipykernel, at a third of its cost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.notebook.in_process import ShellOfPerson
from tests.notebook.people import UNPLAYED


class ShellClient(ShellOfPerson):
    """Cells run one after another, when `done` asks for their reply; those queued behind one that failed are aborted.

    It answers no questions, and nothing interrupts it.
    """

    def __init__(self, home: Path, folder: Path | None = None, **environ: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KIN_", "PYTEST_"))}
        own = {"HOME": str(home), "IPYTHONDIR": str(home / "ipython"), "KIN_SAVE": UNPLAYED}
        self._queue: list[dict[str, Any]] = []
        self._replies: dict[str, dict[str, Any]] = {}
        self.seen: list[dict[str, Any]] = []
        super().__init__(kept | own | environ, folder or home)

    def send(self, _: object, msg_type: str, content: dict[str, Any], *, parent: Any = None, **__: object) -> None:
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
            reply = self._reply_to(request)
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

    def _reply_to(self, request: dict[str, Any]) -> dict[str, Any]:
        result = self.execute(request)
        error = result.error_before_exec or result.error_in_exec
        if error is None:
            return {"status": "ok", "execution_count": result.execution_count}
        return {"status": "error", "ename": type(error).__name__, "evalue": str(error)}
