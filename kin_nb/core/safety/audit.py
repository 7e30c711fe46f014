"""The audit log: every decision about a call, one JSON line each, in `~/.kin-code/audit.jsonl`. Only ever appended to.

Each line is one write, and follows the one before in a chain of hashes (audit_chain.py); processes take turns under a lock. At
LARGEST bytes the file becomes audit.jsonl.1, and so on; KEPT of these stay. A log that cannot be written is said once; the calls
run all the same.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator

from kin_nb.core.paths import kin_home, lock, private_folder, shown
from kin_nb.core.safety.audit_chain import Head, line_hash, number_of_first, problems
from kin_nb.core.safety.decision import Risk, Scope, Verdict

if TYPE_CHECKING:
    from kin_nb.core.records import RecordedCall

LARGEST = 10_000_000
KEPT = 3
_LONGEST = 400
"""Characters of a text in an entry."""


def audit_path() -> Path:
    return kin_home() / "audit.jsonl"


def _now() -> datetime:
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


class AuditEntry(BaseModel):
    """One decision. `by`: a policy's name, person, callback, headless, recorded or identical; `scope` is what a person approved.

    `call` is the call's id, `same_as` that of the call before it whose decision and answer it shares: it was not run itself.
    `edited`: the person changed the arguments before approving. Texts are redacted by whoever makes the entry; here they
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
        from kin_nb.core.text import one_line  # noqa: PLC0415  (it imports half of the sessions)

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
        self._said = False

    def record(self, entry: AuditEntry) -> None:
        """Never raises for a file that cannot be written."""
        try:
            private_folder(self.path.parent)
            with _locked(head_path(self.path), os.O_RDWR | os.O_CREAT):
                if self._append(entry) > LARGEST:
                    self._rotate()
        except (OSError, ValueError) as error:
            if not self._said:
                self._said = True
                why = (error.strerror or error) if isinstance(error, OSError) else error
                self._warn(f"The audit log {shown(self.path)} cannot be written ({why}); the turn goes on without it.")

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
    """Nobody else appends meanwhile. The head file is what is locked: who saves settings does not wait for this."""
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
