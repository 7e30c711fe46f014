"""Run the model's code in the user's namespace, on the main thread, without touching IPython's state.

In, Out, `_` and the execution count stay the same, and cell hooks do not run: this is not a cell. An interrupt also ends the
processes that the code has started.
"""

from __future__ import annotations

import ast
import hashlib
import linecache
import os
import signal
import sys
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from kin_nb.core.processes import supervisor
from kin_nb.core.tool_types import ToolError
from kin_nb.notebook.namespace.captured_output import CapturedOutput, capture_output, terminal_text
from kin_nb.notebook.namespace.time_limit import TimeLimit, interrupt_after

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

MARK = "KIN_NB_CALL"
"""A variable that processes inherit, also those that have left the session and lost their parent."""
_TICK = 0.02


@contextmanager
def started_processes() -> Iterator[StartedProcesses]:
    """What is started within can be ended by `end`. Meanwhile the environment has a variable more."""
    before = os.environ.get(MARK)
    mark = os.environ[MARK] = os.urandom(8).hex()
    try:
        yield StartedProcesses(mark)
    finally:
        os.environ.pop(MARK, None)
        if before is not None:
            os.environ[MARK] = before


class StartedProcesses:
    """Since this was made: new descendants of this process, and whatever has inherited the mark.

    Not commands and servers of kin_nb's own, which other calls may run meanwhile. On macOS the descendants only.
    """

    def __init__(self, mark: str) -> None:
        self._mark = f"{MARK}={mark}".encode()
        self._before = {(process.pid, process.started) for process in supervisor.processes().values()}

    def end(self) -> None:
        """End the processes: SIGTERM, then SIGKILL, until none runs. Blocks for a few seconds at most."""
        self._end_by(signal.SIGTERM, supervisor.GRACE)
        self._end_by(signal.SIGKILL, supervisor.GIVE_UP)

    def _end_by(self, number: signal.Signals, seconds: float) -> None:
        end, signaled = time.monotonic() + seconds, set[int]()
        while (running := self._running()) and time.monotonic() < end:
            for pid in running:
                if pid not in signaled or number == signal.SIGKILL:
                    signaled.add(pid)
                    with suppress(OSError):
                        os.kill(pid, number)
            time.sleep(_TICK)

    def _running(self) -> list[int]:
        table, own = supervisor.processes(), os.getpid()
        supervised = {
            process.pid for process in table.values() if process.parent == own and _is_supervisor(process.pid)
        }
        return [
            process.pid
            for process in table.values()
            if not process.is_zombie
            and (process.pid, process.started) not in self._before
            and (process.descends_from(own, table) or self._mark in _read(process.pid, "environ").split(b"\0"))
            and not any(pid == process.pid or process.descends_from(pid, table) for pid in supervised)
        ]


def _is_supervisor(pid: int) -> bool:
    return os.fsencode(supervisor.__file__) in _read(pid, "cmdline").split(b"\0")


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


_MIME_TYPES = {"text/plain", "image/png", "image/jpeg"}
_INLINE = "matplotlib_inline.backend_inline"
_NO_MAGICS = "Magics and `!` commands do not run here: write plain Python, and use the bash tool for commands."
_NO_AWAIT = (
    "Top-level await does not run here: the notebook's event loop waits for this turn. Without await, or in a thread of "
    "its own: threading.Thread(target=lambda: asyncio.run(main()))."
)
_SyntaxProblem = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What Python raises for text that is not code."""


@dataclass
class CodeResult:
    """`value`: the last expression, as text. `error`: a traceback. `changed`: names assigned, or with a changed object.

    `timed_out`: it was interrupted because its time was up.
    """

    value: str = ""
    error: str = ""
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    timed_out: bool = False


@dataclass(frozen=True)
class _Program:
    body: CodeType
    last: CodeType | None
    written_into: frozenset[str]
    """Names whose object is changed in place, where code shows that: `df["x"] = 1`, `cfg.path = 2`."""


def run_code(shell: InteractiveShell, code: str, printed: CapturedOutput, timeout: float | None = None) -> CodeResult:
    """Run code and return the result; an exception in it is a result. Raises ToolError, before it runs, if it is not plain Python.

    A KeyboardInterrupt passes through: it stops the turn. Not the one that comes after `timeout` seconds. Either ends the
    processes that the code has started; otherwise those that still run stay, as with a cell.
    """
    ran, before = CodeResult(), {name: _is(value) for name, value in shell.user_ns.items()}
    written: frozenset[str] = frozenset()
    limit = TimeLimit()
    with capture_output(shell, printed), started_processes() as started:
        try:
            name = _remembered(code)
            program = _compiled(shell, code, name)
            written = program.written_into
            with interrupt_after(timeout) as limit:
                ran.value = _run(shell, program, printed)
        except ToolError:
            raise
        except BaseException as error:  # (SystemExit too: the kernel stays)
            if isinstance(error, KeyboardInterrupt) and not limit.expired:
                started.end()
                raise
            ran.error = _traceback(error)
        finally:
            ran.timed_out = limit.expired
            if limit.expired:
                started.end()
            _flush_figures()
    after = shell.user_ns
    ran.changed = tuple(
        name
        for name, value in after.items()
        if _counts(name, value) and (name not in before or not before[name](value) or name in written)
    )
    ran.deleted = tuple(name for name in before if name not in after and not name.startswith("_"))
    return ran


def _run(shell: InteractiveShell, program: _Program, printed: CapturedOutput) -> str:
    exec(program.body, shell.user_global_ns, shell.user_ns)  # noqa: S102  (what the tool is for; a person allowed it)
    if program.last is None:
        return ""
    value = eval(program.last, shell.user_global_ns, shell.user_ns)  # noqa: S307
    if value is None:
        return ""
    data, _ = shell.display_formatter.format(value, include=_MIME_TYPES)
    printed.take_picture(data)
    text = data.get("text/plain")
    return terminal_text(text) if isinstance(text, str) else ""


def _remembered(code: str) -> str:
    """Register the code for tracebacks, and return its file name."""
    name = f"<python {hashlib.sha256(code.encode('utf-8', 'replace')).hexdigest()[:6]}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    return name


def _compiled(shell: InteractiveShell, code: str, name: str) -> _Program:
    tree = _parsed(shell, code, name)
    written = frozenset(_written_into(tree))
    last = tree.body.pop().value if tree.body and isinstance(tree.body[-1], ast.Expr) else None  # type: ignore[attr-defined]
    try:
        body = compile(tree, name, "exec", dont_inherit=True)
        return _Program(body, compile(ast.Expression(last), name, "eval", dont_inherit=True) if last else None, written)
    except SyntaxError:
        with suppress(*_SyntaxProblem):
            compile(code, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            raise ToolError(_NO_AWAIT) from None
        raise


def _parsed(shell: InteractiveShell, code: str, name: str) -> ast.Module:
    """Parse the code, or else the code without common indentation and prompts, as IPython accepts it."""
    try:
        return ast.parse(code, name)
    except _SyntaxProblem:
        transformed = ""
        with suppress(*_SyntaxProblem):
            transformed = shell.transform_cell(code)
        if transformed.count("get_ipython()") > code.count("get_ipython()"):
            raise ToolError(_NO_MAGICS) from None
        if transformed:
            with suppress(*_SyntaxProblem):
                return ast.parse(transformed, name)
        raise


def _written_into(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            place: ast.expr = node
            while isinstance(place, ast.Subscript | ast.Attribute):
                place = place.value
            if isinstance(place, ast.Name):
                names.add(place.id)
    return names


def _is(value: Any) -> Callable[[object], bool]:
    """Whether another is this object. It is not kept alive where that can be: code replaces large ones by the next."""
    try:
        reference = weakref.ref(value)
    except TypeError:
        return lambda other: other is value
    return lambda other: other is not None and reference() is other


def _counts(name: str, value: object) -> bool:
    return not name.startswith("_") and not issubclass(type(value), ModuleType)


def _traceback(error: BaseException) -> str:
    """Format the traceback, from the code's own frames on."""
    frames = error.__traceback__
    while frames is not None and not frames.tb_frame.f_code.co_filename.startswith("<python "):
        frames = frames.tb_next
    return terminal_text("".join(traceback.format_exception(type(error), error, frames))).rstrip("\n")


def _flush_figures() -> None:
    """The figures that a cell would show at its end; where they are drawn elsewhere, they stay there."""
    backend = sys.modules.get(_INLINE)
    matplotlib = sys.modules.get("matplotlib")
    if backend is not None and matplotlib is not None and "inline" in str(matplotlib.rcParams["backend"]):
        backend.flush_figures()
