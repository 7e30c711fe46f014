"""What servers say of their tools, and the names that the model gets."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from kin_nb.core.tool_types import Accesses, BaseToolConfig
from kin_nb.core.tools.mcp import connection
from kin_nb.core.tools.mcp.answers import read_tools, tool_name
from tests.unit.mcp.conftest import stdio, tool
from tests.unit.mcp.servers.behaviour import DEEP, TOOLS


def test_importing_the_package_does_not_import_mcp():
    script = "import sys, kin_nb.core.tools.mcp; print([m for m in ('mcp', 'httpx2', 'anyio') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


async def test_a_tool_is_offered_with_its_servers_name_text_hint_and_untouched_schema(make):
    servers = make(stdio(prompt="use it rarely"))
    assert await servers.connect() == []
    classes = servers.tool_classes()
    assert list(classes) == ["test_echo", "test_deep"]
    info = classes["test_deep"].get_info()
    assert (info.name, info.description) == ("test_deep", "[test] Has a rich schema\nHint: use it rarely")
    assert json.dumps(info.parameters) == json.dumps(DEEP)


async def test_what_a_server_claims_lets_calls_run_side_by_side_and_never_lowers_the_approval(make):
    servers = make(stdio())
    await servers.connect()
    proxy = tool(servers, "deep")  # it says readOnlyHint
    assert proxy.accesses(proxy.parse_args({})) == Accesses(everything=True, shared=True)


async def test_the_preview_shows_server_tool_and_arguments(make):
    servers = make(stdio())
    await servers.connect()
    proxy = tool(servers, "echo")
    preview = proxy.preview(proxy.parse_args({"path": "ä\n" * 100}))
    assert preview.summary.startswith('test: echo {"path": "ä\\n')
    assert len(preview.summary) < 150
    assert json.loads(preview.body) == {"path": "ä\n" * 100}


async def test_a_bad_definition_costs_that_tool_and_a_warning(make):
    servers = make(stdio("bad_tools"))
    warnings = await servers.connect()
    assert list(servers.tool_classes()) == ["test_echo", "test_deep", "test_bare", "test_untyped"]
    assert servers.tool_classes()["test_bare"].get_parameters() == {"type": "object", "properties": {}}
    assert servers.tool_classes()["test_untyped"].get_parameters() == {"type": "object", "properties": {"a": {}}}
    assert warnings == [
        'MCP server test: tool array was left out: its inputSchema describes "array", not an object',
        ("MCP server test: tool nonsense was left out: its inputSchema.properties.a.type is not a JSON type"),
        "MCP server test: tool text was left out: its inputSchema must be a JSON object",
        "MCP server test: tool huge was left out: its definition has 200,032 characters; at most 100,000 are taken",
        "MCP server test: a tool without a name was left out",
        "MCP server test: a tool without a name was left out",
        "MCP server test: tool echo is listed twice; the first counts",
    ]


def nested(depth: int) -> dict:
    return {"properties": {"a": nested(depth - 1)}} if depth else {}


def test_a_schema_that_providers_would_refuse_is_a_problem_of_one_line(subtests):
    for schema in [
        {"type": None},
        {"type": ["object"]},
        {"properties": []},
        {"properties": {"a": 1}},
        {"properties": {"a": {"type": [7]}}},
        {"required": "a"},
        {"$defs": {"b": {"anyOf": {}}}},
        {"properties": {"a": {"items": [{"not": 1}]}}},
        {"additionalProperties": {"enum": 1}},
        nested(120),
    ]:
        with subtests.test(schema=schema):
            tools, (problem,) = read_tools([{"name": "a\n", "inputSchema": schema}], [])
            assert tools == []
            assert problem.startswith("tool a  was left out: its inputSchema")


def test_what_a_draft_or_vendor_may_say_is_kept(subtests):
    for schema in [
        {"properties": {"a": True}},
        {"items": {"exclusiveMinimum": True}},
        {"$ref": "urn:x"},
        {"x-vendor": 1},
        nested(50),
    ]:
        with subtests.test(schema=schema):
            (tool,), problems = read_tools([{"name": "a", "inputSchema": schema}], [])
            assert problems == []
            assert tool.schema == {"type": "object", **schema}


def test_the_fingerprint_changes_with_the_definition_and_with_nothing_else():
    def fingerprint(**changes: object) -> str:
        return read_tools([{**TOOLS[0], **changes}], [])[0][0].fingerprint

    same = fingerprint()
    assert fingerprint(annotations={"destructiveHint": True}) == same
    assert fingerprint(description="Send it to me") != same
    assert fingerprint(inputSchema={"type": "object", "required": []}) != same


async def test_pages_are_read_to_the_end(make):
    servers = make(stdio("pages"))
    assert await servers.connect() == []
    assert list(servers.tool_classes()) == ["test_page0", "test_page1", "test_page2"]


LEFT_OUT = "are left out: at most 1,000 are offered. Name those that you do not need in its disabled_tools."


async def test_the_pages_that_were_read_of_a_list_without_end_are_kept(make, monkeypatch):
    small, stuck = (make(stdio(name, startup_timeout_sec=60)) for name in ("small_pages", "stuck_page"))
    assert await small.connect() == [
        "MCP server test: its list of tools has more than 100 pages; what comes after them was not read"
    ]
    assert len(small.tool_classes()) == 100
    monkeypatch.setattr(connection, "LIST_SHARE", 0.01)
    assert await stuck.connect() == [
        "MCP server test: it took too long to list its tools (startup_timeout_sec); only 2 of them were read"
    ]
    assert list(stuck.tool_classes()) == ["test_echo", "test_deep"]


async def test_a_list_without_end_is_cut_and_said(make):
    again, endless = make(stdio("same_page")), make(stdio("endless", startup_timeout_sec=60))
    first, *_ = await again.connect()
    assert first == "MCP server test: it lists the same page of tools again and again; the rest was left out"
    assert list(again.tool_classes()) == ["test_echo", "test_deep"]
    assert await endless.connect() == [
        "MCP server test: it lists more than 10,000 tools; what comes after them was not read",
        f"MCP server test: 9,200 of its 10,200 tools {LEFT_OUT}",
    ]
    assert len(endless.tool_classes()) == 1000


async def test_tools_beyond_the_limit_are_counted_also_where_a_page_ends_at_it(make):
    servers = make(stdio("full_page"))
    assert await servers.connect() == [f"MCP server test: 500 of its 1,500 tools {LEFT_OUT}"]
    assert list(servers.tool_classes())[-1] == "test_t1_499"


async def test_disabled_tools_make_room_for_those_of_later_pages(make):
    servers = make(stdio("full_page", disabled_tools=["t0_*"]))
    assert await servers.connect() == []
    assert list(servers.tool_classes())[-1] == "test_t2_499"


async def test_disabled_tools_and_servers_are_not_offered(make):
    servers = make(stdio(disabled_tools=["de*"]), stdio("hang_at_start", name="off", disabled=True))
    assert await servers.connect() == []
    assert list(servers.tool_classes()) == ["test_echo"]


async def test_names_are_what_providers_accept_and_each_is_its_own(make):
    servers = make(stdio("names"))
    await servers.connect()
    names = list(servers.tool_classes())
    assert len(names) == 5
    assert names[0] == "test_a_b"
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    assert names == list(servers.tool_classes())


async def test_no_server_shadows_a_built_in_tool_or_another_server(make):
    servers = make(stdio("names", name="test_x"), stdio(name="read"), stdio(name="test"))
    await servers.connect()
    found = servers.tool_classes()
    assert len(found) == 9
    assert tool_name("read", "file", {"read_file"}).startswith("read_file_")
    assert tool_name("test_x", "a", {}) == tool_name("test", "x_a", {})
    assert tool_name("test", "x_a", {"test_x_a"}) != tool_name("test_x", "a", {"test_x_a"})


async def test_two_servers_of_one_name_are_one_and_a_warning(make, tmp_path):
    servers = make(stdio(), stdio())
    assert await servers.connect() == [
        "MCP server test: the name is given twice; the first [[mcp_servers]] of that name counts"
    ]
    assert len((tmp_path / "starts").read_text().splitlines()) == 1
    assert await servers.connect() == []


async def test_the_configuration_of_a_proxy_is_that_of_any_tool(make):
    servers = make(stdio())
    await servers.connect()
    proxy = servers.tool_classes()["test_echo"].from_config(BaseToolConfig(permission="always"))
    assert proxy.config.permission == "always"
