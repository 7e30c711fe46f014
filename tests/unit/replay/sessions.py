"""Small recordings: values that tests build sessions of."""

from __future__ import annotations

from typing import Any

from kin_nb.core.records import (
    FileChange,
    RecordedCall,
    RecordedDecision,
    RecordedStep,
    SessionRecord,
    TurnRecord,
    UndoRecord,
)
from kin_nb.replay.cell_keys import cell_key, command_key
from kin_nb.replay.format.output_records import output_metadata
from kin_nb.replay.recording import Recording, SessionMeta

LONG = "line of a long result\n" * 1000
SESSION = "5b1c-session"


def turn(number: int, prompt: str, *, cell_id: str | None = None, options: str = "", **fields) -> TurnRecord:
    fields = {
        "steps": (RecordedStep(fingerprint=f"f{number}", content=f"Answer {number}."),),
        "outcome": "done",
        **fields,
    }
    named = {"id": f"{number:016x}", "seq": number, **fields}
    return TurnRecord(turn=number, prompt=prompt, key=cell_key(prompt, options), cell_id=cell_id, model="m", **named)


def recording(*records: SessionRecord, unknown_records: tuple[str, ...] = (), **meta) -> Recording:
    """In the order in which they are given; each turn continues from the one before it, unless it says from where."""
    linked: list[SessionRecord] = []
    for record in records:
        before = linked[-1].head if linked else None
        if isinstance(record, TurnRecord) and record.parent is None and before is not None:
            ancestors = (before.id, *(a for a in linked[-1].ancestors if a != before.id))
            linked.append(record.model_copy(update={"parent": before, "ancestors": ancestors}))
        else:
            linked.append(record)
    return Recording(SessionMeta(session=SESSION, kin_nb="0.1.0", model="m", **meta), tuple(linked), unknown_records)


def undo(turn: TurnRecord, *, to: TurnRecord | None = None, seq: int = 0, **fields) -> UndoRecord:
    """Takes back `turn`: the conversation is where `to` ended, or empty."""
    seq = seq or turn.seq + 1
    made = {
        "id": f"{seq:015x}u".replace("u", "f"),
        "parent": turn.head,
        "head": to.head if to is not None else None,
        "seq": seq,
        "ancestors": (to.id,) if to is not None else (),
        "key": command_key("undo 1"),
        "turn_ids": (turn.id,),
        "turns": (turn.turn,),
    }
    return UndoRecord(**{**made, **fields})


def carried_of(whole: Recording, record: SessionRecord) -> dict[str, Any]:
    """What the output carries that shows `record`, one of `whole`."""
    return output_metadata(record, whole.meta)


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
