"""Servers over HTTP: keys, redirects, proxies, sessions, and what goes wrong with them."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from contextlib import suppress

import pytest

from kin_nb.core.config.entries import MCPHttp
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.mcp.answers import TEXT_LIMIT
from tests.serving import certificate
from tests.unit.mcp.conftest import http, said
from tests.unit.mcp.http_server import HttpServer

SECRET = "s3cret-and-long"
OF_1999 = (
    '{"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "1999-01-01", "capabilities": {}, '
    '"serverInfo": {"name": "a", "version": "1"}}}'
)


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
    # the stream may be asked for once more while the session ends
    assert "DELETE" in [request[0] for request in web.seen[asked:]]


async def test_a_changed_list_is_heard_between_two_calls(make, web):
    web.sse = True
    servers = make(http(web))
    await servers.connect()
    assert await servers.refresh() == []
    assert web.methods().count("tools/list") == 1
    await said(servers, "change")
    assert await servers.refresh() == []
    assert list(servers.tool_classes()) == ["test_echo", "test_deep", "test_new"]
    assert web.methods().count("tools/list") == 2


async def test_a_changed_list_that_could_not_be_read_is_read_the_next_time(make, web):
    web.sse = True
    servers = make(http(web))
    await servers.connect()
    await said(servers, "change")
    web.failing_lists = 1
    (warning,) = await servers.refresh()
    assert "busy" in warning
    assert await servers.refresh() == []
    assert list(servers.tool_classes()) == ["test_echo", "test_deep", "test_new"]
    assert await servers.refresh() == []
    assert web.methods().count("tools/list") == 3


async def test_headers_and_the_key_go_with_every_request(make, web, monkeypatch):
    monkeypatch.setenv("WEB_KEY", SECRET)
    servers = make(http(web, headers={"X-Team": "a"}, api_key_env="WEB_KEY"))
    await servers.connect()
    await said(servers, "echo")
    await servers.aclose()
    assert {(h["x-team"], h["authorization"]) for _, h, _ in web.seen} == {("a", f"Bearer {SECRET}")}
    assert {h["accept-encoding"] for _, h, _ in web.seen} == {"identity"}


@pytest.mark.parametrize(
    ("status", "phrase", "without"),
    [
        (401, "Unauthorized", "it wants a key (HTTP 401: Unauthorized). Name the variable that holds it: api_key_env"),
        (
            403,
            "Forbidden",
            "it refuses access (HTTP 403: Forbidden). If it wants a key, name the variable that holds it: api_key_env",
        ),
    ],
)
async def test_a_refused_key_is_a_warning_that_names_the_variable(make, web, monkeypatch, status, phrase, without):
    monkeypatch.setenv("WEB_KEY", SECRET)
    web.told = status
    code = f"HTTP {status}: {phrase}"
    assert await make(http(web, api_key_env="WEB_KEY")).connect() == [
        f"MCP server test: {web.url}: the key is refused ({code}). Check the key in the variable WEB_KEY"
    ]
    assert await make(http(web)).connect() == [f"MCP server test: {web.url}: {without}"]


async def test_a_login_by_oauth_is_named_with_what_is_missing(make, web, monkeypatch):
    monkeypatch.setenv("WEB_KEY", SECRET)
    place = "https://mcp.example.com/.well-known/oauth-protected-resource"
    challenge = f'Bearer error="invalid_token", resource_metadata="{place}?session={SECRET}"'
    web.answer = (401, {"www-authenticate": challenge}, b"")
    what = f"{web.url}: it wants an OAuth access token (HTTP 401: Unauthorized; see {place}), and kin_nb does not log in there"
    assert await make(http(web)).connect() == [
        f"MCP server test: {what} by itself. Get a token from its provider, and name the variable that holds it in api_key_env"
    ]
    web.answer = (401, {"www-authenticate": f"Bearer resource_metadata={place}"}, b"")
    assert await make(http(web, api_key_env="WEB_KEY")).connect() == [
        f"MCP server test: {what} by itself. The token in WEB_KEY may have expired: get another"
    ]
    web.answer = (403, {"www-authenticate": 'Bearer error="insufficient_scope", scope="files:write"'}, b"")
    assert await make(http(web, api_key_env="WEB_KEY")).connect() == [
        f"MCP server test: {web.url}: its token lacks the scope files:write (HTTP 403: Forbidden). Put another into WEB_KEY"
    ]


async def test_a_key_that_no_header_can_hold_is_a_warning_without_it(subtests, make, web, monkeypatch):
    for key in [f"{SECRET}\n", f"{SECRET}é", f"{SECRET} and-more-of-it\r\nX: y"]:
        with subtests.test(key=key), monkeypatch.context() as patch:
            patch.setenv("WEB_KEY", key)
            (warning,) = await make(http(web, api_key_env="WEB_KEY")).connect()
            assert warning.startswith("MCP server test: ")
            assert "s3cret" not in warning
            assert "and-more" not in warning


OLD = "this is an address of MCP's old transport, HTTP with SSE, which is not supported"
INSTEAD = "Use the server's address for streamable HTTP, often the same with /mcp"
CHECK = "Check its url: the path is often /mcp"
REFUSED = '{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "No session"}}'


async def test_a_refused_start_is_a_warning_with_what_to_do(subtests, make, web):
    for path, status, why in [
        ("/mcp", 404, f"there is nothing at this address (HTTP 404: Not Found). {CHECK}"),
        ("/sse", 404, f"{OLD} (HTTP 404: Not Found). {INSTEAD}"),
        ("/a/sse/", 405, f"{OLD} (HTTP 405: Method Not Allowed). {INSTEAD}"),
        (
            "/mcp",
            405,
            f"this address takes no POST, so it does not speak streamable HTTP (HTTP 405: Method Not Allowed). {CHECK}",
        ),
        ("/mcp", 406, "it refused the request (HTTP 406: Not Acceptable). Check its url and headers"),
        ("/sse", 500, "it failed (HTTP 500: Internal Server Error). See its own log, or try again later"),
        ("/mcp", 429, "it takes no more requests for now (HTTP 429: Too Many Requests). Try again later"),
    ]:
        with subtests.test(path=path, status=status, why=why):
            web.told, web.path = status, path
            assert await make(http(web, url=f"{web.url}?key={SECRET}")).connect() == [
                f"MCP server test: {web.url}: {why}"
            ]


PAGE = "it answers with a web page, perhaps a login, and not with MCP"


NOT_MCP_ANSWERS = [
    (200, {"content-type": "text/html; charset=utf-8"}, "<html>", f"{PAGE}. {CHECK}"),
    (
        200,
        {"content-type": "image/png"},
        "x",
        f"it answers with image/png, and not with JSON or an event stream. {CHECK}",
    ),
    (200, {"content-type": "application/json"}, "{no", f"its answer is not JSON. {CHECK}"),
    (200, {"content-type": "application/json"}, '{"ok": true}', f"its answer is not an MCP message. {CHECK}"),
    (200, {"content-type": "application/json"}, "[1]", f"its answer is not an MCP message. {CHECK}"),
    (200, {"content-type": "text/event-stream"}, "data: {no\n\n", f"its answer is not JSON. {CHECK}"),
    (
        200,
        {"content-type": "application/json"},
        '{"jsonrpc": "2.0", "id": 1, "result": {"serverInfo": {"name": "a", "version": "1"}}}',
        f"its answer is not as MCP wants it (capabilities, protocolVersion missing or wrong). {CHECK}",
    ),
    (
        200,
        {"content-type": "application/json"},
        OF_1999,
        "it speaks version 1999-01-01 of MCP, which is not supported. Update the server or kin_nb",
    ),
    (202, {}, "", f"it took a request and gave no answer (HTTP 202). {CHECK}"),
    (
        400,
        {"content-type": "application/json"},
        REFUSED,
        "it refused the request (HTTP 400: No session). Check its url and headers",
    ),
    (
        429,
        {"retry-after": "30"},
        "",
        "it takes no more requests for now (HTTP 429: Too Many Requests; Retry-After: 30). Try again later",
    ),
    (
        302,
        {"location": f"https://login.example.com/a?state={SECRET}"},
        "",
        "it redirects to https://login.example.com/a, which is not followed. Use that as its url, if you trust it",
    ),
    (
        308,
        {"location": "/mcp"},
        "",
        "it redirects to the same address (HTTP 308). Check its url, and whether it wants a login",
    ),
    (300, {}, "", "it refused the request (HTTP 300: Multiple Choices). Check its url and headers"),
    (302, {}, "", "it refused the request (HTTP 302: Found). Check its url and headers"),
    (302, {"location": "http://[::1"}, "", "it refused the request (HTTP 302: Found). Check its url and headers"),
    (304, {}, "", "it refused the request (HTTP 304: Not Modified). Check its url and headers"),
]


async def test_an_answer_that_is_not_mcp_is_a_plain_warning(subtests, make, web):
    for status, headers, body, why in NOT_MCP_ANSWERS:
        with subtests.test(status=status, headers=headers, body=body, why=why):
            web.answer = (status, dict(headers), body.encode())
            assert await make(http(web)).connect() == [f"MCP server test: {web.url}: {why}"]


async def test_a_connection_that_is_closed_without_an_answer_is_a_plain_warning(make):
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def close_each() -> None:
            with suppress(OSError):
                while True:
                    listening.accept()[0].close()

        closing = threading.Thread(target=close_each, daemon=True)
        closing.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        (warning,) = await make(MCPHttp(name="test", url=url)).connect()
        listening.shutdown(socket.SHUT_RDWR)
        await asyncio.to_thread(closing.join)
    assert warning == (
        f"MCP server test: {url}: it closed the connection without an answer. Check its url (http or https?), and whether it runs"
    )


async def test_tls_that_cannot_be_used_is_a_warning_that_says_why(make, web, tmp_path, monkeypatch):
    path = certificate(tmp_path, "localhost")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(path)
    with HttpServer.start(tls) as server:
        own, other = server.url.replace("127.0.0.1", "localhost"), server.url

        async def warnings(url: str) -> list[str]:
            return await make(MCPHttp(name="test", url=url)).connect()

        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        (untrusted,) = await warnings(own)
        assert untrusted == (
            f"MCP server test: {own} cannot be reached (its certificate is not trusted: self-signed certificate); "
            "if it is your own, name its authority in SSL_CERT_FILE"
        )
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        assert await warnings(own) == []
        (another_name,) = await warnings(other)
        assert "its certificate is for another name: " in another_name
        assert another_name.endswith("; check its url")
        nothing = tmp_path / "corporate.pem"
        nothing.write_text("not a certificate")
        monkeypatch.setenv("SSL_CERT_FILE", str(nothing))
        example = "https://mcp.example.invalid/mcp"
        why = f"SSL_CERT_FILE names {nothing}, which cannot be used (it contains no certificate)"
        assert await warnings(example) == [f"MCP server test: {example}: {why}. Correct or remove that variable"]
        monkeypatch.setenv("SSL_CERT_FILE", "/no/such.pem")
        assert await warnings(own) == [
            f"MCP server test: {own}: SSL_CERT_FILE names /no/such.pem, which does not exist. Correct or remove that variable"
        ]
    monkeypatch.delenv("SSL_CERT_FILE")
    plain = web.url.replace("http:", "https:")
    assert await warnings(plain) == [
        f"MCP server test: {plain} cannot be reached (it does not speak TLS); write http:// in its url, if that is safe"
    ]


async def test_an_address_where_no_one_answers_is_a_warning(subtests, make, web):
    for url in ["http://127.0.0.1:1/mcp", "htp://x y/", "http://[", ""]:
        with subtests.test(url=url):
            (warning,) = await make(http(web, url=url)).connect()
            assert "cannot be reached" in warning


async def test_a_redirect_to_another_host_is_refused(make, web):
    with HttpServer.start() as other:
        web.told, web.location = "redirect", other.url
        (warning,) = await make(http(web)).connect()
        assert f"it redirects to {other.url}, which is not followed" in warning
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


async def test_a_bad_answer_is_one_error_and_the_next_call_works(subtests, make, web):
    for name, why in [
        ("html", "it answers with a web page, perhaps a login, and not with MCP"),
        ("not_json", "its answer is not JSON"),
        ("too_big", "the answer has more than 64,000,000 bytes"),
        ("denied", r"it refuses access \(HTTP 403: Forbidden\)"),
        ("zipped", "gone: .* it compresses its answers"),
    ]:
        with subtests.test(name=name, why=why):
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


async def test_a_server_that_went_away_is_reported_and_tried_again(make):
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
