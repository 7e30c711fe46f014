"""Finding tools: people's own files, in three places."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kin_nb.core.config import KinConfig
from kin_nb.core.config.trusted_folders import TrustedFolders
from kin_nb.core.tools.builtins import builtin_tools
from kin_nb.core.tools.discovery import discover_tools

SEED_EXAMPLE = """
from pydantic import BaseModel, Field
from kin_nb.core.tools.base import BaseTool, BaseToolConfig, BaseToolState

class MyToolArgs(BaseModel):
    input: str = Field(description="Input string")

class MyToolResult(BaseModel):
    output: str

class MyToolConfig(BaseToolConfig):
    custom_setting: str = "default"

class MyToolState(BaseToolState):
    call_count: int = 0

class MyTool(BaseTool[MyToolArgs, MyToolResult, MyToolConfig, MyToolState]):
    description = "Does something useful"

    async def run(self, args: MyToolArgs) -> MyToolResult:
        self.state.call_count += 1
        return MyToolResult(output=f"Processed: {args.input}")
"""

NO_SCHEMA = "x: type(lambda: 0)\n    model_config = {'arbitrary_types_allowed': True}"
NO_PROMPT = "prompt_path = __import__('pathlib').Path('/no/such')\n    async def run(self, args): ..."
HEADER = """from __future__ import annotations
from pydantic import BaseModel
from kin_nb.core.tools.base import BaseTool, BaseToolConfig, BaseToolState
class A(BaseModel):
    x: int = 0
"""


def tool(name: str, description: str = "", body: str = "async def run(self, args): return args") -> str:
    return (
        f"{HEADER}class {name}(BaseTool[A, A, BaseToolConfig, BaseToolState]):\n"
        f"    description = {description!r}\n    {body}\n"
    )


def put(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture
def config(workspace: Path) -> KinConfig:
    return KinConfig(workdir=workspace)


def trusting(workspace: Path, **settings) -> KinConfig:
    trust = TrustedFolders()
    trust.for_session(workspace)
    return KinConfig.load(workdir=workspace, trust=trust, **settings)


def test_without_files_there_are_the_built_in_tools_in_their_order(config):
    found = discover_tools(config)
    assert (list(found.classes), found.warnings) == (list(builtin_tools()), [])


async def test_the_example_of_the_documents_works_as_it_stands(config, home):
    put(home / "tools", my_tool=SEED_EXAMPLE)
    found = discover_tools(config)
    my_tool = found.classes["my_tool"].from_config(found.classes["my_tool"]._get_tool_config_class()())
    result = await my_tool.invoke(input="x")
    assert (my_tool.to_model(result), my_tool.state.call_count) == ("output: Processed: x", 1)
    assert my_tool.config.custom_setting == "default"
    assert found.classes["my_tool"].get_info().parameters["required"] == ["input"]
    assert found.warnings == []


def test_the_nearer_place_wins_and_says_so(workspace, home, tmp_path):
    extra = put(tmp_path / "extra", t=tool("Shared", "extra"), only=tool("OnlyExtra", "extra"))
    put(home / "tools", t=tool("Shared", "home"), o=tool("OnlyExtra", "home"), h=tool("OnlyHome", "home"))
    put(workspace / ".kin-code/tools", t=tool("Shared", "project"))
    found = discover_tools(trusting(workspace, tool_paths=[str(extra)]))
    origin = {name: found.classes[name].description for name in ("shared", "only_extra", "only_home")}
    assert origin == {"shared": "project", "only_extra": "extra", "only_home": "home"}
    assert [line.split(": ", 1)[0] for line in found.warnings] == [
        f"{extra}/t.py:6",
        f"{home}/tools/o.py:6",
        f"{home}/tools/t.py:6",
    ]
    assert f"{workspace}/.kin-code/tools/t.py:6 has a tool of this name and takes precedence" in found.warnings[0]


def test_a_tool_that_replaces_a_built_in_one_keeps_its_place_and_is_a_warning(config, home):
    put(home / "tools", mine=tool("ReadFile", "mine"))
    found = discover_tools(config)
    assert list(found.classes) == list(builtin_tools())
    assert found.classes["read_file"].description == "mine"
    assert found.warnings == [f"{home}/tools/mine.py:6: read_file replaces the built-in tool."]


def test_other_tools_come_after_the_built_in_ones_by_name(config, home):
    put(home / "tools", a=tool("Zebra") + tool("Beetle").removeprefix(HEADER), b=tool("Ant"))
    assert list(discover_tools(config).classes)[len(builtin_tools()) :] == ["ant", "beetle", "zebra"]


def test_a_projects_tools_are_loaded_only_when_it_is_trusted(config, workspace):
    marker = workspace / "ran"
    put(workspace / ".kin-code/tools", t=f"{tool('Planted')}open({str(marker)!r}, 'w').close()\n")
    assert "planted" not in discover_tools(config).classes
    assert not marker.exists()
    assert "planted" in discover_tools(trusting(workspace)).classes
    assert marker.exists()


def test_files_are_read_again_each_time_and_nothing_is_written_beside_them(config, home):
    folder = put(home / "tools", t=tool("Mine", "first"))
    path = list(sys.path)
    assert discover_tools(config).classes["mine"].description == "first"
    put(folder, t=tool("Mine", "second"))
    assert discover_tools(config).classes["mine"].description == "second"
    assert [file.name for file in folder.iterdir()] == ["t.py"]
    assert sys.path == path


def test_private_files_folders_and_other_files_are_left_alone(config, home):
    put(home / "tools", _private="1/0", t=tool("Mine"))
    put(home / "tools/sub", t="1/0")
    (home / "tools/notes.txt").write_text("1/0")
    found = discover_tools(config)
    assert ("mine" in found.classes, found.warnings) == (True, [])


BROKEN_TOOL_FILES = [
    ("x = 1\nimport no_such_module\n", ":2", "No module named 'no_such_module'"),
    ("x = 1\ny = (\n", ":2", "'(' was never closed"),
    ("def f():\n    1 / 0\nf()\n", ":2", "ZeroDivisionError: division by zero"),
    ("import sys\nsys.exit('bye')\n", ":2", "SystemExit: bye"),
    ("def f():\n    f()\nf()\n", ":2", "maximum recursion depth exceeded"),
    (f"{HEADER}class T(BaseTool[A, A]): pass\n", ":6", "TypeError: Too few arguments"),
    ("x = 1\n", "", "defines no tool"),
    (f"{HEADER}class T(BaseTool[A, A, BaseToolConfig, BaseToolState]): pass\n", "", "defines no tool"),
    (f"{HEADER}class T(BaseTool):\n async def run(self, args): pass\n", ":6", "T must subclass BaseTool["),
    (
        f"{HEADER}class T(BaseTool[int, A, BaseToolConfig, BaseToolState]):\n async def run(self, args): pass\n",
        ":6",
        "T must subclass BaseTool[",
    ),
    (tool("Météo"), ":6", "must be 1 to 64 letters, digits, _ and -, got 'météo'"),
    (tool("T" * 65), ":6", "must be 1 to 64 letters, digits"),
    (tool("T", body="def run(self, args): return args"), ":6", "its run is not `async def`"),
    (tool("T").replace("x: int = 0", NO_SCHEMA), ":7", "JsonSchema"),
    (tool("T", body=NO_PROMPT), ":6", "/no/such"),
    (tool("T", body="get_name = classmethod(lambda cls: 1 / 0)\n    async def run(self, args): ..."), ":6", "division"),
]


def test_what_is_no_good_is_one_warning_with_its_place_and_the_rest_works(subtests, config, home):
    for text, line, reason in BROKEN_TOOL_FILES:
        with subtests.test(text=text, line=line, reason=reason):
            put(home / "tools", bad=text, good=tool("Good"))
            found = discover_tools(config)
            assert "good" in found.classes
            (warning,) = found.warnings
            assert warning.startswith(f"{home}/tools/bad.py{line}: ")
            assert reason in warning
            assert "\n" not in warning


def test_a_good_tool_beside_a_bad_one_in_its_file_is_there(config, home):
    bad = tool("Bad", body="def run(self, args): return args").removeprefix(HEADER)
    put(home / "tools", both=tool("Good") + bad)
    found = discover_tools(config)
    assert "good" in found.classes
    assert len(found.warnings) == 1


def test_what_cannot_be_read_is_a_warning(config, home):
    folder = put(home / "tools", good=tool("Good"))
    os.mkfifo(folder / "pipe.py")
    (folder / "loop.py").symlink_to("loop.py")
    (folder / "folder.py").mkdir()
    (folder / "large.py").write_bytes(b"#" * 1_000_001)
    (folder / "nul.py").write_bytes(b"x = 1\0\n")
    found = discover_tools(config)
    assert "good" in found.classes
    assert [Path(line.split(":")[0].split(" ")[0]).name for line in found.warnings] == [
        "folder.py",
        "large.py",
        "loop.py",
        "nul.py",
        "pipe.py",
    ]


def test_a_folder_that_is_not_there_is_a_warning_only_where_someone_named_it(workspace):
    found = discover_tools(KinConfig(workdir=workspace, tool_paths=[Path("/no/such/folder")]))
    assert found.warnings == ["tool_paths: /no/such/folder is not a folder."]


def test_a_link_that_goes_in_circles_instead_of_a_folder_stops_nothing(workspace):
    (workspace / ".kin-code").mkdir()
    (workspace / ".kin-code/tools").symlink_to("tools")
    (warning,) = discover_tools(trusting(workspace)).warnings
    assert ".kin-code/tools: its tools are not loaded" in warning


def test_a_folder_that_is_named_twice_is_read_once(workspace, home):
    put(home / "tools", t=tool("Mine"))
    found = discover_tools(KinConfig(workdir=workspace, tool_paths=[home / "tools", home / "tools/../tools"]))
    assert found.warnings == []
