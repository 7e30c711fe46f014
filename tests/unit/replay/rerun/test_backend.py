"""ReplayBackend answers as the recorded model did, then no more."""

from __future__ import annotations

import pytest

from kin_nb.core.llm.types import BackendLike
from kin_nb.replay.errors import ReplayEndedError
from kin_nb.replay.rerun.stubs import ReplayBackend
from tests.unit.replay.sessions import busy_turn, turn

REQUEST = {
    "model": None,
    "messages": [],
    "temperature": 0.0,
    "tools": None,
    "max_tokens": None,
    "tool_choice": None,
    "extra_headers": None,
}


async def test_each_request_gets_its_recorded_step_streaming_or_not():
    backend: BackendLike = ReplayBackend(busy_turn())
    async with backend as entered:
        first = await entered.complete(**REQUEST)
        rest = [chunk async for chunk in entered.complete_streaming(**REQUEST)]
    calls = [(call.id, call.function.name, call.function.arguments) for call in first.message.tool_calls]
    assert calls == [("c1", "bash", '{"command": "make"}'), ("c2", "edit_file", '{"path":"a.py"}')]
    assert (first.message.content, first.message.reasoning_content) == ("I look. é 🐢", "hm")
    assert (first.usage.prompt_tokens, first.finish_reason) == (10, "tool_calls")
    assert [(chunk.message.content, chunk.finish_reason) for chunk in rest] == [("Done.", "stop")]


async def test_after_the_last_step_it_says_that_the_recording_ended():
    backend = ReplayBackend(turn(4, "p"))
    await backend.complete(**REQUEST)
    with pytest.raises(ReplayEndedError, match="turn 4 was recorded with 1 model requests"):
        await backend.complete(**REQUEST)


async def test_a_turn_that_was_cut_short_ends_with_its_reason():
    backend = ReplayBackend(turn(4, "p", steps=(), outcome="error", message="the server hung up"))
    with pytest.raises(ReplayEndedError, match=r"up to step 0 and ended there \(error: the server hung up\)"):
        [chunk async for chunk in backend.complete_streaming(**REQUEST)]


def test_a_request_that_differs_is_noted_by_step():
    backend = ReplayBackend(busy_turn())
    assert backend.check_request(1, "f1")
    assert not backend.check_request(2, "f1")
    assert not backend.check_request(3, "f3")
    assert backend.matched == {1: True, 2: False, 3: False}
