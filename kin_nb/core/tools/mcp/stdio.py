"""The connection to a server that is a child process, over its pipes: one JSON message per line.

The `mcp` package's own transport is not used: it logs lines that are not messages to the terminal, takes time squared for long
lines, and leaves a server's children behind. Importing this module imports `mcp`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from kin_nb.core.processes.supervised import Supervised
from kin_nb.core.tools.mcp.answers import ServerFailed, not_understood, printable

MESSAGE_LIMIT = 64_000_000
"""Bytes of one message."""
GRACE = 0.5
"""Seconds for a server to end by itself: first after its stdin has closed, then after SIGTERM."""
_CHUNK = 65_536
_TAIL = 4_096
_POLL = 0.01


class StdioLink:
    """One life of the process. All that it starts ends with it, and it ends with kin_nb: see supervised.py."""

    lost = False

    def __init__(self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> None:
        self._argv, self._cwd, self._environment = argv, cwd, environment
        self._tail = b""
        """The last lines of its stderr, and of its stdout if they were not messages."""

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[tuple[Any, Any]]:
        """Streams of messages in and out. Raises ServerFailed, in a group of exceptions once it has started.

        A normal exit lets the server end by itself within two GRACEs; an exception (cancellation too) kills it at once.
        """
        command = Supervised(self._argv, self._environment)
        try:
            process = self._start(command)
        except BaseException:
            command.close()
            raise
        received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, sent = anyio.create_memory_object_stream[SessionMessage](float("inf"))
        try:
            async with anyio.create_task_group() as tasks, received, incoming, outgoing, sent:
                tasks.start_soon(self._read, process, command, received)
                tasks.start_soon(self._write, process, command, sent)
                tasks.start_soon(self._read_errors, process)
                yield incoming, outgoing
                await _end(process, command)
                tasks.cancel_scope.cancel()
        finally:
            self._kill(process, command)

    def explain(self, error: Exception | None) -> str:
        """Explain in one line why the server ended or did not start, with its last output."""
        what = "" if error is None else self.said(error)
        words = " ".join(self._tail.decode(errors="replace").split())
        if len(words) > 300:  # noqa: PLR2004
            words = f"…{words[-300:]}"
        return "; ".join(filter(None, (what, words and f"its last words: {printable(words, 301)}")))

    def said(self, error: Exception) -> str:
        """What an error answer says, or what went wrong instead of one."""
        if isinstance(error, ValidationError):
            return not_understood(error)
        return str(error) if isinstance(error, (ServerFailed, MCPError)) else f"{type(error).__name__}: {error}"

    def _start(self, command: Supervised) -> subprocess.Popen[bytes]:
        try:
            process = subprocess.Popen(
                command.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=self._cwd,
                env=dict(self._environment),
                start_new_session=True,
                pass_fds=command.fds,
            )
        except (OSError, ValueError) as error:
            raise _not_started(error) from error
        finally:
            command.started()
        for pipe in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(_number(pipe), False)
        return process

    async def _read(
        self, process: subprocess.Popen[bytes], command: Supervised, received: MemoryObjectSendStream[Any]
    ) -> None:
        pending, searched = bytearray(), 0
        while chunk := await _chunk(_number(process.stdout)):
            pending += chunk
            while (end := pending.find(b"\n", searched)) >= 0:
                message = _message(bytes(pending[:end]))
                if message is None:
                    self._keep(bytes(pending[:end][:_TAIL]) + b"\n")
                else:
                    await received.send(message)
                del pending[: end + 1]
                searched = 0
            searched = len(pending)
            if searched > MESSAGE_LIMIT:
                raise ServerFailed(f"it sent a message of more than {MESSAGE_LIMIT:,} bytes")
        raise _why_ended(await _exit_code(process), command, "it closed its output")

    async def _write(
        self, process: subprocess.Popen[bytes], command: Supervised, sent: MemoryObjectReceiveStream[SessionMessage]
    ) -> None:
        async for item in sent:
            data = memoryview(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            while data:
                try:
                    data = data[os.write(_number(process.stdin), data) :]
                except BlockingIOError:
                    await anyio.wait_writable(_number(process.stdin))
                except OSError as error:
                    raise _why_ended(await _exit_code(process), command, "it closed its input") from error

    async def _read_errors(self, process: subprocess.Popen[bytes]) -> None:
        while chunk := await _chunk(_number(process.stderr)):
            self._keep(chunk)

    def _keep(self, words: bytes) -> None:
        self._tail = (self._tail + words)[-_TAIL:]

    def _kill(self, process: subprocess.Popen[bytes], command: Supervised) -> None:
        """Whatever is left of it, and the pipes."""
        command.kill(process)
        with suppress(subprocess.TimeoutExpired):  # a process that the system itself cannot end
            process.wait(GRACE)
        with suppress(BlockingIOError):
            while chunk := os.read(_number(process.stderr), _CHUNK):
                self._keep(chunk)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        command.close()


def _number(pipe: Any) -> int:
    number: int = pipe.fileno()
    return number


async def _chunk(pipe: int) -> bytes:
    """Read the available bytes; empty at end of file."""
    while True:
        await anyio.wait_readable(pipe)
        try:
            return os.read(pipe, _CHUNK)
        except BlockingIOError:
            continue


def _message(line: bytes) -> SessionMessage | None:
    """Parse a line; None if it is not a message: some programs print logs to stdout."""
    text = line.decode(errors="replace")
    for read in (str, _without_halves):
        with suppress(ValueError, RecursionError):
            return SessionMessage(jsonrpc_message_adapter.validate_json(read(text), by_name=False))
    return None


def _without_halves(text: str) -> str:
    r"""JSON whose strings were cut within a character ("\ud83d"), which no UTF-8 can hold."""
    return json.dumps(json.loads(text), ensure_ascii=False).encode(errors="replace").decode()


async def _end(process: subprocess.Popen[bytes], command: Supervised) -> None:
    if process.stdin is not None:
        process.stdin.close()
    if await _exit_code(process) is None:
        command.terminate(process)
        await _exit_code(process)


async def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """Wait for the exit code; None when the process still runs after GRACE."""
    with anyio.move_on_after(GRACE):
        while process.poll() is None:  # noqa: ASYNC110  (no event tells on every system, without a thread)
            await anyio.sleep(_POLL)
    return process.returncode


def _why_ended(code: int | None, command: Supervised, otherwise: str) -> ServerFailed:
    """`otherwise`: what to say while it still runs."""
    error = command.report().error
    if error is not None:
        return _not_started(error)
    if code is None:
        return ServerFailed(otherwise)
    return ServerFailed(f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}")


def _not_started(error: OSError | ValueError) -> ServerFailed:
    what = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) else str(error)
    return ServerFailed(f"it cannot be started ({what}); check its command and cwd")
