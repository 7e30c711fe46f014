"""The line about a file's new text that does not parse: in the result of each editing tool, and in its preview."""

from __future__ import annotations

import builtins
import sys
import warnings
from pathlib import Path

import pytest

from kin_nb.core.syntax_check import LARGEST, syntax_error, syntax_note
from kin_nb.core.tool_types import BaseToolConfig
from kin_nb.core.tools.builtins import builtin_tools
from kin_nb.render.approval import approval_html, approval_text

PYTHON = f"Python {sys.version_info.major}.{sys.version_info.minor}"
WRONG = {
    "a.py": ("x = 1\ny = (2\n", f"a.py does not parse as {PYTHON} at line 2: '(' was never closed."),
    "d/b.PY": ("if x:\npass\n", f"d/b.PY does not parse as {PYTHON} at line 2: expected an indented block"),
    "a.json": ('{"a": 1,\n "b": }', "a.json does not parse as JSON at line 2: Expecting value."),
    "a.ipynb": ('{"cells": [\n', "a.ipynb does not parse as a notebook at line 2: Expecting value."),
    "b.ipynb": ('{"metadata": {}}', 'b.ipynb does not parse as a notebook: it has no list "cells".'),
    "a.toml": ("a = 1\nb = \n", "a.toml does not parse as TOML at line 2: Invalid value."),
    "b.toml": ("a = 1\nb = [1,\n", "b.toml does not parse as TOML at line 3: "),
    "a.yaml": ("a: 1\nb: [1\nc: 2\n", "a.yaml does not parse as YAML at line 3: did not find expected ',' or ']'."),
    "a.yml": ("a: 'x\n", "a.yml does not parse as YAML at line 2: found unexpected end of stream."),
}
RIGHT = {
    "a.py": 'x = "\\d"\n',
    "a.json": '{"a": ' + "9" * 5_000 + "}",
    "a.ipynb": '{"cells": []}',
    "a.toml": "a = 1\n",
    "a.yaml": "a: !Ref b\n---\nc: ${{ d }}\n",
    "e.yaml": "",
    "a.txt": "((((",
    "Makefile": "((((",
}
NOT_CHECKED = {
    "chart.yaml": "{{- if .Values.on }}\na: [\n{{ end }}\n",
    "tsconfig.json": '{"a": 1, // a comment\n}',
    ".vscode/settings.json": "// a comment\n{}",
    "large.py": "(" + "#" * LARGEST,
    "deep.json": "[" * 100_000,
    "deep.py": "-" * 100_000 + "1",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_text_that_does_not_parse_is_named_with_its_line(name):
    text, message = WRONG[name]
    assert syntax_error(name, text).startswith(message)
    assert "\n" not in syntax_error(name, text)


def test_what_parses_and_what_is_not_checked_gives_nothing(subtests):
    for name, text in (RIGHT | NOT_CHECKED).items():
        with subtests.test(name), warnings.catch_warnings():
            warnings.simplefilter("error")
            assert syntax_error(name, text) == ""


def test_without_pyyaml_yaml_is_not_checked(monkeypatch):
    real = builtins.__import__

    def without_yaml(name, *args, **kwargs):
        if name == "yaml":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_yaml)
    assert syntax_error("other.yaml", "a: [1\nb") == ""


def test_nothing_of_a_text_runs(tmp_path):
    made = tmp_path / "made"
    syntax_error("a.py", f"open({str(made)!r}, 'w')\nx = [__import__('os').mkdir({str(made)!r})]\n")
    syntax_error("a.yaml", f"!!python/object/apply:os.mkdir [{made}]\n")
    assert not made.exists()


def test_a_text_that_did_not_parse_before_is_not_new():
    assert syntax_note("a.py", "x = (", "x = 1") == ""
    assert syntax_note("a.py", "x = 1", "x = (").endswith("'(' was never closed.")
    assert syntax_note("a.py", "y = [", "x = (").endswith("'(' was never closed. It did not parse before either.")
    assert syntax_note("a.json", "", "{").endswith("enclosed in double quotes.")


def calls(new: str) -> dict[str, dict]:
    """A call of each tool that makes a.py, which holds `x = 1`, be `new`."""
    block = f"<<<<<<< SEARCH\nx = 1\n=======\n{new}\n>>>>>>> REPLACE"
    return {
        "write_file": {"content": f"{new}\n", "overwrite": True},
        "edit_file": {"old_string": "x = 1", "new_string": new},
        "search_replace": {"content": block},
    }


@pytest.mark.parametrize("name", calls(""))
async def test_each_tool_says_so_in_its_preview_and_in_its_result(workspace: Path, name):
    (workspace / "a.py").write_text("x = 1\n")
    tool = builtin_tools()[name].from_config(BaseToolConfig(workdir=workspace))
    line = f"a.py does not parse as {PYTHON} at line 1: '(' was never closed."
    args = tool.parse_args({"path": "a.py", **calls("x = (1")[name]})
    assert tool.preview(args).note == line
    first, *others = tool.to_model(await tool.run(args)).split("\n")
    assert first.endswith("a.py: line 1 (+1 -1).")
    assert others == [line]
    (workspace / "a.py").write_text("x = 1\n")
    args = tool.parse_args({"path": "a.py", **calls("x = 2")[name]})
    assert tool.preview(args).note == ""
    assert "\n" not in tool.to_model(await tool.run(args))


def test_the_card_shows_the_line_before_the_change():
    html = approval_html("edit a.py", "asks", "@@ -1 +1 @@\n-a\n+b\n", "diff", note="a.py does not parse <here>.")
    assert "Note: a.py does not parse &lt;here&gt;.<br>" in html
    text = approval_text("edit a.py", "asks", "@@ -1 +1 @@\n-a\n+b\n", "diff", note="a.py does not parse.")
    assert text.index("  Note: a.py does not parse.\n") < text.index("@@")
