"""glob: which files a pattern names, in which order, and what it never does."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kin_nb.core.tool_types import BaseToolConfig, ToolError
from kin_nb.core.tools.builtins import glob as glob_module
from kin_nb.core.tools.builtins.glob import Glob
from kin_nb.core.tools.builtins.grep import Grep


@pytest.fixture
def tool(workspace: Path) -> Glob:
    return Glob.from_config(BaseToolConfig(workdir=workspace))


def put(root: Path, *paths: str, text: str = "needle\n") -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


async def found(tool: Glob, pattern: str, **args: str) -> list[str]:
    return (await tool.invoke(pattern=pattern, **args)).files


TREE = ("a.py", "b.ts", "src/c.py", "src/d.tsx", "src/deep/e.py", "src/deep/f.ts", "docs/g.md")


async def test_a_pattern_names_files(subtests, tool, workspace):
    for pattern, wanted in [
        ("*.py", ["a.py", "src/c.py", "src/deep/e.py"]),
        ("**/*.py", ["a.py", "src/c.py", "src/deep/e.py"]),
        ("/*.py", ["a.py"]),
        ("./*.py", ["a.py"]),
        ("src/*.{ts,tsx}", ["src/d.tsx"]),
        ("src/**/*.{ts,tsx}", ["src/d.tsx", "src/deep/f.ts"]),
        ("**/deep/*", ["src/deep/e.py", "src/deep/f.ts"]),
        ("docs/", ["docs/g.md"]),
        ("src/[cd].*", ["src/c.py", "src/d.tsx"]),
        ("?.md", ["docs/g.md"]),
        ("*.PY", []),
    ]:
        with subtests.test(pattern=pattern, wanted=wanted):
            put(workspace, *TREE)
            assert await found(tool, pattern) == wanted


async def test_a_pattern_counts_from_path_and_from_the_workspace(tool, workspace):
    put(workspace, *TREE)
    assert await found(tool, "deep/*.py", path="src") == ["src/deep/e.py"]
    assert await found(tool, "src/deep/*.py", path="src") == ["src/deep/e.py"]
    assert await found(tool, f"{workspace.resolve()}/src/*.py") == ["src/c.py"]
    assert await found(tool, "*.py", path="src/deep") == ["src/deep/e.py"]


async def test_files_come_by_name_whatever_their_age(tool, workspace):
    put(workspace, "b", "a/z", "c", "a/b/y", "B")
    for age, name in enumerate(("c", "a/z", "B", "b", "a/b/y")):
        os.utime(workspace / name, (age, age))
    assert await found(tool, "*") == ["B", "a/b/y", "a/z", "b", "c"]


async def test_the_same_files_as_grep_searches(tool, workspace):
    put(workspace, ".gitignore", text="*.log\n/build/\n!keep.log\n")
    put(workspace, "src/.gitignore", text="made.py\n")
    put(workspace, "a.py", "b.log", "keep.log", "build/x.py", "src/build/y.py", "src/made.py", ".hidden/z.py", ".env")
    put(workspace, "node_modules/m/i.py", "__pycache__/c.pyc", "venv/lib/v.py", "e.egg-info/p", "htmlcov/h.py")
    grep = Grep.from_config(BaseToolConfig(workdir=workspace))
    searched = (await grep.invoke(pattern="needle", files_only=True)).matches.split("\n")
    wanted = ["a.py", "keep.log", "src/build/y.py"]
    assert [line.partition(" ")[0] for line in searched] == wanted
    assert await found(tool, "**") == wanted


async def test_a_hidden_folder_is_looked_into_when_it_is_the_path(tool, workspace):
    put(workspace, ".github/workflows/ci.yml")
    assert await found(tool, "*.yml") == []
    assert await found(tool, "*.yml", path=".github") == [".github/workflows/ci.yml"]


async def test_links_lead_nowhere(tool, workspace, tmp_path):
    put(tmp_path / "outside", "secret.py")
    put(workspace, "a.py")
    (workspace / "out").symlink_to(tmp_path / "outside")
    (workspace / "round").symlink_to(workspace)
    (workspace / "file.py").symlink_to(tmp_path / "outside" / "secret.py")
    assert await found(tool, "**/*.py") == ["a.py"]
    assert await found(tool, "out/*.py") == []


async def test_no_file_is_opened(tool, workspace):
    os.mkfifo(workspace / "pipe.py")
    os.mkfifo(workspace / ".gitignore")
    put(workspace, "locked.py")
    (workspace / "locked.py").chmod(0)
    assert await found(tool, "*.py") == ["locked.py"]


async def test_names_keep_to_their_line(tool, workspace):
    put(workspace, "a\nb.py", "c\u202ed.py")
    (workspace / os.fsdecode(b"\xff.py")).touch()
    files = await found(tool, "*.py")
    assert files == ["a\\nb.py", "c\\u202ed.py", "\\udcff.py"]
    json.dumps(files).encode()


async def test_what_is_left_out_is_counted(tool, workspace, monkeypatch):
    monkeypatch.setattr(glob_module, "MAX_FILES", 10)
    put(workspace, *(f"f{n:04}" for n in range(1_010)))
    result = await tool.invoke(pattern="f*")
    assert result.files == [f"f{n:04}" for n in range(10)]
    assert tool.to_model(result).split("\n")[-1] == "[… 1,000 more; narrow pattern or path …]"


async def test_nothing_found_says_what_was_not_looked_at(tool, workspace):
    put(workspace, "a")
    nothing = "No file matches. Hidden and ignored files are left out; list_dir shows them."
    assert tool.to_model(await tool.invoke(pattern="*.py")) == nothing


async def test_what_cannot_be_looked_for_is_reported(subtests, tool, workspace):
    for number, (args, reason) in enumerate(
        [
            ({"pattern": "[a"}, r"The glob \[a cannot be read: its \[ has no end"),
            ({"pattern": "[z-a]"}, r"\[z-a\] is not a set of characters"),
            ({"pattern": "a\\"}, "ends in a backslash"),
            ({"pattern": "../*.py"}, r"contains `\.\.`. Set path"),
            ({"pattern": "a\nb"}, "one line"),
            ({"pattern": "a\0"}, "one line"),
            ({"pattern": ""}, "at least 1 character"),
            ({"pattern": "{a,b}" * 7}, "expand to more than 64 globs"),
            ({"pattern": "x" * 5_000}, "more than 4096 characters"),
            ({"pattern": "*", "path": "nowhere"}, "nowhere: there is no such file or folder"),
            ({"pattern": "*", "path": "a.py"}, r"a\.py is not a folder"),
            ({"pattern": "*", "path": "a\0"}, "control character"),
        ]
    ):
        with subtests.test(number=number):
            put(workspace, "a.py")
            with pytest.raises(ToolError, match=reason):
                await tool.invoke(**args)


async def test_a_pattern_that_could_be_tried_forever_is_not(tool, workspace):
    put(workspace, "a" * 200)
    assert await found(tool, "*a" * 100 + "b") == []


async def test_when_the_time_is_up_that_is_reported(tool, workspace, monkeypatch):
    put(workspace, "a")
    monkeypatch.setattr(glob_module, "SECONDS", -1.0)
    assert "incomplete: the search stopped" in tool.to_model(await tool.invoke(pattern="*"))


async def test_folders_nested_without_end_are_an_error_and_no_crash(tool, workspace, monkeypatch):
    def too_deep(*_: object):
        raise RecursionError
        yield

    monkeypatch.setattr(glob_module, "files", too_deep)
    with pytest.raises(ToolError, match="nested too deeply"):
        await tool.invoke(pattern="*")


async def test_of_a_large_tree_all_is_found_or_counted(tool, workspace):
    put(workspace, ".gitignore", text="".join(f"ignored{n}/\n*.o{n}\n" for n in range(15)))
    for folder in range(10):
        (workspace / f"d{folder}").mkdir()
        for file in range(150):
            (workspace / f"d{folder}" / f"f{file:03}.py").touch()
    result = await tool.invoke(pattern="**/*.py")
    assert len(result.files) + result.left_out == 1_500


def test_it_reads_the_folder_and_says_so(tool):
    args = tool.parse_args({"pattern": "*.py", "path": "src"})
    assert tool.accesses(args).reads == ("src",)
    assert tool.accesses(args).only_reads
    assert tool.preview(args).summary == "find *.py in src"
    assert tool.preview(tool.parse_args({"pattern": "*"})).summary == "find *"


def test_what_the_model_is_shown_takes_little_room():
    info = Glob.get_info()
    assert len(f"{info.name}{info.description}{json.dumps(info.parameters)}".encode()) < 800
