"""A recording with every kind of record and every field of each, none at its default: what a format has to carry."""

from __future__ import annotations

from typing import Any

from kin_nb.core.records import (
    ClearRecord,
    CompactRecord,
    FileChange,
    KeptFile,
    Record,
    RecordedCall,
    RecordedCompaction,
    RecordedDecision,
    RecordedDMail,
    RecordedImage,
    RecordedStep,
    RecordedSubagent,
    RecordedSubagentCall,
    Ref,
    TurnRecord,
    UndoRecord,
    canonical_json,
)
from kin_nb.replay.cell_keys import cell_key, command_key
from kin_nb.replay.recording import Recording, SessionMeta, WorkspaceMeta
from tests.unit.replay.sessions import LONG, SESSION

PATCH = "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CHANGE = FileChange(
    path="a.py", before="1" * 64, after="2" * 64, patch=PATCH, before_mode="100644", after_mode="100755"
)
IMAGE = RecordedImage(media_type="image/png", data=PIXEL)
COMPACTION = RecordedCompaction(
    summary="It was about a.py.",
    kept=2,
    summarised=5,
    words=100,
    old_tokens=900,
    new_tokens=100,
    prompt_tokens=800,
    completion_tokens=50,
)
SUBAGENT = RecordedSubagent(
    profile="explore",
    steps=2,
    calls=(RecordedSubagentCall(name="grep", summary="grep x", status="ok"),),
    more=1,
    unasked=("bash",),
    prompt_tokens=10,
    completion_tokens=4,
    cost="0.001",
)
CALLS = (
    RecordedCall(
        id="c1",
        name="edit_file",
        arguments='{"path": "a.py"}',
        provider_data='{"provider":"p","model":"m","id":"call_1","fields":{"extra":{"signature":"c2ln"}}}',
        edited_arguments='{"path": "b.py"}',
        summary="edit a.py",
        decision=RecordedDecision(verdict="allow", by="person", reason="asked", scope="session", note="go on"),
        status="ok",
        output="Edited.",
        exit=1,
        milliseconds=12,
        files=(CHANGE,),
        uncovered="a.db is over 2 MB",
        bound=("x",),
        hint="[cut]",
        no_undo="[note: the disk is full]",
        images=(IMAGE,),
        subagent=SUBAGENT,
    ),
    RecordedCall(id="c2", name="bash", arguments="{}", status="error", output=LONG),
    RecordedCall(id="c3", name="bash", arguments="{}", status="ok", withheld="3" * 64),
)
STEP = RecordedStep(
    fingerprint="f1",
    content="half a pair: \ud83d",
    reasoning="Hm.",
    prompt_tokens=10,
    completion_tokens=3,
    milliseconds=900,
    calls=CALLS,
    compaction=COMPACTION,
    injected="remember",
    reminder="You repeat yourself",
    pruned=("c0",),
    provider_data='{"provider":"p","model":"m","fields":{"reasoning_details":[{"data":"c2ln"}]}}',
    dmail=RecordedDMail(step=1, message="look at b.py"),
)
TURN = TurnRecord(
    id="2" * 16,
    parent=Ref(id="1" * 16, step=2),
    seq=2,
    ancestors=("1" * 16,),
    turn=2,
    prompt="Fix the build\nplease. é 🐢",
    sent="a skill, and: Fix the build",
    key=cell_key("Fix the build\nplease. é 🐢", ""),
    cell_id="second",
    model="devstral",
    mode="plan",
    images=(IMAGE,),
    attached=("df (3 columns)",),
    warnings=("a skill could not be read",),
    steps=(STEP, RecordedStep(fingerprint="f2", content="Done.")),
    dmail=RecordedDMail(step=1, message="once more"),
    compaction=COMPACTION,
    outcome="stopped",
    no_reply=True,
    message="the limit",
    stop_reason="max_turns",
    cost="0.01",
    milliseconds=1200,
)
FIRST = TurnRecord(
    id="1" * 16,
    seq=1,
    turn=1,
    prompt="Hello",
    key=cell_key("Hello", ""),
    cell_id="first",
    outcome="done",
    steps=(RecordedStep(content="Hi."),),
)
UNDO = UndoRecord(
    id="3" * 16,
    parent=Ref(id="2" * 16),
    head=Ref(id="1" * 16),
    seq=3,
    ancestors=("1" * 16,),
    key=command_key("undo 1"),
    cell_id="third",
    turn_ids=("2" * 16,),
    turns=(2,),
    files=(CHANGE,),
    kept=(KeptFile(path="c.py", why="changed since"),),
    uncovered=("a command wrote somewhere",),
    warnings=("module a was reloaded",),
)
REDO = UndoRecord(
    type="redo",
    id="5" * 16,
    parent=Ref(id="1" * 16),
    head=Ref(id="2" * 16),
    seq=4,
    ancestors=("2" * 16, "1" * 16),
    key=command_key("redo"),
    cell_id="fourth",
    turn_ids=("2" * 16,),
    turns=(2,),
)
COMPACT = CompactRecord(
    id="6" * 16,
    parent=Ref(id="2" * 16),
    seq=5,
    ancestors=("2" * 16, "1" * 16),
    key=command_key("compact"),
    cell_id="fifth",
    model="devstral",
    compaction=COMPACTION,
    cost="0.02",
)
CLEAR = ClearRecord(id="7" * 16, parent=Ref(id="6" * 16), seq=6, key=command_key("clear"), cell_id="sixth")
META = SessionMeta(
    session=SESSION,
    kin_nb="0.1.0",
    model="devstral",
    workspace=WorkspaceMeta(path="work", commit="a" * 40, branch="main"),
    system_prompt_sha="b" * 64,
    tools_sha="c" * 64,
)
EVERYTHING = Recording(
    META,
    (FIRST, TURN, UNDO, REDO, COMPACT, CLEAR),
    (canonical_json({"type": "vote", "n": 3, "of": ["x", {"y": None}]}),),
)


def fields_not_set(record: Any) -> set[str]:
    """`Class.field` of every field that has its default somewhere and nowhere another value, in records within `record`."""
    seen: dict[str, bool] = {}

    def look(value: Any) -> None:
        if isinstance(value, Record):
            for name, field in type(value).model_fields.items():
                here = getattr(value, name)
                key = f"{type(value).__name__}.{name}"
                seen[key] = seen.get(key, False) or here != field.get_default()
                look(here)
        elif isinstance(value, tuple):
            for item in value:
                look(item)

    look(record)
    return {key for key, was_set in seen.items() if not was_set}
