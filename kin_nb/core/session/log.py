"""The session log: append-only JSON lines under `~/.kin-code/sessions/<id>/log.jsonl`.

Each line is handed to the operating system before its effect happens; one fsync at the end of a turn. What a line
costs depends on that line alone. A full disk is said once and the turn goes on in memory.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from kin_nb.core.paths import kin_home, private_folder
from kin_nb.core.session.records import RecordedCall, RecordedStep, TurnRecord

LOG_FORMAT = 1


def new_session_id() -> str:
    return str(uuid4())


class SessionLog:
    """Appends records of one session. The folder is made with the first record, mode 0700; the file has 0600."""

    def __init__(
        self, session_id: str, *, folder: Path | None = None, warn: Callable[[str], None] | None = None
    ) -> None:
        self.session_id = session_id
        self.folder = folder or kin_home() / "sessions" / session_id
        self.path = self.folder / "log.jsonl"
        self._warn = warn
        self._file: int | None = None
        self._broken = False

    def append(self, type_: str, **fields: Any) -> None:
        """One line. `fields` hold text, whole numbers and records' dumps; the time is added here."""
        line = json.dumps({"type": type_, "time": int(time.time() * 1000), **fields}, separators=(",", ":"))
        if self._broken:
            return
        try:
            os.write(self._open(), line.encode() + b"\n")
        except OSError as error:
            self._give_up(error)

    def sync(self) -> None:
        """The turn is over: make it survive a power cut."""
        if self._file is not None and not self._broken:
            try:
                os.fsync(self._file)
            except OSError as error:
                self._give_up(error)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        if self._file is None:
            private_folder(self.folder)
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return self._file

    def _give_up(self, error: OSError) -> None:
        self._broken = True
        if self._warn is not None:
            self._warn(f"The session log cannot be written ({error.strerror}); this session goes on in memory only.")


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The log's records. A line cut by a crash is skipped: only the last one can be."""
    with path.open("rb") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record


def fold(lines: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], list[TurnRecord]]:
    """(the session's header, its turns). A turn without an end was cut off: its outcome is interrupted."""
    header: dict[str, Any] = {}
    turns: list[TurnRecord] = []
    for line in lines:
        match line.get("type"):
            case "session":
                header = line
            case "continued":
                turns += [TurnRecord.model_validate(turn) for turn in line["turns"]]
            case "turn":
                turns.append(TurnRecord.model_validate(line["record"]))
            case "reply" if turns:
                step = RecordedStep.model_validate(line["step"])
                turns[-1] = turns[-1].model_copy(update={"steps": (*turns[-1].steps, step)})
            case "run" | "result" if turns:
                turns[-1] = _with_call(turns[-1], line["call"])
            case "end" if turns:
                turns[-1] = turns[-1].model_copy(update=line["turn"])
    return header, [_settled(turn) for turn in turns]


def _with_call(turn: TurnRecord, fields: dict[str, Any]) -> TurnRecord:
    step = turn.steps[-1]
    calls = tuple(
        RecordedCall.model_validate({**call.model_dump(), **fields}) if call.id == fields["id"] else call
        for call in step.calls
    )
    return turn.model_copy(update={"steps": (*turn.steps[:-1], step.model_copy(update={"calls": calls}))})


def _settled(turn: TurnRecord) -> TurnRecord:
    if turn.outcome != "running":
        return turn
    steps = tuple(
        step.model_copy(
            update={"calls": tuple(call if call.status != "pending" else interrupted(call) for call in step.calls)}
        )
        for step in turn.steps
    )
    return turn.model_copy(update={"steps": steps, "outcome": "interrupted", "message": "the session ended here"})


def interrupted(call: RecordedCall, output: str = "interrupted before it had a result") -> RecordedCall:
    return call.model_copy(update={"status": "interrupted", "output": output})
