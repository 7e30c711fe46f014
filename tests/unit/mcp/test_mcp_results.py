"""What calls bring back, through a real server."""

from __future__ import annotations

import pytest

from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.base import tool_output
from kin_nb.core.tools.mcp.answers import TEXT_LIMIT, read_result
from tests.unit.mcp.conftest import said, stdio, tool
from tests.unit.mcp.servers.behaviour import PNG


@pytest.fixture
async def servers(make):
    servers = make(stdio())
    assert await servers.connect() == []
    return servers


async def test_arguments_reach_the_server_as_given(servers):
    given = {"copy": None, "model_dump": {"b": [None, 1.0, 10**30]}, "ä": "\u2028", "self": True}
    assert await said(servers, "anything", **{k: v for k, v in given.items() if k != "self"}) == (
        '{"copy": null, "model_dump": {"b": [null, 1.0, 1000000000000000000000000000000]}, "\\u00e4": "\\u2028"}'
    )


@pytest.mark.parametrize("value", ["cut \ud83d", float("nan")])
async def test_arguments_that_no_json_can_hold_are_refused_before_they_are_sent(servers, value):
    with pytest.raises(ToolError, match="invalid arguments"):
        await said(servers, "echo", a=value)
    assert await said(servers, "echo", a=1) == '{"a": 1}'


async def test_every_part_of_an_answer_is_shown_or_said(servers):
    proxy = tool(servers, "mixed")
    result = await proxy.invoke()
    assert [(image.media_type, image.data) for image in proxy.images(result)] == [
        ("image/png", PNG),
        ("image/svg+xml", "PHN2Zy8+"),
        ("image/png", PNG),
    ]
    assert proxy.to_model(result).splitlines() == [
        "first",
        "[audio, audio/wav, 3 bytes: not shown]",
        "[resource a.txt: file:///a.txt]",
        "[test://text]",
        "inside",
        "[test://zip, application/zip, 3 bytes: not shown]",
        '[a part of the answer is not understood (type "hologram")]',
        "[a part of the answer is not understood (type null)]",
        '[a part of the answer is not understood (type "image")]',
        "[3 pictures]",
    ]


async def test_structured_content_is_shown_where_there_is_no_text(servers):
    assert await said(servers, "structured") == '{"answer": 42, "none": null}'
    assert await said(servers, "both") == "as text"
    assert await said(servers, "empty") == "[no output]"


async def test_a_call_that_fails_tells_the_model_why(subtests, servers):
    for name, error in [
        ("failure", "it did not work"),
        ("refuse", "MCP server test: a must be a number\nb is missing"),
        ("no_result", "The server's answer is not a tool result: `content` is missing."),
        ("input_required", "The server asks for input in the middle of a call, which is not supported."),
    ]:
        with subtests.test(name=name, error=error):
            with pytest.raises(ToolError) as raised:
                await said(servers, name)
            assert str(raised.value) == error
            assert await said(servers, "echo") == "{}"


async def test_thirty_megabytes_are_an_answer_of_which_the_ends_are_kept(servers):
    text = await said(servers, "big")
    assert "29,000,000 characters left out" in text
    assert len(text) < TEXT_LIMIT + 100


def test_a_failure_without_a_word_is_reported():
    with pytest.raises(ToolError, match="says that it failed, and not why"):
        read_result({"content": [{"type": "text", "text": " "}], "isError": True})


async def test_progress_is_live_output(servers):
    shown: list[str] = []
    token = tool_output.set(shown.append)
    try:
        assert await said(servers, "progress") == "done"
    finally:
        tool_output.reset(token)
    assert shown == ["1/2 part 1\n", "2/2 part 2\n"]


async def test_what_is_no_message_is_passed_over_in_silence(servers, capfd):
    assert await said(servers, "garbage") == "bad \ufffd byte"
    assert await said(servers, "half") == "cut ?"
    assert await said(servers, "flood") == "flooded"
    assert capfd.readouterr() == ("", "")


async def test_a_server_that_asks_for_something_is_declined(servers):
    answers = await said(servers, "ask")
    assert '"id": "s0", "result": {}' in answers
    for method in ("roots/list", "sampling/createMessage", "elicitation/create", "nonsense/method"):
        assert f"kin_nb does not support {method}" in answers
