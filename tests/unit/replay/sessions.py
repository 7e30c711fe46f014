"""Small recordings: values that tests build sessions of."""

from __future__ import annotations

from typing import Any

from kin_nb.core.session.records import (
    FileChange,
    RecordedCall,
    RecordedDecision,
    RecordedStep,
    TurnRecord,
    UndoRecord,
)
from kin_nb.replay.cells.matching import cell_key
from kin_nb.replay.format.in_outputs import carried
from kin_nb.replay.recording import Recording, SessionMeta

LONG = "line of a long result\n" * 1000
SESSION = "5b1c-session"


def turn(number: int, prompt: str, *, cell_id: str | None = None, options: str = "", **fields) -> TurnRecord:
    fields = {
        "steps": (RecordedStep(fingerprint=f"f{number}", content=f"Answer {number}."),),
        "outcome": "done",
        **fields,
    }
    return TurnRecord(turn=number, prompt=prompt, key=cell_key(prompt, options), cell_id=cell_id, model="m", **fields)


def recording(*turns: TurnRecord, others: tuple[str, ...] = (), **meta) -> Recording:
    return Recording(SESSION, turns, SessionMeta(session=SESSION, kin_nb="0.1.0", model="m", **meta), others)


def carried_of(whole: Recording, record: TurnRecord | UndoRecord, number: int = 0, *after: str) -> dict[str, Any]:
    """What the output carries that shows `record`, one of `whole`. `number`: an undo's. `after`: as `carried` has it."""
    return carried(record, whole.meta, whole.turns, number, after)


def busy_turn() -> TurnRecord:
    allowed = RecordedDecision(verdict="allow", by="person", reason="asked", note="go on")
    patch = FileChange(path="a.py", before="1" * 64, after="2" * 64, patch="--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n")
    calls = (
        RecordedCall(
            id="c1", name="bash", arguments='{"command": "make"}', decision=allowed, status="ok", output=LONG, exit=0
        ),
        RecordedCall(
            id="c2", name="edit_file", arguments='{"path":"a.py"}', status="ok", output="edited", files=(patch,)
        ),
    )
    steps = (
        RecordedStep(fingerprint="f1", content="I look. é 🐢", reasoning="hm", prompt_tokens=10, calls=calls),
        RecordedStep(fingerprint="f2", content="Done.", completion_tokens=3),
    )
    return turn(1, "Fix the build\nplease", cell_id="aaaa", steps=steps, cost="0.01", milliseconds=1200)
