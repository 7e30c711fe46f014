"""The audit log: every decision about a call, one JSON line each, in `~/.kin-code/audit.jsonl`. Only ever appended to.

Each line is one write, and follows the one before in a chain: it holds its number and the sha256 of the line before, and a
small head file holds both of the last line. So a line that was edited, removed or inserted is found, and one that is missing
at either end. Not found is what a process writes that computes all hashes again, in the log and in the head file: the
chain has no key that only kin_nb knows.

Processes take turns under a lock. At LARGEST bytes the file becomes audit.jsonl.1, and so on; KEPT of these stay. That a log
cannot be written is reported once; the calls run all the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator

from kin_nb.core.paths import kin_home, lock, private_folder, shown
from kin_nb.core.safety.decision import Risk, Scope, Verdict
from kin_nb.core.text import one_line

if TYPE_CHECKING:
    from kin_nb.core.records import RecordedCall

LARGEST = 10_000_000
KEPT = 3
_LONGEST = 400
"""Characters of a text in an entry."""
_TAIL = 1 << 16
"""Bytes at the end of a file that its last line is looked for in."""
_WIDTH = 160
"""Bytes of the head file: it is overwritten in one call."""
_HEAD_WAS_MISSING = (
    "the head file was missing when this line was written: lines that were cut off before it are not noticed."
)


def audit_path() -> Path:
    return kin_home() / "audit.jsonl"


def _now() -> datetime:
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


class AuditEntry(BaseModel):
    """One decision. `by`: a policy's name, person, callback, headless, recorded or identical; `scope` is what a person approved.

    `call` is the call's id, `same_as` that of the call before it whose decision and answer it shares: it was not run itself.
    `edited`: the person changed the arguments before approving. Texts are redacted before the entry is made; here they
    become one line. `session` is the root id, as `kin-nb sessions` lists it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    time: AwareDatetime = Field(default_factory=_now)
    session: str
    turn: int
    tool: str
    call: str = ""
    same_as: str | None = None
    summary: str = ""
    risk: Risk
    verdict: Verdict
    by: str
    reason: str = ""
    scope: Scope = "once"
    note: str | None = None
    workspace: str = ""
    edited: bool = False
    number: int = 0
    previous: str = ""
    """The line's place in the chain: counted from 1, and the hash of the line before. Set when it is written."""
    head_missing: bool | None = None
    """There were lines and no head file when it was written: a part of the chain, so that each check finds it."""

    @field_validator("session", "tool", "call", "same_as", "summary", "by", "reason", "note", "workspace")
    @classmethod
    def _one_line(cls, text: str | None) -> str | None:
        return None if text is None else one_line(text, _LONGEST)

    @classmethod
    def of(
        cls, call: RecordedCall, *, session: str, turn: int, risk: Risk, workspace: Path, same_as: str | None = None
    ) -> AuditEntry:
        """The entry of a call as it was recorded when it was decided: redacted already."""
        decision = call.decision
        if decision is None:
            raise ValueError(f"the call {call.id} has not been decided")
        return cls(
            session=session,
            turn=turn,
            tool=call.name,
            call=call.id,
            same_as=same_as,
            summary=call.summary,
            risk=risk,
            verdict=Verdict(decision.verdict),
            by=decision.by,
            reason=decision.reason,
            scope=decision.scope,
            note=decision.note,
            workspace=str(workspace),
            edited=call.edited_arguments is not None,
        )


class AuditLog:
    """Appends entries. The file is made with the first, mode 0600, its folder 0700. `warn` hears of the first failure."""

    def __init__(self, path: Path | None = None, warn: Callable[[str], None] = lambda _: None) -> None:
        self.path = path or audit_path()
        self._warn = warn
        self._warned = False

    def record(self, entry: AuditEntry) -> None:
        """Never raises for a file that cannot be written."""
        try:
            private_folder(self.path.parent)
            with _locked(head_path(self.path), os.O_RDWR | os.O_CREAT):
                if self._append(entry) > LARGEST:
                    self._rotate()
        except (OSError, ValueError) as error:
            if not self._warned:
                self._warned = True
                why = (error.strerror or error) if isinstance(error, OSError) else error
                self._warn(
                    f"The audit log {shown(self.path)} cannot be written ({why}); the turn continues without it."
                )

    def _append(self, entry: AuditEntry) -> int:
        """The size of the file afterwards. Raises OSError, ValueError."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        file = os.open(self.path, flags, 0o600)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is not a regular file")
            if status.st_mode & 0o077:
                os.fchmod(file, 0o600)
            known = Head.read(head_path(self.path))
            head = (known or Head.of_the_log(file, status.st_size)).before_next(file, status.st_size)
            missing = True if known is None and head.count else None
            place = {"number": head.count + 1, "previous": head.last, "head_missing": missing}
            entry = entry.model_copy(update=place)
            line = entry.model_dump_json(exclude_none=True).encode() + b"\n"
            begin = b"\n" if status.st_size and os.pread(file, 1, status.st_size - 1) != b"\n" else b""
            if os.write(file, begin + line) < len(begin + line):
                os.ftruncate(file, status.st_size)
                raise OSError(0, "the disk took only a part of a line")
            Head(entry.number, line_hash(line), head.first).write(head_path(self.path))
            return status.st_size + len(begin + line)
        finally:
            os.close(file)

    def _rotate(self) -> None:
        if not self.path.exists() or self.path.stat().st_size <= LARGEST:
            return  # another program moved it
        for number in range(KEPT - 1, 0, -1):
            if (older := rotated(self.path, number)).exists():
                older.replace(rotated(self.path, number + 1))
        self.path.replace(rotated(self.path, 1))
        head, oldest = Head.read(head_path(self.path)), number_of_first(rotated(self.path, KEPT))
        if head is not None and oldest is not None:
            replace(head, first=oldest).write(head_path(self.path))


def rotated(path: Path, number: int) -> Path:
    """1 is the newest."""
    return path.with_name(f"{path.name}.{number}")


def head_path(path: Path) -> Path:
    """The file that says which line is the last: without it, lines could be cut off at the end."""
    return path.with_name(f"{path.name}.head")


def check_audit(path: Path | None = None) -> list[str]:
    """Where the log is not as it was written: a sentence each. Raises OSError."""
    path = path or audit_path()
    with ExitStack() as opened:
        with _locked(head_path(path), os.O_RDWR):  # files and head of one moment
            head = Head.read(head_path(path))
            files = [
                (each.name, opened.enter_context(each.open("rb")))
                for each in (*(rotated(path, number) for number in range(KEPT, 0, -1)), path)
                if each.exists()
            ]
        return list(problems(files, head))


@contextmanager
def _locked(head: Path, flags: int) -> Iterator[None]:
    """Hold the lock for appending. It is on the head file, so that saving settings does not wait for it."""
    try:
        descriptor = os.open(head, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except FileNotFoundError:
        yield  # nothing was written yet, or the head is gone
        return
    try:
        lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def read_audit(path: Path | None = None) -> Iterator[AuditEntry | None]:
    """Every entry that is kept, oldest first; None for a line that is neither one nor empty. Raises OSError."""
    path = path or audit_path()
    for each in (*(rotated(path, number) for number in range(KEPT, 0, -1)), path):
        try:
            file = each.open("rb")
        except FileNotFoundError:
            continue
        with file:
            for line in file:
                if line != b"\n":  # who saw another's line half written took it for one that was cut
                    yield _entry(line)


def _entry(line: bytes) -> AuditEntry | None:
    try:
        return AuditEntry.model_validate(json.loads(line))
    except (ValueError, ValidationError, RecursionError):
        return None


@dataclass(frozen=True)
class Head:
    """`count`: lines written so far; `last`: the hash of the last one; `first`: the number of the oldest line that is kept."""

    count: int = 0
    last: str = ""
    first: int = 1

    @classmethod
    def read(cls, path: Path) -> Head | None:
        """None when there is none, or none that can be read."""
        try:
            values = json.loads(path.read_bytes()[:_WIDTH])
            return cls(int(values["count"]), str(values["last"]), int(values["first"]))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def write(self, path: Path) -> None:
        """Raises OSError."""
        text = json.dumps({"count": self.count, "last": self.last, "first": self.first})
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            os.pwrite(descriptor, text.ljust(_WIDTH - 1).encode() + b"\n", 0)
        finally:
            os.close(descriptor)

    def before_next(self, file: int, size: int) -> Head:
        """The head that the next line of an open log follows: this one, or the line that was written as a process ended.

        A log that has been cut does not become the head: the gap stays visible.
        """
        line = _last_line(file, size)
        values = _values(line) if line and line_hash(line) != self.last else {}
        number = values.get("number")
        if isinstance(number, int) and number == self.count + 1 and values.get("previous") == self.last:
            return Head(number, line_hash(line), self.first)
        return self

    @classmethod
    def of_the_log(cls, file: int, size: int) -> Head:
        """In the place of a head file that is missing."""
        line = _last_line(file, size)
        number = _values(line).get("number")
        return cls(number if isinstance(number, int) else 0, line_hash(line) if line else "")


def line_hash(line: bytes) -> str:
    return hashlib.sha256(line.rstrip(b"\n")).hexdigest()


def problems(files: Iterable[tuple[str, BinaryIO]], head: Head | None) -> Iterator[str]:
    """A sentence for each place where the log is not as it was written. `files`: the oldest first, each with its name."""
    before = _Link()
    for name, file in files:
        for at, line in enumerate(file, 1):
            if line == b"\n":
                continue
            values = _values(line)
            if not isinstance(values.get("number"), int):
                yield f"{name}:{at}: this is not a line as kin-nb writes it."
                continue
            if problem := before.problem(values, head):
                yield f"{name}:{at}: {problem}"
            if values.get("head_missing"):
                yield f"{name}:{at}: {_HEAD_WAS_MISSING}"
            before = _Link(values["number"], line_hash(line))
            if head is not None and before.number == head.count and before.hash != head.last:
                yield f"{name}:{at}: the line was changed."
    if head is None and before.number:
        yield "the head file is missing, so lines that were cut off at the end would not be noticed."
    if head is not None and before.number < head.count:
        yield f"{_lines(before.number + 1, head.count)} missing at the end: the log was cut."


@dataclass(frozen=True)
class _Link:
    """A line of the chain; number 0: none yet."""

    number: int = 0
    hash: str = ""

    def problem(self, values: dict[str, Any], head: Head | None) -> str:
        """Why the line of these values cannot come next; "" when it can."""
        own = values["number"]
        if not self.number and own > 1:
            missing = head is not None and own != head.first
            return f"the lines before number {own} are missing." if missing else ""
        if own > self.number + 1:
            return f"{_lines(self.number + 1, own - 1)} missing before it."
        if own != self.number + 1 or values.get("previous") != self.hash:
            return "it does not follow the line before: one of the two was changed, or put there."
        return ""


def number_of_first(path: Path) -> int | None:
    """Of the first line of a log file."""
    try:
        with path.open("rb") as file:
            number = _values(file.readline(_TAIL)).get("number")
    except OSError:
        return None
    return number if isinstance(number, int) else None


def _lines(first: int, last: int) -> str:
    return f"line number {first} is" if first == last else f"lines number {first} to {last} are"


def _last_line(file: int, size: int) -> bytes:
    tail = os.pread(file, _TAIL, max(0, size - _TAIL)).rstrip(b"\n")
    return tail.rpartition(b"\n")[2]


def _values(line: bytes) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}
