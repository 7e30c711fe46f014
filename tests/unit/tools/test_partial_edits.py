"""Arguments of each editing tool that turn one text of a file into another: what is run when parts of an edit are approved."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kin_nb.core.tool_types import BaseToolConfig
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins import builtin_tools
from kin_nb.core.tools.builtins.edits import minimal_edit

EDITORS = {
    "write_file": {"path": "f.txt", "content": "", "overwrite": True},
    "edit_file": {"path": "f.txt", "old_string": "x", "new_string": "y", "replace_all": True},
    "search_replace": {"path": "f.txt", "content": ""},
}


@pytest.fixture(params=list(EDITORS))
def tool(request, tmp_path: Path) -> BaseTool:
    return builtin_tools()[request.param].from_config(BaseToolConfig(workdir=tmp_path))


@pytest.fixture
def turned(tool, tmp_path):
    """What the file holds after the tool has run with the arguments that it says; None when it says none."""

    async def turned(before: str, after: str) -> str | None:
        file = tmp_path / "f.txt"
        file.write_bytes(before.encode())
        args = tool.with_text(tool.parse_args(EDITORS[tool.get_name()]), before, after)
        if args is None:
            return None
        await tool.invoke(**args)
        return file.read_bytes().decode()

    return turned


async def test_the_file_becomes_exactly_the_text(subtests, turned):
    for newline in ["\n", "\r\n"]:
        with subtests.test(newline=newline):
            for seed in range(40):
                rng = random.Random(seed)
                lines = [
                    rng.choice(["same", "", "    x", f"line {n}", "=======", "<<<<<<< SEARCH"]) for n in range(1, 60)
                ]
                changed = list(lines)
                for _ in range(rng.randrange(1, 5)):
                    place = rng.randrange(len(changed) + 1)
                    changed[place : place + rng.randrange(4)] = [f"new {n}" for n in range(rng.randrange(3))]
                before, after = (newline.join(side) + rng.choice(["", newline]) for side in (lines, changed))
                if before != after:
                    assert await turned(before, after) == after, seed


async def test_edges_of_a_file(subtests, turned):
    for before, after in [
        ("a\n", "a\nb\n"),
        ("a\n", "b\na\n"),
        ("a\nb\n", "a\n"),
        ("a", "a\nb"),
        ("a\n\nb\n", "a\nb\n"),
        ("a\n", "\n"),
    ]:
        with subtests.test(before=before, after=after):
            assert await turned(before, after) == after


def test_an_edit_takes_no_more_lines_than_it_needs_to_stand_once():
    before = "a\nx\nb\n" + "a\nx\nc\n" * 2
    after = before.replace("x\nb", "y\nb", 1)
    assert minimal_edit(before, after) == ("a\nx\nb\n", "a\ny\nb\n")
    assert minimal_edit("one\ntwo\n", "one\n2\n") == ("two\n", "2\n")


def test_what_no_single_edit_does_is_none():
    assert minimal_edit("a\n", "a\n") is None
    assert minimal_edit("", "a\n") is None
    assert minimal_edit("a\nb\nc\n", "a\nb\r\nc\n") is None, "an edit keeps the file's own line endings"


def test_a_block_that_its_own_text_would_end_is_none(tmp_path):
    tool = builtin_tools()["search_replace"].from_config(BaseToolConfig(workdir=tmp_path))
    args = tool.parse_args(EDITORS["search_replace"])
    assert tool.with_text(args, "a\nb\n", "a\n>>>>>>> REPLACE\n") is None
    assert tool.with_text(args, "a\n", "a" * 100_000) is None


async def test_a_tool_that_edits_no_file_has_no_such_arguments(tmp_path):
    tool = builtin_tools()["bash"].from_config(BaseToolConfig(workdir=tmp_path))
    assert tool.with_text(tool.parse_args({"command": "ls"}), "a", "b") is None


def test_each_editing_tool_shows_the_texts_that_its_diff_is_of(tmp_path):
    (tmp_path / "f.txt").write_bytes(b"\xef\xbb\xbfx = 1\r\n")
    tools = {name: builtin_tools()[name].from_config(BaseToolConfig(workdir=tmp_path)) for name in EDITORS}
    block = "<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE"
    calls = [
        ("write_file", {"path": "f.txt", "content": "x = 2\n", "overwrite": True}),
        ("edit_file", {"path": "f.txt", "old_string": "x = 1", "new_string": "x = 2"}),
        ("search_replace", {"path": "f.txt", "content": block}),
    ]
    for name, args in calls:
        tool = tools[name]
        assert tool.preview(tool.parse_args(args)).texts == ("x = 1\r\n", "x = 2\r\n"), name
        assert isinstance(getattr(tool.parse_args(args), tool.editable), str)
    assert (
        tools["edit_file"].preview(tools["edit_file"].parse_args(EDITORS["edit_file"] | {"path": "no"})).texts is None
    )
