"""Receive a cell's own comm messages, and a reloaded page's requests, while that cell blocks the kernel.

The undocumented names used here, and where they were found (tests/kernel pins them):

* `ZMQStream._recv_callback` (pyzmq 13 to 27): the present reader of the stream. We read first, pass on other messages, and
  restore the reader afterwards: `schedule_dispatch` in ipykernel 6.x, `shell_channel_thread_main` in 7.x.
* `BaseComm._msg_callback` (comm 0.1 to 0.2): what `handle_msg` calls, without firing the person's own pre_execute and
  post_execute hooks from a foreign thread.
* `kernel.shell_stream`, `session`, `iopub_socket`, `ident`, `kernel_info`, `comm_manager` (ipykernel 6.0 to 7.4):
  public, but undocumented.
* The shell stream's loop is the main thread's in 6.x and a thread of its own in 7.x; `stream.io_loop` says which.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

Message: TypeAlias = dict[str, Any]
OnMessage: TypeAlias = Callable[[Message], object]

_CONTROL_TARGET = "jupyter.widget.control"
_INSTALL_SECONDS = 5.0
_HEARD = frozenset({"comm_msg", "comm_close", "comm_open", "kernel_info_request", "comm_info_request"})


class TapRun:
    """The comms that one cell listens to while it runs, within `with tap.run(parent)`."""

    def __init__(self, parent: Message, pump: Callable[[], object] | None, *, is_listening: bool) -> None:
        self.parent = parent
        self.is_listening = is_listening
        """False when this kernel has no shell stream to tap: no click will ever arrive."""
        self.reloaded = False
        """A page asked for the widgets' state: it will not see what updates this cell's outputs."""
        self.context = contextvars.copy_context()
        self._pump = pump
        self._watched: dict[str, OnMessage] = {}
        self._closed: dict[str, Message] = {}
        self._lock = threading.Lock()

    @property
    def on_tick(self) -> Callable[[], None] | None:
        """Return what the waiting thread must call regularly: `pump` on ipykernel 6, else None (messages arrive by themselves)."""
        return self.pump if self._pump else None

    def subscribe(self, comm_id: str, callback: OnMessage) -> None:
        """Call `callback` with each comm_msg and comm_close for `comm_id`, on whichever thread reads the shell stream.

        It must hand over and return. A comm_close that came before this call is delivered at once.
        """
        with self._lock:
            self._watched[comm_id] = callback
            closed = self._closed.pop(comm_id, None)
        if closed is not None:
            callback(closed)

    def unsubscribe(self, comm_id: str) -> None:
        with self._lock:
            self._watched.pop(comm_id, None)

    def pump(self) -> None:
        """Read messages and send answers, on the thread that opened the run; on another one do nothing."""
        if self._pump:
            self._pump()

    def listener(self, message: Message) -> OnMessage | None:
        """Return the subscriber of this message's comm. A comm_close without one is kept for `subscribe`."""
        comm_id = message["content"].get("comm_id")
        with self._lock:
            found = self._watched.get(comm_id)
            if found is None and message["msg_type"] == "comm_close":
                self._closed[comm_id] = message
            return found


@contextmanager
def listen(ip: Any, parent: Message) -> Iterator[TapRun]:
    """Open a run for the cell that `ip` (an InteractiveShell) executes; in a terminal, a run that hears nothing."""
    kernel = getattr(ip, "kernel", None)
    if kernel is None:
        yield TapRun(parent, None, is_listening=False)
        return
    with ShellTap.of(kernel).run(parent) as run:
        yield run


class ShellTap:
    """Reads a kernel's shell stream before the kernel does, while a run is on. One per kernel: `of(kernel)`."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._stream: Any = getattr(kernel, "shell_stream", None)
        self._original: Callable[[Any], Any] | None = None
        self._runs: tuple[TapRun, ...] = ()
        self._lock = threading.Lock()

    @classmethod
    def of(cls, kernel: Any) -> ShellTap:
        found = getattr(kernel, "_kin_tap", None)
        if isinstance(found, cls):
            return found
        tap = kernel._kin_tap = cls(kernel)  # noqa: SLF001  (our own name: the tap lives as long as its kernel)
        return tap

    @contextmanager
    def run(self, parent: Message) -> Iterator[TapRun]:
        """Listen while the block runs. `parent` is the cell's execute_request; the first run installs the tap."""
        is_listening = hasattr(self._stream, "_recv_callback")
        if is_listening:
            self._install()
        run = TapRun(
            parent, self._stream.flush if is_listening and self._stream_is_ours() else None, is_listening=is_listening
        )
        with self._lock:
            self._runs = (*self._runs, run)
        try:
            yield run
        finally:
            with self._lock:
                self._runs = tuple(other for other in self._runs if other is not run)

    def uninstall(self) -> None:
        """Restore the stream, on the main thread. If another reader was installed on top, it stays, and the tap only passes on."""
        if self._original is not None and self._stream.io_loop.asyncio_loop.is_running():  # not when the kernel ends
            self._on_stream_thread(self._put_back)
        if getattr(self._kernel, "_kin_tap", None) is self:
            del self._kernel._kin_tap  # noqa: SLF001  (our own name)

    def _install(self) -> None:
        if self._original is None:
            self._on_stream_thread(self._read_first)

    def _read_first(self) -> None:
        if self._original is None:  # two runs may have asked at once
            self._original = self._stream._recv_callback  # noqa: SLF001  (see the module's docstring)
            self._stream.on_recv(self._read, copy=False)

    def _put_back(self) -> None:
        if self._stream._recv_callback == self._read:  # noqa: SLF001
            self._stream.on_recv(self._original, copy=False)
            self._original = None

    def _stream_is_ours(self) -> bool:
        """Whether the calling thread is the one that reads the stream: blocking it makes the kernel deaf."""
        try:
            return asyncio.get_running_loop() is self._stream.io_loop.asyncio_loop
        except RuntimeError:
            return False

    def _on_stream_thread(self, action: Callable[[], None]) -> None:
        """Raises TimeoutError when the stream's loop does not run."""
        if self._stream_is_ours():
            action()
            return
        done = threading.Event()

        def act() -> None:
            try:
                action()
            finally:
                done.set()

        self._stream.io_loop.add_callback(act)
        if not done.wait(_INSTALL_SECONDS):
            raise TimeoutError("The kernel's shell channel does not respond. Restart the kernel.")

    def _read(self, frames: Any) -> Any:
        if self._runs and self._take(frames):
            return None
        return self._original(frames) if self._original else None

    def _take(self, frames: Any) -> bool:
        session = self._kernel.session
        try:
            idents, rest = session.feed_identities(frames, copy=False)
            peek = session.deserialize(
                rest, content=False, copy=False
            )  # does not record the signature: the kernel will
            if peek["msg_type"] not in _HEARD:
                return False
            handling = self._handling({**peek, "content": session.unpack(peek["content"])})
        except Exception:  # noqa: BLE001  (malformed: the kernel's own reader says so)
            return False
        if handling is None:
            return False
        # From here on the message is ours whatever happens: its signature is recorded, the kernel would refuse it.
        run, handle = handling
        message = session.deserialize(rest, content=True, copy=False)
        self._publish_status("busy", message)
        try:
            run.context.copy().run(handle, idents, message)  # ipykernel 7.0: get_parent() raises on a foreign thread
        except Exception:
            self._kernel.log.exception("kin_nb: could not handle %s", message["msg_type"])
        self._publish_status("idle", message)  # front ends hold back a widget's next update until then
        self._publish_status("busy", run.parent)  # the cell itself is still running
        return True

    def _handling(self, message: Message) -> tuple[TapRun, Callable[[Any, Message], object]] | None:
        runs = self._runs
        match message["msg_type"]:
            case "comm_msg" | "comm_close":
                heard = [(run, found) for run in runs if (found := run.listener(message))]
                return (heard[0][0], lambda _, full: heard[0][1](full)) if heard else None
            case "comm_open" if message["content"].get("target_name") != _CONTROL_TARGET:
                return None
            case "comm_open":
                return runs[-1], lambda idents, full: self._open_control(runs[-1], idents, full)
            case "kernel_info_request":
                return runs[-1], self._tell_kernel_info
            case _:
                return runs[-1], self._tell_comm_info

    def _tell_kernel_info(self, idents: Any, message: Message) -> None:
        self._reply("kernel_info_reply", self._kernel.kernel_info, idents, message)

    def _tell_comm_info(self, idents: Any, message: Message) -> None:
        wanted = message["content"].get("target_name")
        comms = {
            comm_id: {"target_name": comm.target_name}
            for comm_id, comm in dict(self._kernel.comm_manager.comms).items()
            if wanted in (None, comm.target_name)
        }
        self._reply("comm_info_reply", {"comms": comms}, idents, message)

    def _open_control(self, run: TapRun, idents: Any, message: Message) -> None:
        """Open a control comm, by which a reloaded page asks for the state of all widgets; watched while the run lasts."""
        run.reloaded = True
        manager, comm_id = self._kernel.comm_manager, message["content"]["comm_id"]
        manager.comm_open(self._stream, idents, message)
        comm = manager.comms.get(comm_id)

        def heard(later: Message) -> None:
            if later["msg_type"] == "comm_close":
                run.unsubscribe(comm_id)
                manager.comm_close(self._stream, idents, later)
            elif comm._msg_callback:  # noqa: SLF001  (see the module's docstring)
                comm._msg_callback(later)  # noqa: SLF001

        if comm is not None:
            run.subscribe(comm_id, heard)

    def _reply(self, msg_type: str, content: Message, idents: Any, message: Message) -> None:
        self._kernel.session.send(self._stream, msg_type, {"status": "ok", **content}, message, ident=idents)

    def _publish_status(self, state: str, parent: Message) -> None:
        topic = f"kernel.{self._kernel.ident}.status".encode()
        content = {"execution_state": state}
        self._kernel.session.send(self._kernel.iopub_socket, "status", content, parent=parent, ident=topic)
