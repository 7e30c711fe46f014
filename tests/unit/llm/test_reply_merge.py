"""Deltas of servers that count badly still become the calls that were meant."""

from __future__ import annotations

import re
from typing import Any

from kin_nb.core.config import ProviderConfig
from kin_nb.core.llm.adapters.openai import OpenAIAdapter
from kin_nb.core.llm.response_builder import ResponseBuilder
from kin_nb.core.messages import LLMChunk, LLMMessage, LLMUsage, Role

PROVIDER = ProviderConfig(name="local", api_base="http://127.0.0.1/v1")


def part(arguments: Any = None, name: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"type": None, "function": {"name": name, "arguments": arguments}, **fields}


def merged(*deltas: dict[str, Any], known: frozenset[str] = frozenset()) -> ResponseBuilder:
    builder, adapter = ResponseBuilder(known), OpenAIAdapter()
    for delta in deltas:
        builder.add(adapter.parse_response({"choices": [{"delta": {"tool_calls": [delta]}}]}, PROVIDER))
    return builder


def calls(builder: ResponseBuilder) -> list[tuple[str, str]]:
    return [(c.function.name, c.function.arguments) for c in builder.message.tool_calls]


def fields(builder: ResponseBuilder) -> dict[str, Any]:
    [call] = builder.message.tool_calls or ()
    assert call.origin is not None
    return call.origin.fields


def ids(builder: ResponseBuilder) -> list[str]:
    found = [c.id for c in builder.message.tool_calls]
    assert all(re.fullmatch("[A-Za-z0-9]{9}", i) for i in found)
    assert len(set(found)) == len(found)
    return found


def test_arguments_split_over_deltas_become_one_call() -> None:
    reply = merged(part("", "note", index=0, id="abcdefghi"), part('{"a": "First ', index=0), part('part"}', index=0))
    assert calls(reply) == [("note", '{"a": "First part"}')]
    assert ids(reply) == ["abcdefghi"]


def test_interleaved_calls_are_told_apart_by_index() -> None:
    reply = merged(
        part("", "a", index=0, id="call1"),
        part("", "b", index=1, id="call2"),
        part('{"x"', index=0),
        part("{}", index=1),
        part(":1}", index=0),
    )
    assert calls(reply) == [("a", '{"x":1}'), ("b", "{}")]


def test_without_index_an_id_or_a_name_begins_a_call() -> None:
    reply = merged(part("{", "a", id="1"), part("}"), part("{}", "a", id="2"), part("{}", "b"), part('{"q":1}', "b"))
    assert calls(reply) == [("a", "{}"), ("a", "{}"), ("b", "{}"), ("b", '{"q":1}')]
    ids(reply)


def test_one_index_for_all_calls() -> None:
    reply = merged(part('{"n":1}', "a", index=0, id=""), part('{"n":2}', "a", index=0, id=""), part("{}", "b", index=0))
    assert calls(reply) == [("a", '{"n":1}'), ("a", '{"n":2}'), ("b", "{}")]
    ids(reply)


def test_one_index_and_two_ids_are_two_calls_even_without_arguments() -> None:
    assert calls(merged(part("", "a", index=0, id="x1"), part("{}", "a", index=0, id="x2"))) == [
        ("a", "{}"),
        ("a", "{}"),
    ]


def test_id_and_name_repeated_in_every_delta() -> None:
    same: dict[str, Any] = {"name": "a", "index": 0, "id": "abcdefghi"}
    assert calls(merged(part("", **same), part('{"n"', **same), part(":1}", **same), part("", **same))) == [
        ("a", '{"n":1}')
    ]


def test_a_new_id_in_every_delta_of_one_call() -> None:
    reply = merged(part("", "a", index=0, id="x1"), part("{", index=0, id="x2"), part("}", index=0, id="x3"))
    assert calls(reply) == [("a", "{}")]


def test_two_calls_with_one_id_get_two() -> None:
    reply = merged(part("{}", "a", index=0, id="abcdefghi"), part("{}", "b", index=1, id="abcdefghi"))
    assert ids(reply)[0] == "abcdefghi"


def test_an_id_that_the_history_has_is_not_used_again() -> None:
    reply = merged(part("{}", "a", index=0, id="abcdefghi"), known=frozenset({"abcdefghi"}))
    assert ids(reply) != ["abcdefghi"]
    assert ids(reply) == ids(reply)  # the same at every look


def test_null_empty_and_object_arguments() -> None:
    reply = merged(
        part(None, "a", index=0), part("", "b", index=1), part({"k": 1}, "c", index=2), part("{oops", "d", index=3)
    )
    assert calls(reply) == [("a", "{}"), ("b", "{}"), ("c", '{"k": 1}'), ("d", "{oops")]


def test_calls_of_a_whole_reply_are_counted_by_position() -> None:
    message = {"tool_calls": [part(None, "a", index=0), part(None, "a", index=0)]}
    builder = ResponseBuilder()
    builder.add(OpenAIAdapter().parse_response({"choices": [{"message": message, "finish_reason": "stop"}]}, PROVIDER))
    assert calls(builder) == [("a", "{}"), ("a", "{}")]
    assert builder.finish_reason == "stop"


def test_text_around_calls_is_one_text_and_usage_is_the_last() -> None:
    builder = merged(part("{}", "a", index=0))
    for content, tokens in (("one ", 1), ("two", 2), (None, None)):
        usage = LLMUsage(completion_tokens=tokens) if tokens else None
        builder.add(LLMChunk(message=LLMMessage(role=Role.assistant, content=content), usage=usage))
    assert (builder.message.content, builder.usage.completion_tokens) == ("one two", 2)


def test_half_characters_become_whole_ones() -> None:
    builder = ResponseBuilder()
    for piece in ("\ud83d", "\udc0d and \ud83d"):
        builder.add(LLMChunk(message=LLMMessage.model_construct(role=Role.assistant, content=piece, tool_calls=None)))
    assert builder.message.content == "🐍 and \ufffd"


def test_pieces_of_a_reasoning_block_become_one_and_whole_blocks_stay() -> None:
    pieces = [
        {"index": 0, "type": "thinking", "thinking": "Hm, \ud83d"},
        {"index": 0, "type": "thinking", "thinking": "\udc0d."},
        {"index": 0, "type": "thinking", "thinking": "", "signature": "s"},
        {"index": 1, "type": "text", "text": "Yes"},
        {"index": 2, "type": "tool_use"},
    ]
    builder = ResponseBuilder()
    for piece in pieces:
        message = LLMMessage.model_construct(role=Role.assistant, reasoning_blocks=[piece])
        builder.add(LLMChunk.model_construct(message=message, usage=None, finish_reason=None))
    blocks = builder.message.reasoning_blocks
    assert blocks == [
        {"type": "thinking", "thinking": "Hm, 🐍.", "signature": "s"},
        {"type": "text", "text": "Yes"},
        {"type": "tool_use"},
    ]
    again = ResponseBuilder()  # a whole reply that is handed on as one chunk
    again.add(LLMChunk(message=builder.message))
    assert again.message.reasoning_blocks == blocks


def test_a_figure_that_came_before_is_not_lost() -> None:
    builder = ResponseBuilder()
    for prompt, completion in ((40, 1), (0, 9)):
        usage = LLMUsage(prompt_tokens=prompt, completion_tokens=completion)
        builder.add(LLMChunk(message=LLMMessage(role=Role.assistant), usage=usage))
    assert builder.usage == LLMUsage(prompt_tokens=40, completion_tokens=9)


def test_a_signature_is_joined_of_its_pieces_and_not_doubled(subtests) -> None:
    for pieces, whole in [
        (["SIGNED"], "SIGNED"),
        (["AAAA", "AAAA", "B"], "AAAAAAAAB"),
        (["SIG", "NED", "SIGNED"], "SIGNED"),
        (["SIGNED", "SIGNED", "SIGNED"], "SIGNED"),
    ]:
        with subtests.test(pieces=pieces, whole=whole):
            deltas = [
                part(
                    "",
                    "a" if number == 0 else None,
                    index=0,
                    signature=piece,
                    extra_content={"google": {"thought": piece}},
                )
                for number, piece in enumerate(pieces)
            ]
            assert fields(merged(*deltas)) == {"signature": whole, "extra_content": {"google": {"thought": whole}}}


def test_of_another_unknown_field_the_last_value_counts() -> None:
    deltas = [part("", "a", index=0, status="in_progress", count=1), part("{}", index=0, status="completed", count=2)]
    assert fields(merged(*deltas)) == {"status": "completed", "count": 2}


def test_a_field_that_is_not_json_costs_no_other() -> None:
    nan = float("nan")
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    reply = merged(
        part("{}", "a", index=0, score=nan, scores=[nan], deep=deep, extra_content={"signature": "s", "score": nan})
    )
    assert fields(reply) == {"extra_content": {"signature": "s"}}
