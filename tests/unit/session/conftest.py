"""Sessions on disk, written as an agent writes them, and the fixtures of a real agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kin_nb.core.records import (
    ClearRecord,
    CompactRecord,
    RecordedCall,
    RecordedCompaction,
    RecordedStep,
    Ref,
    TurnRecord,
)
from kin_nb.core.session.log import SessionLog
from kin_nb.core.session.recorder import TurnRecorder
from tests.unit.core.conftest import _own_home, agent, config, trusted, workspace  # noqa: F401  (fixtures)

HEADER = {"format": 1, "model": "m", "commit": None, "system_prompt": "b" * 64, "tools": "c" * 64}
STEP = RecordedStep(content="Answer.", prompt_tokens=100, completion_tokens=10, milliseconds=500)

WriteSession = Callable[..., SessionLog]


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "sessions"


@pytest.fixture
def write_session(root, tmp_path):
    """`write_session(id, *prompts)`: a closed log; `steps` answer each prompt, `more` goes into the header."""

    def write_session(
        session: str,
        *prompts: str,
        workdir: Path = tmp_path,
        steps: tuple[RecordedStep, ...] = (STEP,),
        ends: bool = True,
        **more,
    ) -> SessionLog:
        log = SessionLog(session, folder=root / session)
        log.append("session", **HEADER, session=session, workspace=str(workdir), **more)
        write_turns(log, *prompts, steps=steps, ends=ends)
        log.close()
        return log

    return write_session


def write_turns(
    log: SessionLog, *prompts: str, first: int = 1, steps=(STEP,), ends: bool = True, compacted=None, **fields
) -> None:
    """Each comes after the turn of the number before it, unless `parent` is among the fields. `compacted`: after the last reply."""
    for number, prompt in enumerate(prompts, first):
        before = Ref(id=turn_id(number - 1)) if number > 1 else None
        place = {"id": turn_id(number), "seq": 2 * number, "parent": before}
        recorder = TurnRecorder(
            log, str, TurnRecord(**{**place, "turn": number, "prompt": prompt, "model": "m", **fields})
        )
        for step in steps:
            if step.compaction is not None:
                recorder.compaction(step.compaction)
            recorder.reply(step)
        if compacted is not None:
            recorder.compaction(compacted)
        if ends or number < first + len(prompts) - 1:
            recorder.end("done", cost="0.000120", milliseconds=1500)


def turn_id(number: int) -> str:
    return f"{number:016x}"


def write_clear(log: SessionLog, after: int) -> None:
    record = ClearRecord(id="c" * 16, parent=Ref(id=turn_id(after)), seq=2 * after + 1)
    log.append("clear", record=record.model_dump(mode="json"))


def write_compaction(log: SessionLog, after: int, compaction: RecordedCompaction, cost: str = "") -> Ref:
    """Returns where the conversation is after it."""
    record = CompactRecord(
        id=f"{after:x}".rjust(16, "d"),
        parent=Ref(id=turn_id(after)),
        seq=2 * after + 1,
        model="m",
        cost=cost,
        compaction=compaction,
    )
    log.append("compact", record=record.model_dump(mode="json"))
    return record.head


def call(**fields) -> RecordedCall:
    return RecordedCall(**{"id": "c1", "name": "bash", "arguments": '{"command": "make"}', **fields})
