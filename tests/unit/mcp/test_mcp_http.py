"""Servers over HTTP: keys, redirects, proxies, sessions, and what goes wrong with them."""

from __future__ import annotations

import asyncio

import pytest

from kin_nb.core.config.mcp_servers import MCPHttp
from kin_nb.core.tools.base import ToolError
from kin_nb.core.tools.mcp.results import TEXT_LIMIT
from tests.unit.mcp.conftest import http, said
from tests.unit.mcp.http_server import HttpServer

SECRET = "s3cret-and-long"


@pytest.mark.parametrize("sse", [False, True], ids=["json", "sse"])
async def test_tools_are_listed_and_called(make, web, sse):
    web.sse = sse
    servers = make(MCPHttp(name="test", url=web.url))
    assert await servers.connect() == []
    assert list(servers.tool_classes()) == ["test_echo", "test_deep"]
    assert await said(servers, "echo", a=None) == '{"a": null}'
    assert len(await said(servers, "big")) < TEXT_LIMIT + 100
    asked = len(web.seen)
    assert await servers.connect() == []
    assert len(web.seen) == asked
    await servers.aclose()
    assert web.seen[-1][0] == "DELETE"


async def test_headers_and_the_key_go_with_every_request(make, web, monkeypatch):
    monkeypatch.setenv("WEB_KEY", SECRET)
    servers = make(http(web, headers={"X-Team": "a"}, api_key_env="WEB_KEY"))
    await servers.connect()
    await said(servers, "echo")
    await servers.aclose()
    assert {(h["x-team"], h["authorization"]) for _, h, _ in web.seen} == {("a", f"Bearer {SECRET}")}
    assert {h["accept-encoding"] for _, h, _ in web.seen} == {"identity"}


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_a_warning_that_names_the_variable(make, web, monkeypatch, status):
    monkeypatch.setenv("WEB_KEY", SECRET)
    web.told = status
    assert await make(http(web, api_key_env="WEB_KEY")).connect() == [
        f"MCP server test: {web.url}: the key is refused (HTTP {status}); check the key in the variable WEB_KEY"
    ]
    todo = "name the variable that holds its key: api_key_env"
    assert await make(http(web)).connect() == [
        f"MCP server test: {web.url}: the key is refused (HTTP {status}); {todo}"
    ]


@pytest.mark.parametrize("key", [f"{SECRET}\n", f"{SECRET}é", f"{SECRET} and-more-of-it\r\nX: y"])
async def test_a_key_that_no_header_can_hold_is_a_warning_without_it(make, web, monkeypatch, key):
    monkeypatch.setenv("WEB_KEY", key)
    (warning,) = await make(http(web, api_key_env="WEB_KEY")).connect()
    assert warning.startswith("MCP server test: ")
    assert "s3cret" not in warning
    assert "and-more" not in warning


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (404, "HTTP 404: Not Found; check its url"),
        (500, "HTTP 500: Server returned an error response; check its url"),
    ],
)
async def test_a_refused_start_is_a_warning_with_the_status(make, web, told, why):
    web.told = told
    assert await make(http(web, url=f"{web.url}?key={SECRET}")).connect() == [f"MCP server test: {web.url}: {why}"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/mcp", "htp://x y/", "http://[", ""])
async def test_an_address_where_nobody_answers_is_a_warning(make, web, url):
    (warning,) = await make(http(web, url=url)).connect()
    assert "cannot be reached" in warning


async def test_a_redirect_to_another_host_is_refused(make, web):
    with HttpServer.start() as other:
        web.told, web.location = "redirect", other.url
        (warning,) = await make(http(web)).connect()
        assert f"Redirect to {other.url} not followed" in warning
        assert other.seen == []


async def test_loopback_is_not_asked_through_a_proxy(make, web, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert await make(http(web)).connect() == []


async def test_a_server_that_hangs_at_start_costs_its_timeout_once(make, web):
    web.told = "hang"
    assert await make(http(web, startup_timeout_sec=0.4)).connect() == [
        "MCP server test: it was not ready within 0.4 s (startup_timeout_sec)"
    ]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("html", "Unexpected content type: text/html"),
        ("not_json", "Failed to parse JSON response"),
        ("too_big", "the answer has more than 64,000,000 bytes"),
        ("denied", r"the key is refused \(HTTP 403\)"),
        ("zipped", "gone: .* it compresses its answers"),
    ],
)
async def test_a_bad_answer_is_one_error_and_the_next_call_works(make, web, name, why):
    servers = make(http(web))
    await servers.connect()
    with pytest.raises(ToolError, match=why):
        await said(servers, name)
    assert await said(servers, "echo") == "{}"


async def test_a_session_that_the_server_forgot_is_begun_again_by_the_next_call(make, web):
    servers = make(http(web))
    await servers.connect()
    web.session = "session-2"
    with pytest.raises(ToolError, match="gone: it does not know this session any more"):
        await said(servers, "echo")
    assert await said(servers, "echo") == "{}"
    assert web.methods().count("initialize") == 2


async def test_a_server_that_went_away_is_said_and_tried_again(make):
    with HttpServer.start() as web:
        web.keeps_alive = False
        servers = make(http(web))
        await servers.connect()
    with pytest.raises(ToolError, match=r"gone: http://127.0.0.1:\d+/mcp cannot be reached"):
        await said(servers, "echo")
    with pytest.raises(ToolError, match=r"MCP server test: http://127.0.0.1:\d+/mcp cannot be reached"):
        await said(servers, "echo")


async def test_an_interrupted_call_is_cancelled_on_the_wire(make, web):
    servers = make(http(web))
    await servers.connect()
    running = asyncio.create_task(said(servers, "wait"))
    assert await asyncio.to_thread(web.waiting.wait, 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await asyncio.to_thread(web.cancelled.wait, 10)
    assert await said(servers, "echo") == "{}"
    assert web.methods().count("initialize") == 1


async def test_a_call_without_an_answer_ends_at_its_limit(make, web):
    servers = make(http(web, tool_timeout_sec=0.3))
    await servers.connect()
    with pytest.raises(ToolError, match=r"no answer within 0.3 s \(tool_timeout_sec\)"):
        await said(servers, "wait")
    assert await said(servers, "echo") == "{}"


async def test_a_goodbye_that_hangs_does_not_keep_us(make, web, monkeypatch):
    monkeypatch.setattr("kin_nb.core.tools.mcp.connection.CLOSE_LIMIT", 0.2)
    servers = make(http(web))
    await servers.connect()
    web.told = "hang_at_goodbye"
    await servers.aclose()
