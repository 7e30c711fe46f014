"""Continuing where a conversation was cut within a turn: what came after the cut is not sent, wherever the cut is."""

from __future__ import annotations

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.records import CompactRecord, RecordedCompaction, RecordedStep, Ref, SessionRecord, TurnRecord
from kin_nb.replay.book import Book
from kin_nb.replay.playback.player import resume_from
from tests.unit.replay.sessions import turn, undo

ONE = turn(1, "x", steps=(RecordedStep(content="one"), RecordedStep(content="two")))
WITHIN = Ref(id=ONE.id, step=2)
CUT = undo(ONE, seq=2).model_copy(update={"head": WITHIN, "ancestors": (ONE.id,)})
ON = turn(3, "on", parent=WITHIN, ancestors=(ONE.id,))
SUMMARY = RecordedCompaction(summary="It was one.", summarised=2)
COMPACT = CompactRecord(id="c" * 16, parent=WITHIN, ancestors=(ONE.id,), seq=3, compaction=SUMMARY)
AFTER = turn(4, "after", parent=COMPACT.head, ancestors=(COMPACT.id, ONE.id))
BEFORE = turn(1, "before", id="b" * 16)
LOST = undo(ONE, seq=9).model_copy(update={"head": WITHIN, "ancestors": (ONE.id, BEFORE.id)})


@pytest.fixture
async def agent(tmp_path, monkeypatch):
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    agent = Agent(KinConfig(workdir=tmp_path))
    yield agent
    await agent.aclose()


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ((ONE, CUT), ["x", "one"]),
        ((ONE, CUT, ON), ["x", "one", "on", "Answer 3."]),
        ((ONE, CUT, COMPACT), ["It was one."]),
        ((ONE, CUT, COMPACT, AFTER), ["It was one.", "after", "Answer 4."]),
        ((BEFORE, LOST), ["before", "Answer 1."]),
    ],
    ids=[
        "at the end",
        "before a turn",
        "before a compaction",
        "before a compaction and a turn",
        "in a turn that is gone",
    ],
)
def test_what_came_after_the_cut_is_not_sent(agent, records: tuple[SessionRecord, ...], says):
    book = Book.of_records(records)
    resume_from(agent, book, book.head())
    texts = [message.content for message in agent.messages[1:]]
    assert len(texts) == len(says) or says[0] == SUMMARY.summary
    assert all(said in text for said, text in zip(says[::-1], texts[::-1], strict=False))
    assert not any("two" in text for text in texts)
    recorded = [record for record in records if isinstance(record, TurnRecord)]
    assert [record for record in agent.records if isinstance(record, TurnRecord)] == recorded
