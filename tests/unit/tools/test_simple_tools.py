"""Tools in seed 004's form, found in files and registered by programs; and the registry itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from kin_nb.core.agent import Agent
from kin_nb.core.compat.tool_registry import ToolRegistry
from kin_nb.core.config import KinConfig
from kin_nb.core.modes import AgentMode
from kin_nb.core.safety.approvals import ApprovalResponse
from kin_nb.core.tool_types import BaseToolConfig, BaseToolState, ToolError
from kin_nb.core.tools.base import BaseTool, Tool
from kin_nb.core.tools.builtins.bash import Bash
from kin_nb.core.tools.discovery import adapt_tool, discover_tools
from kin_nb.core.tools.manager import ToolManager
from tests.model_server import ModelServer, tool_call

SEEDS_EXAMPLE = """
from kin_nb.core.tools.base import Tool

class MyTool(Tool):
    name = "my_tool"
    description = "Does something useful"

    async def execute(self, **kwargs) -> str:
        return f"useful: {kwargs}"
"""


class Greet(Tool):
    description = "Say hello"

    def __init__(self) -> None:
        self.said = 0

    async def execute(self, whom: Annotated[str, Field(description="Who")], times: int = 1, json: bool = False) -> str:
        self.said += 1
        return f"{self.said}: {'hello ' * times}{whom}{json}"


class Anything(Tool):
    async def execute(self, **kwargs: Any) -> str:
        return repr(kwargs)


class OwnArgs(BaseModel):
    size: int = Field(2, gt=1)


class WithModel(Tool):
    parameters = OwnArgs

    async def execute(self, size: int) -> str:
        return str(size + 1)


class WithSchema(Tool):
    parameters = {"properties": {"path": {"type": "string"}}, "required": ["path"]}  # noqa: RUF012

    async def execute(self, path: str, **more: Any) -> str:
        return f"{path} {more}"


class Fails(Tool):
    async def execute(self, how: str) -> str:
        if how == "told":
            raise ToolError("It is closed today.")
        if how == "number":
            return 5  # type: ignore[return-value]
        raise SystemExit(how) if how == "exit" else ValueError(how)


@pytest.fixture
def manager(workspace: Path) -> ToolManager:
    return ToolManager(KinConfig(workdir=workspace))


@pytest.fixture
def registry(manager: ToolManager) -> ToolRegistry:
    registry = ToolRegistry(manager)
    for tool in (Greet, Anything, WithModel, WithSchema, Fails):
        registry.register(tool)
    return registry


def write(home: Path, text: str, name: str = "mine") -> Path:
    (home / "tools").mkdir(exist_ok=True)
    path = home / "tools" / f"{name}.py"
    path.write_text(text)
    return path


def parameters(registry: ToolRegistry, name: str) -> dict[str, Any]:
    (found,) = (s["function"]["parameters"] for s in registry.get_schemas() if s["function"]["name"] == name)
    return found


async def test_the_seeds_example_is_found_and_takes_any_arguments(home, workspace):
    write(home, SEEDS_EXAMPLE)
    found = ToolManager(KinConfig(workdir=workspace))
    assert found.warnings == []
    registry = ToolRegistry(found)
    assert parameters(registry, "my_tool") == {"type": "object", "additionalProperties": True, "properties": {}}
    assert await registry.execute("my_tool", {"a": 1, "copy": "x"}) == "useful: {'a': 1, 'copy': 'x'}"


async def test_an_agent_asks_for_it_like_for_any_tool_that_declares_nothing(model_server, home, workspace):
    write(home, SEEDS_EXAMPLE)
    asked = []
    agent = Agent(local(model_server, workspace))
    agent.set_approval_callback(
        lambda name, args, _: (asked.append((name, args.model_dump())), (ApprovalResponse.YES, None))[1]
    )
    model_server.enqueue(calls=[tool_call("my_tool", a=1)])
    model_server.enqueue("Done.")
    _ = [event async for event in agent.act("go")]
    await agent.aclose()
    assert asked == [("my_tool", {"a": 1})]
    assert agent.messages[-2].content == "useful: {'a': 1}"


def local(server: ModelServer, workspace: Path) -> KinConfig:
    provider, model = {"name": "p", "api_base": server.url}, {"name": "m", "provider": "p"}
    return KinConfig.model_validate(
        {"workdir": workspace, "active_model": "m", "providers": [provider], "models": [model]}
    )


def test_arguments_come_from_the_signature(registry):
    assert parameters(registry, "greet") == {
        "type": "object",
        "properties": {
            "whom": {"type": "string", "description": "Who"},
            "times": {"type": "integer", "default": 1},
            "json": {"type": "boolean", "default": False},
        },
        "required": ["whom"],
    }


async def test_arguments_are_validated_and_defaults_filled_in(registry):
    assert await registry.execute("greet", {"whom": "you", "times": "2"}) == "1: hello hello youFalse"
    with pytest.raises(ToolError, match="whom: required"):
        await registry.execute("greet", {"times": 1})


async def test_a_model_of_parameters_validates(registry):
    assert parameters(registry, "with_model")["properties"]["size"]["exclusiveMinimum"] == 1
    assert await registry.execute("with_model", {}) == "3"
    with pytest.raises(ToolError, match="size: Input should be greater than 1"):
        await registry.execute("with_model", {"size": 0})


async def test_a_schema_of_parameters_is_what_the_model_is_shown(registry):
    assert parameters(registry, "with_schema") == {"type": "object", **WithSchema.parameters}
    assert await registry.execute("with_schema", {"path": "x", "model_config": 1}) == "x {'model_config': 1}"
    with pytest.raises(ToolError, match="with_schema failed: TypeError"):
        await registry.execute("with_schema", {})


async def test_what_goes_wrong_in_a_tool_is_one_error(subtests, registry):
    for how, told in [
        ("told", "It is closed today."),
        ("number", "fails returned int, not text."),
        ("bang", "fails failed: ValueError: bang"),
        ("exit", "fails failed: SystemExit: exit"),
    ]:
        with subtests.test(how=how, told=told):
            with pytest.raises(ToolError) as error:
                await registry.execute("fails", {"how": how})
            assert str(error.value) == told


async def test_a_session_has_one_instance_until_all_is_reset(manager, registry):
    again = manager.get("greet")
    assert await registry.execute("greet", {"whom": "a"}) == "1: hello aFalse"
    manager.reconfigure(KinConfig(workdir=manager.get_tool_config("greet").workdir.parent))
    assert manager.get("greet") is not again, "its settings changed"
    assert await registry.execute("greet", {"whom": "a"}) == "2: hello aFalse"
    manager.reset_all()
    assert await registry.execute("greet", {"whom": "a"}) == "1: hello aFalse"


async def test_an_instance_is_the_programs_own(manager):
    greet = Greet()
    ToolRegistry(manager).register(greet)
    await ToolRegistry(manager).execute("greet", {"whom": "a"})
    manager.reset_all()
    await ToolRegistry(manager).execute("greet", {"whom": "a"})
    assert greet.said == 2


async def test_a_registered_tool_is_called_by_the_model_and_stays_when_tools_are_found_again(
    model_server, workspace, tmp_path
):
    (tmp_path / "more").mkdir()
    config = local(model_server, workspace)
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    ToolRegistry(agent.tool_manager).register(Greet)
    before = agent.tool_manager
    agent.switch_config(config.model_copy(update={"tool_paths": [tmp_path / "more"]}))
    assert agent.tool_manager is not before
    model_server.enqueue(calls=[tool_call("greet", whom="you")])
    model_server.enqueue("Done.")
    _ = [event async for event in agent.act("go")]
    await agent.aclose()
    assert "greet" in [tool["function"]["name"] for tool in model_server.requests[0]["tools"]]
    assert agent.messages[-2].content == "1: hello youFalse"


class Typed(BaseTool[OwnArgs, OwnArgs, BaseToolConfig, BaseToolState]):
    description = "A typed one"

    async def run(self, args: OwnArgs) -> OwnArgs:
        return args


async def test_a_base_tool_is_registered_too(registry):
    registry.register(Typed)
    assert isinstance(registry.get_tool("typed"), Typed)
    assert await registry.execute("typed", {"size": 3}) == "size: 3"


class Sync(Tool):
    def execute(self, x: int) -> str:  # type: ignore[override]
        return str(x)


class ByPosition(Tool):
    async def execute(self, x: int, /) -> str:  # type: ignore[override]
        return str(x)


class Private(Tool):
    async def execute(self, _x: int) -> str:
        return str(_x)


class Reserved(Tool):
    async def execute(self, model_config: int) -> str:
        return str(model_config)


class Typeless(Tool):
    async def execute(self, tool: Tool) -> str:
        return str(tool)


class Unread(Tool):
    async def execute(self, x: NoSuchName) -> str:  # type: ignore[name-defined]  # noqa: F821
        return str(x)


class NoSchema(Tool):
    parameters = {"type": "array"}  # noqa: RUF012

    async def execute(self) -> str:
        return ""


class NoJson(Tool):
    parameters = {"properties": {"x": object()}}  # noqa: RUF012

    async def execute(self) -> str:
        return ""


class BadName(Tool):
    name = "my tool"

    async def execute(self) -> str:
        return ""


class NoDescription(Tool):
    description = None  # type: ignore[assignment]

    async def execute(self) -> str:
        return ""


def test_what_models_cannot_call_is_not_registered_and_says_why(subtests, registry):
    for tool, told in [
        (Sync, "its execute is not `async def`"),
        (ByPosition, "its execute has positional-only arguments"),
        (Private, "its execute has arguments with reserved names: _x"),
        (Reserved, "its execute has arguments with reserved names: model_config"),
        (Typeless, "its arguments cannot be described"),
        (Unread, "the annotations of its execute cannot be read: name 'NoSuchName' is not defined"),
        (NoSchema, "its parameters are neither a pydantic model nor a JSON Schema of an object"),
        (NoJson, "its parameters are not valid JSON"),
        (BadName, "must be 1 to 64 letters, digits, _ and -, got 'my tool'"),
        (NoDescription, "its description must be text"),
        (Bash, "another tool has this name"),
        ("bash", "'bash' is not a tool"),
        (OwnArgs, "is not a tool"),
    ]:
        with subtests.test(tool=tool, told=told):
            before = registry.get_schemas()
            with pytest.raises(ToolError) as error:
                registry.register(tool)
            assert told in str(error.value)
            assert "\n" not in str(error.value)
            assert registry.get_schemas() == before


def test_a_file_that_is_no_good_is_a_warning_that_names_it(subtests, home, workspace):
    for text, line, told in [
        (SEEDS_EXAMPLE.replace("async def", "def"), ":4", "MyTool is not loaded: its execute is not `async def`"),
        (SEEDS_EXAMPLE.replace("**kwargs", "x: Nothing"), ":8", "name 'Nothing' is not defined"),
        (SEEDS_EXAMPLE.replace("kin_nb.core.tools", "tools"), ":2", "write `from kin_nb.core.tools.base import Tool`"),
        (SEEDS_EXAMPLE.replace("execute", "run"), "", "defines no tool"),
    ]:
        with subtests.test(text=text, line=line, told=told):
            path = write(home, text)
            write(home, SEEDS_EXAMPLE.replace("my_tool", "other"), "other")
            found = discover_tools(KinConfig(workdir=workspace))
            (warning,) = found.warnings
            assert warning.startswith(f"{path}{line}: ")
            assert told in warning
            assert "other" in found.classes


def test_the_name_and_the_module_of_a_tool_are_its_own():
    tool = adapt_tool(Greet)
    assert (tool.get_name(), tool.__name__, tool.__module__) == ("greet", "Greet", __name__)


def test_base_has_no_other_names():
    from kin_nb.core.tools import base

    assert base.Tool is Tool
    with pytest.raises(AttributeError, match="has no attribute 'Tol'"):
        _ = base.Tol


@pytest.mark.parametrize(("other", "ours"), [("shell", "bash"), ("todos", "todo")])
def test_another_agents_name_for_a_tool_is_understood_and_not_offered(manager, other, ours):
    assert manager.get(other) is manager.get(ours)
    assert other not in manager.available_tools()


def test_a_tool_of_that_name_comes_first(home, workspace):
    write(home, SEEDS_EXAMPLE.replace("my_tool", "shell"))
    assert ToolManager(KinConfig(workdir=workspace)).get("shell").get_name() == "shell"


async def test_what_is_decided_about_bash_holds_for_shell(model_server, workspace):
    config = local(model_server, workspace).model_copy(update={"disabled_tools": ["todo"]})
    config.tools["bash"] = BaseToolConfig(denylist=["touch"])
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    calls = [tool_call("shell", command="touch x"), tool_call("shell", command="echo hi"), tool_call("todos")]
    model_server.enqueue(calls=calls)
    model_server.enqueue("Done.")
    _ = [event async for event in agent.act("go")]
    await agent.aclose()
    denied, ran, disabled = (message.content for message in agent.messages[3:6])
    assert '"touch" is in the denylist of [tools.bash]' in denied
    assert ran.endswith("hi")
    assert disabled == "The tool 'todo' is disabled in this session."
