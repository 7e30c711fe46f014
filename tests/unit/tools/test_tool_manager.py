"""ToolManager: what is offered, instances and their state, settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from kin_nb.core.config import KinConfig
from kin_nb.core.tool_types import BaseToolConfig, BaseToolState, ToolError, ToolPermission
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins import builtin_tools
from kin_nb.core.tools.builtins.bash import BashArgs
from kin_nb.core.tools.manager import ToolManager

TODOS = [{"id": "1", "content": "first"}]


class Args(BaseModel):
    x: int = 0


class ServerTool(BaseTool[Args, Args, BaseToolConfig, BaseToolState]):
    description = "from a server"

    async def run(self, args: Args) -> Args:
        return args


class OtherTool(ServerTool):
    pass


def named(name: str) -> type[ServerTool]:
    return type(name, (ServerTool,), {"__module__": __name__, "get_name": classmethod(lambda _: name)})


class NeedyConfig(BaseToolConfig):
    api_url: str


class Needy(BaseTool[Args, Args, NeedyConfig, BaseToolState]):
    async def run(self, args: Args) -> Args:
        return args


@pytest.fixture
def configured(workspace: Path):
    return lambda **settings: KinConfig.model_validate({"workdir": workspace, **settings})


def names(manager: ToolManager) -> list[str]:
    return [schema.function.name for schema in manager.schemas()]


def test_the_schemas_are_one_list_in_a_fixed_order(configured):
    manager = ToolManager(configured())
    assert names(manager) == list(manager.available_tools()) == list(builtin_tools())
    assert manager.schemas() is manager.schemas()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"enabled_tools": ["grep", "read_*"]}, ["read_file", "grep"]),
        ({"disabled_tools": ["re:(?!todo).*"]}, ["todo"]),
        ({"enabled_tools": ["todo"], "disabled_tools": ["todo"]}, ["todo"]),
    ],
)
def test_config_says_which_tools_there_are(configured, settings, expected):
    assert names(ToolManager(configured(**settings))) == expected


def test_tools_that_a_session_has_no_use_for_are_left_out(configured):
    manager = ToolManager(configured(enabled_tools=["todo", "grep"]), without={"todo"})
    assert names(manager) == ["grep"]


def test_an_unknown_tool_is_an_error_with_the_nearest_name(configured):
    manager = ToolManager(configured(disabled_tools=["write_file"]))
    with pytest.raises(ToolError, match=r"Unknown tool 'red_file'\. Did you mean read_file\?"):
        manager.get("red_file")
    with pytest.raises(
        ToolError, match=r"Unknown tool 'xyzzy'\. Tools: read_file, list_dir, glob, grep, search_replace"
    ):
        manager.get("xyzzy")


def test_a_tool_that_is_switched_off_is_said_to_be(configured):
    with pytest.raises(ToolError, match="'bash' is disabled"):
        ToolManager(configured(disabled_tools=["bash"])).get("bash")
    with pytest.raises(ToolError, match="'bash' is disabled"):
        ToolManager(configured(), without=["bash"]).get("bash")


def test_an_instance_is_kept_with_its_state_until_all_are_reset(configured):
    manager = ToolManager(configured())
    first = manager.get("todo")
    assert manager.get("todo") is first
    manager.reset_all()
    assert manager.get("todo") is not first


def test_a_tools_settings_are_its_defaults_then_its_table_then_the_workspace(configured, workspace):
    tools = {"bash": {"default_timeout": 5, "denylist": ["rm"], "workdir": "/elsewhere"}, "no_such_tool": {"x": 1}}
    settings = ToolManager(configured(tools=tools)).get("bash").config
    assert (settings.default_timeout, settings.denylist, settings.env) == (5, ["rm"], {})
    assert settings.permission is ToolPermission.ASK
    assert settings.workdir == workspace


def test_wrong_settings_name_their_keys_when_the_tool_is_used_and_hurt_no_other(configured):
    tools = {"bash": {"default_timeout": "soon", "env": {"A": 1}}}
    manager = ToolManager(configured(tools=tools))
    with pytest.raises(ToolError) as error:
        manager.get("bash")
    assert "tools.bash.default_timeout: Input should be a valid integer" in str(error.value)
    assert "tools.bash.env.A: " in str(error.value)
    assert manager.get("read_file")
    assert "bash" in names(manager)


def test_a_setting_that_a_tool_cannot_do_without_is_asked_for_and_taken(configured):
    manager = ToolManager(configured())
    assert manager.register({"needy": Needy}) == []
    with pytest.raises(ToolError, match=r"tools\.needy\.api_url: Field required"):
        manager.get("needy")
    manager.reconfigure(configured(tools={"needy": {"api_url": "http://localhost"}}))
    assert manager.get("needy").config.api_url == "http://localhost"


def test_registered_tools_come_after_the_built_in_ones_and_are_chosen_like_them(configured):
    manager = ToolManager(configured(disabled_tools=["other_*"]))
    before = manager.schemas()
    assert manager.register({"server_tool": ServerTool, "other_tool": OtherTool}) == []
    assert names(manager) == [*builtin_tools(), "server_tool"]
    assert manager.schemas() is not before


def test_a_registered_tool_never_takes_a_name_that_is_there(configured):
    class ReadFile(ServerTool):
        pass

    manager = ToolManager(configured(disabled_tools=["read_file"]))
    before = manager.schemas()
    (warning,) = manager.register({"read_file": ReadFile})
    assert warning == "read_file is not added: another tool has this name."
    assert manager.schemas() is before
    with pytest.raises(ToolError, match="disabled"):
        manager.get("read_file")


def test_registered_tools_can_be_removed_and_no_others(configured):
    manager = ToolManager(configured())
    manager.register({"server_tool": ServerTool, "todo": ServerTool})
    first = manager.get("server_tool")
    manager.register({}, replacing=["server_tool", "todo", "never_there"])
    assert names(manager) == list(builtin_tools())
    with pytest.raises(
        ToolError, match="The tool 'server_tool' was removed: its MCP server does not offer it any more"
    ):
        manager.get("server_tool")
    assert manager.register({"server_tool": ServerTool}) == []
    assert manager.get("server_tool") is not first


def test_registered_tools_keep_their_place_and_new_ones_come_last(configured):
    manager = ToolManager(configured())
    before = {"b": named("b"), "c": named("c"), "d": named("d")}
    manager.register(before)
    kept = manager.get("d")
    after = {"z": named("z"), "a": named("a"), "b": named("b"), "d": before["d"]}
    assert manager.register(after, replacing=before) == []
    assert names(manager) == [*builtin_tools(), "b", "d", "a", "z"]
    assert manager.get("d") is kept
    assert type(manager.get("b")) is after["b"]


def test_a_registered_tool_that_cannot_be_offered_is_a_warning(configured):
    class Broken(ServerTool):
        @classmethod
        def get_parameters(cls):
            raise KeyError("properties")

    manager = ToolManager(configured())
    assert manager.register({"broken": Broken, "another_name": ServerTool, "server_tool": ServerTool}) == [
        "broken is not added: 'properties'.",
        "another_name is not added: its own name is server_tool.",
    ]
    assert names(manager)[-1] == "server_tool"


async def test_new_settings_keep_what_tools_remember(configured):
    manager = ToolManager(configured())
    todo, bash = manager.get("todo"), manager.get("bash")
    await todo.invoke(action="write", todos=TODOS)
    before = manager.schemas()
    manager.reconfigure(configured(tools={"todo": {"permission": "ask"}}, active_model="local"))
    assert manager.get("bash") is bash
    assert manager.get("todo").config.permission is ToolPermission.ASK
    assert (await manager.get("todo").invoke(action="read")).total_count == 1
    assert manager.schemas() is before


async def test_a_tool_that_was_switched_off_for_a_while_remembers(configured):
    manager = ToolManager(configured())
    await manager.get("todo").invoke(action="write", todos=TODOS)
    manager.reconfigure(configured(enabled_tools=["read_file"]))
    assert names(manager) == ["read_file"]
    manager.reconfigure(configured())
    assert (await manager.get("todo").invoke(action="read")).total_count == 1


def test_new_settings_that_are_wrong_are_reported_at_the_next_use(configured):
    manager = ToolManager(configured())
    assert manager.get("bash").parse_args({"command": "ls"}) == BashArgs(command="ls")
    manager.reconfigure(configured(tools={"bash": {"default_timeout": 0}}))
    with pytest.raises(ToolError, match=r"tools\.bash\.default_timeout"):
        manager.get("bash")


@pytest.mark.parametrize("keep", [False, True])
async def test_no_program_sees_the_variables_that_hold_the_sessions_keys(configured, monkeypatch, keep):
    monkeypatch.setenv("ACME_LLM", "q8Zr4TfWm2Lx7NcV")
    provider = {"name": "acme", "api_base": "http://127.0.0.1:9/v1", "api_key_env_var": "ACME_LLM"}
    tools = {"bash": {"keep_env": ["ACME_LLM"] if keep else []}}
    manager = ToolManager(configured(providers=[provider], tools=tools))
    result = await manager.get("bash").invoke(command="echo ${ACME_LLM-none}")
    assert result.output == ("q8Zr4TfWm2Lx7NcV\n" if keep else "none\n")
    assert manager.get("grep").config.key_names == ["ACME_LLM"]
