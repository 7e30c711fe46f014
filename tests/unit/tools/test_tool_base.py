"""BaseTool: the schema of its arguments, and what its allowlist and denylist name."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Literal

import pytest
from pydantic import AliasChoices, BaseModel, Field

from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, ToolError, ToolPermission
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins import builtin_tools


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    title: str = Field("", description="Shown above")


class Node(BaseModel):
    name: str
    children: list[Node] = Field(default_factory=list)


class Circle(BaseModel):
    kind: Literal["circle"]


class Square(BaseModel):
    kind: Literal["square"]


class Args(BaseModel):
    path: str
    colour: Colour = Colour.RED
    point: Point | None = Field(None, description="Where")
    tree: Node | None = None
    either: int | str | None = None
    wanted: int | None
    shape: Annotated[Circle | Square, Field(discriminator="kind")] | None = None
    data: dict[str, Point] = Field({}, examples=[{"title": "kept"}])


class Paths(BaseTool[Args, Args, BaseToolConfig, BaseToolState]):
    def accesses(self, args: Args) -> Accesses:
        return Accesses(reads=(args.path,))

    async def run(self, args: Args) -> Args:
        return args


class Anything(BaseTool[Point, Point, BaseToolConfig, BaseToolState]):
    async def run(self, args: Point) -> Point:
        return args


class Fetch(Anything):
    def subjects(self, args: Point) -> list[str]:
        return [f"https://example.org/{args.title}"]


@pytest.fixture
def verdict(workspace):
    def of(tool, args, *, allow=(), deny=()):
        made = tool.from_config(BaseToolConfig(workdir=workspace, allowlist=list(allow), denylist=list(deny)))
        parsed = made.parse_args(args)
        return made.check_allowlist_denylist(parsed)

    return of


def test_nested_arguments_are_told_in_place_and_without_titles():
    properties = Paths.get_parameters()["properties"]
    assert properties["colour"] == {"default": "red", "enum": ["red", "blue"], "type": "string"}
    assert properties["point"] == {
        "type": "object",
        "description": "Where",
        "properties": {
            "x": {"type": "integer"},
            "title": {"default": "", "description": "Shown above", "type": "string"},
        },
        "required": ["x"],
    }
    assert properties["either"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert properties["wanted"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert [shape["properties"]["kind"]["const"] for shape in properties["shape"]["oneOf"]] == ["circle", "square"]
    assert properties["data"]["examples"] == [{"title": "kept"}]


def test_only_what_contains_itself_is_referred_to():
    schema = Paths.get_parameters()
    assert schema["properties"]["tree"] == {"$ref": "#/$defs/Node"}
    assert schema["$defs"] == {
        "Node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
            "required": ["name"],
        }
    }
    assert "#/$defs" not in json.dumps([s for name, s in schema["properties"].items() if name != "tree"])


def test_arguments_that_contain_themselves_are_an_object_at_the_top():
    class Tree(BaseTool[Node, Node, BaseToolConfig, BaseToolState]):
        async def run(self, args: Node) -> Node:
            return args

    schema = Tree.get_parameters()
    assert (schema["type"], list(schema["$defs"])) == ("object", ["Node"])


def test_a_schema_is_made_once_for_a_class():
    assert Paths.get_parameters() is Paths.get_parameters()


def test_the_built_in_tools_have_schemas_without_references():
    for tool in builtin_tools().values():
        text = json.dumps(tool.get_parameters())
        assert '"$ref"' not in text
        assert '"null"' not in text


def args(path: str) -> dict[str, object]:
    return {"path": path, "wanted": None}


def test_patterns_name_paths_however_they_are_written(subtests, verdict, workspace):
    for written, name in [
        ("*.pem", "keys/a.pem"),
        ("docs/*", "docs/a.md"),
        ("./docs/*", "docs/a.md"),
        ("docs/*", "./docs/../docs/a.md"),
        ("docs/*", "{workspace}/docs/a.md"),
        ("{workspace}/docs/*", "docs/a.md"),
        ("/etc/*", "/etc/passwd"),
    ]:
        with subtests.test(pattern=written, path=name):
            pattern, path = (text.replace("{workspace}", str(workspace)) for text in (written, name))
            assert verdict(Paths, args(path), deny=[pattern]) is ToolPermission.NEVER
            assert verdict(Paths, args(path), allow=[pattern]) is ToolPermission.ALWAYS
            assert verdict(Paths, args("other"), deny=[pattern], allow=[pattern]) is None


def test_a_link_is_named_by_where_it_leads(verdict, workspace):
    (workspace / "secret").mkdir()
    (workspace / "docs").symlink_to("secret")
    assert verdict(Paths, args("docs/a"), deny=["secret/*"]) is ToolPermission.NEVER
    assert verdict(Paths, args("docs/a"), deny=["docs/*"]) is ToolPermission.NEVER
    assert verdict(Paths, args("docs/a"), allow=["docs/*"]) is None


def test_a_path_that_only_looks_allowed_is_not(verdict):
    assert verdict(Paths, args("docs/../src/a.py"), allow=["docs/*"]) is None


def test_home_may_be_written_short_in_a_pattern(verdict, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert verdict(Paths, args("~/notes/a"), allow=["~/notes/*"]) is ToolPermission.ALWAYS


def test_the_denylist_comes_first_and_says_why(verdict, workspace):
    assert verdict(Paths, args("a.md"), allow=["*"], deny=["*.md"]) is ToolPermission.NEVER
    tool = Paths.from_config(BaseToolConfig(workdir=workspace, denylist=["*.txt", "*.md"]))
    assert tool.why_denied(tool.parse_args(args("a.md"))) == '"*.md" is in the denylist of [tools.paths]'
    assert tool.why_denied(tool.parse_args(args("a.py"))) == ""


def test_calls_without_paths_are_named_by_their_arguments_or_what_the_tool_says(verdict):
    assert verdict(Anything, {"x": 1, "title": "t"}, deny=['*"x":1,*']) is ToolPermission.NEVER
    assert verdict(Fetch, {"x": 1, "title": "a"}, allow=["https://example.org/*"]) is ToolPermission.ALWAYS
    assert verdict(Fetch, {"x": 1, "title": "a"}, allow=["http://*"]) is None


class Edit(BaseModel):
    path: str
    old_string: str
    new_string: str
    limit: int = 3
    target: str = Field("", validation_alias=AliasChoices("target", "to"))


class EditTool(BaseTool[Edit, Edit, BaseToolConfig, BaseToolState]):
    async def run(self, args: Edit) -> Edit:
        return args


def test_a_missing_argument_is_shown_with_the_name_that_was_given_for_it(subtests):
    for given, said in [
        ({"file": "secret"}, ["path: required (you gave `file`; use `path`)"]),
        ({"path": "a", "file": "secret"}, []),
        ({"to": "x"}, ["path: required"]),
        (
            {"file": "secret", "limit": "secret"},
            ["path: required (you gave `file`; use `path`)", "limit: …"],
        ),
        (
            {"file": "secret", "to": "x", "colour": "secret"},
            [
                "path: required",
                "unknown: `file`, `colour`. Arguments of this tool: path, old_string, new_string, limit, target",
            ],
        ),
        ({"fi\nle" + "x" * 99: ""}, [f"path: required (you gave `fi?le{'x' * 55}`; use `path`)"]),
    ]:
        with subtests.test(given=given, said=said):
            arguments = {"old_string": "a", "new_string": "b", **given}
            if not said:
                assert EditTool.parse_args(arguments).path == "a"
                return
            with pytest.raises(ToolError) as error:
                EditTool.parse_args(arguments)
            first, *lines = str(error.value).split("\n")
            assert first == "edit_tool: invalid arguments"
            assert [line if not line.startswith("limit: Input should be") else "limit: …" for line in lines] == said
            assert "secret" not in str(error.value)


def test_of_several_missing_arguments_each_is_shown_with_the_name_like_it():
    with pytest.raises(ToolError) as error:
        EditTool.parse_args({"file_path": "a", "old_str": "x", "text": "y"})
    assert str(error.value).split("\n")[1:] == [
        "path: required (you gave `file_path`; use `path`)",
        "old_string: required (you gave `old_str`; use `old_string`)",
        "new_string: required",
        "unknown: `text`. Arguments of this tool: path, old_string, new_string, limit, target",
    ]
