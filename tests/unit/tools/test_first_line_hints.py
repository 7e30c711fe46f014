"""The hint for a text that nearly matches the first lines of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kin_nb.core.tool_types import BaseToolConfig, ToolError
from kin_nb.core.tools.builtins.edit_file import EditFile

FILE = "def add(a, b):\n    return a + b\n\n\nprint(add(1, 2))\n"
DOCSTRING = '"""Sums."""\n'


async def hint(workspace: Path, text: str, old: str) -> str:
    (workspace / "a.py").write_text(text)
    tool = EditFile.from_config(BaseToolConfig(workdir=workspace))
    with pytest.raises(ToolError) as failed:
        await tool.invoke(path="a.py", old_string=old, new_string="new")
    return str(failed.value).partition("\n")[2]


async def test_a_line_too_many_before_the_first_line_does_not_hide_it(workspace):
    assert await hint(workspace, FILE, f"{DOCSTRING}def add(a,b):") == (
        "Closest: line 1, 68 % alike (- old_string, + the file):\n"
        '-      \t"""Sums."""\n-      \tdef add(a,b):\n+     1\tdef add(a, b):'
    )


async def test_every_line_may_differ_a_little_and_the_first_be_missing(workspace):
    shown = await hint(workspace, FILE, f"{DOCSTRING}\ndef add(a,b):\n    return a+b")
    assert shown.startswith("Closest: lines 1-2, ")
    assert shown.endswith("+     1\tdef add(a, b):\n+     2\t    return a + b")


async def test_the_longest_line_need_not_be_in_the_file(workspace):
    shown = await hint(workspace, FILE, "# Add two numbers.\ndef add(a,b):\n    return a+b")
    assert shown.startswith("Closest: lines 1-2, ")
    assert shown.endswith("+     1\tdef add(a, b):\n+     2\t    return a + b")


async def test_whitespace_in_the_first_line_is_named(workspace):
    assert (await hint(workspace, FILE, "def  add(a, b):\n    return a + b")).startswith(
        "Closest: lines 1-2, which differ only in whitespace: line 1 is 'def add(a, b):', not 'def  add(a, b):'"
    )


async def test_a_text_that_is_not_there_at_all_gives_no_place(workspace):
    other = "class Account:\n    balance = 0\n    owner: str"
    assert await hint(workspace, FILE, other) == "No similar lines were found. Read the file again."
