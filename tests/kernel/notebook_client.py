"""A front end of one kernel: runs cells, clicks buttons, types, answers input(), and keeps every message it saw."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty

from jupyter_client import BlockingKernelClient, KernelManager

from kin_nb.replay.runner.execution import socket_settings
from tests.model_server import ModelServer
from tests.notebook.people import UNPLAYED

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
SECONDS = 60


class Client:
    """`widgets`: whether it draws widgets; `cell_ids`: whether it is a notebook that names its cells."""

    def __init__(self, client: BlockingKernelClient, *, subshell: str | None = None) -> None:
        self.client, self.subshell = client, subshell
        self.seen: list[dict] = []

    def run(self, code: str, *, cell: str | None = "cell-1", allow_stdin: bool = True) -> str:
        """Send a cell; returns its message id."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": allow_stdin,
            "stop_on_error": True,
        }
        return self._send("execute_request", content, {"cellId": cell} if cell else {})

    def quietly(self, code: str) -> None:
        """Run code that is no cell of anybody: it counts nowhere."""
        content = {"code": code, "silent": True, "store_history": False, "allow_stdin": False}
        assert self.ask("execute_request", content)["content"]["status"] == "ok"

    def ask(self, msg_type: str, content: dict) -> dict:
        """A question on the shell channel and its reply."""
        return self.reply(self._send(msg_type, content))

    def tell(self, msg_type: str, content: dict, metadata: dict | None = None) -> str:
        return self._send(msg_type, content, metadata)

    def reply(self, msg_id: str) -> dict:
        for message in _arriving(self.client.get_shell_msg):
            if message["parent_header"].get("msg_id") == msg_id:
                return message
        raise AssertionError(f"no reply within {SECONDS} s")

    def until(self, wanted: Callable[[dict], bool]) -> dict:
        """The first message, seen or to come, that `wanted` accepts."""
        for message in self._messages():
            if wanted(message):
                return message
        raise AssertionError(f"no such message within {SECONDS} s; the last: {self.seen[-3:]}")

    def done(self, msg_id: str) -> dict:
        """The reply to a cell, once its last output has been seen too."""
        reply = self.reply(msg_id)
        self.idle_after(msg_id)
        return reply

    def text(self, msg_id: str) -> str:
        return "".join(m["content"]["text"] for m in self.of(msg_id) if m["msg_type"] == "stream")

    def of(self, msg_id: str) -> list[dict]:
        return [m for m in self.seen if m["parent_header"].get("msg_id") == msg_id]

    def text_of(self, msg_id: str, wanted: str) -> dict:
        return self.until(
            lambda m: (
                m["msg_type"] == "stream"
                and m["parent_header"].get("msg_id") == msg_id
                and wanted in m["content"]["text"]
            )
        )

    # Widgets.

    def card(self, msg_id: str, says: str = "waiting") -> dict:
        """The update that puts the card into the call's display."""

        def asks(message: dict) -> bool:
            data = message["content"].get("data", {})
            return WIDGET_VIEW in data and says in data["text/plain"]

        return self.until(lambda m: asks(m) and m["parent_header"]["msg_id"] == msg_id)

    def widget(self, **state: str) -> str:
        """The comm id of the newest widget opened with this state."""
        return self.widgets(**state)[-1]

    def widgets(self, **state: str) -> list[str]:
        return [m["content"]["comm_id"] for m in self.seen if _opens(m, state)]

    def click(self, label: str) -> None:
        self.comm_msg(self.widget(description=label), {"method": "custom", "content": {"event": "click"}})

    def type_note(self, text: str) -> None:
        self.comm_msg(
            self.widget(_model_name="TextModel"), {"method": "update", "state": {"value": text}, "buffer_paths": []}
        )

    def comm_msg(self, comm_id: str, data: dict) -> str:
        return self._send("comm_msg", {"comm_id": comm_id, "data": data})

    def close_comm(self, comm_id: str) -> str:
        return self._send("comm_close", {"comm_id": comm_id, "data": {}})

    def close_comms(self) -> list[str]:
        """What a client without a widget manager does with every comm; the message ids."""
        return [self.close_comm(comm_id) for comm_id in self.widgets()]

    def idle_after(self, msg_id: str) -> dict:
        """The kernel's word that it has dealt with that message."""
        return self.until(
            lambda m: m["parent_header"].get("msg_id") == msg_id and m["content"].get("execution_state") == "idle"
        )

    def prompt(self) -> str:
        return self.client.get_stdin_msg(timeout=SECONDS)["content"]["prompt"]

    def answer(self, text: str) -> None:
        self.client.input(text)

    def _send(self, msg_type: str, content: dict, metadata: dict | None = None) -> str:
        message = self.client.session.msg(msg_type, content, metadata=metadata)
        if self.subshell and msg_type != "execute_request":
            message["header"]["subshell_id"] = self.subshell
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def _messages(self) -> Iterator[dict]:
        yield from list(self.seen)
        for message in _arriving(self.client.get_iopub_msg):
            self.seen.append(message)
            yield message


def says_where_to_answer(message: dict) -> bool:
    """Whether it puts into a card that the click of another client was ignored."""
    state = message["content"].get("data", {}).get("state", {})
    return message["msg_type"] == "comm_msg" and "this page did not run the cell" in str(state.get("value"))


def _arriving(get: Callable[..., dict]) -> Iterator[dict]:
    """What arrives until SECONDS have passed."""
    deadline = time.monotonic() + SECONDS
    while (left := deadline - time.monotonic()) > 0:
        try:
            yield get(timeout=left)
        except Empty:
            return


def _opens(message: dict, state: dict) -> bool:
    if message["msg_type"] != "comm_open":
        return False
    return all(message["content"]["data"]["state"].get(key) == value for key, value in state.items())


class LiveKernel(Client):
    """A kernel process and its front end."""

    def __init__(
        self,
        paths: list[Path],
        environment: dict[str, str],
        *,
        subshells: bool,
        module: str = "ipykernel_launcher",
        cwd: Path | None = None,
    ) -> None:
        self._sockets = tempfile.TemporaryDirectory(prefix="kin-")
        self.manager = KernelManager(kernel_name="python3", **socket_settings(Path(self._sockets.name)))
        self.manager.kernel_spec.argv = [sys.executable, "-m", module, "-f", "{connection_file}"]
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("KIN_", "PYTEST_"))}
        self.manager.start_kernel(
            env={**kept, "KIN_SAVE": UNPLAYED, **environment, "PYTHONPATH": os.pathsep.join(map(str, paths))}, cwd=cwd
        )
        client = self.manager.blocking_client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        super().__init__(client)
        if subshells:
            self.subshell = self._create_subshell()

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def usable(self) -> bool:
        """Whether the next cell runs, and with Python's own interrupt handler around it."""
        cell = self.run("import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)")
        try:
            return self.done(cell)["content"]["status"] == "ok" and self.text(cell) == "True\n"
        except AssertionError:
            return False

    @contextmanager
    def second_client(self) -> Iterator[Client]:
        """Another front end, with a session of its own."""
        client = BlockingKernelClient(connection_file=self.manager.connection_file)
        client.load_connection_file()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=SECONDS)
            yield Client(client)
        finally:
            client.stop_channels()

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()
        self._sockets.cleanup()

    def _create_subshell(self) -> str:
        message = self.client.session.msg("create_subshell_request", {})
        self.client.control_channel.send(message)
        reply = self.client.get_control_msg(timeout=SECONDS)
        return reply["content"]["subshell_id"]


def shown(nb: LiveKernel, cell: str) -> str:
    """The text of every display as it is now, in the order in which they came."""
    texts: dict[str, str] = {}
    for message in nb.of(cell):
        if message["msg_type"] in {"display_data", "update_display_data"}:
            key = message["content"]["transient"].get("display_id", message["header"]["msg_id"])
            texts[key] = message["content"]["data"].get("text/plain", "")
    return "\n".join(texts.values())


def said(nb: LiveKernel, cell: str) -> str:
    """What a cell that has ended shows; if it failed, its error."""
    errors = [message["content"]["evalue"] for message in nb.of(cell) if message["msg_type"] == "error"]
    return errors[0] if errors else shown(nb, cell)


def write_config(home: Path, server: ModelServer) -> None:
    """Settings whose only model is the server."""
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(
        f'active_model = "m"\n[[providers]]\nname = "p"\napi_base = "{server.url}"\n'
        '[[models]]\nname = "m"\nprovider = "p"\n'
    )


def run(nb: LiveKernel, code: str) -> str:
    cell = nb.run(code)
    assert nb.done(cell)["content"]["status"] == "ok"
    return cell


def kept_outputs(nb: LiveKernel, cell: str) -> list[dict]:
    """As a front end keeps them: the last state of each display, errors, and streams, of which those that follow are one."""
    kept: dict[str, dict] = {}
    last: dict = {}
    for message in nb.of(cell):
        content = message["content"]
        if message["msg_type"] in {"display_data", "update_display_data"}:
            output = {"output_type": "display_data", "data": content["data"], "metadata": content["metadata"]}
            kept[content["transient"].get("display_id", message["header"]["msg_id"])] = output
            last = output
        elif message["msg_type"] == "stream" and last.get("name") == content["name"]:
            last["text"] += content["text"]
        elif message["msg_type"] == "error":
            last = kept[message["header"]["msg_id"]] = {"output_type": "error", **content}
        elif message["msg_type"] == "stream":
            last = kept[message["header"]["msg_id"]] = {"output_type": "stream", **content}
    return list(kept.values())
