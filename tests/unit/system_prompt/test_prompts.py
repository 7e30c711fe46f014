"""The base prompt: built-in ones, and the person's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from kin_nb.core.config import ConfigError
from kin_nb.core.config.values import SystemPrompt, load_prompt


def put(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_the_built_in_prompt_has_two_names(project):
    text = load_prompt("default", project, trusted=False)
    assert text.startswith("You are Kin")
    assert load_prompt("cli", project, trusted=False) == text
    assert SystemPrompt("cli") is SystemPrompt.DEFAULT


def test_a_trusted_projects_prompt_comes_before_the_persons(project, home):
    put(home / ".kin-code" / "prompts", "mine.md", "\ufeffperson's\n")
    put(project / ".kin-code" / "prompts", "mine.md", "project's\n")
    assert load_prompt("mine", project, trusted=False) == "person's"
    assert load_prompt("mine", project, trusted=True) == "project's"


def test_an_unknown_one_comes_with_what_there_is(project, home):
    put(home / ".kin-code" / "prompts", "mine.md", "x")
    put(project / ".kin-code" / "prompts", "theirs.md", "x")
    with pytest.raises(ConfigError) as error:
        load_prompt("nope", project, trusted=False)
    assert str(error.value).startswith('Unknown prompt: system_prompt_id = "nope".\nPrompts: default, mine. ')
    assert "~/.kin-code/prompts/NAME.md" in str(error.value)
    with pytest.raises(ConfigError, match="Prompts: default, mine, theirs"):
        load_prompt("nope", project, trusted=True)


def test_a_name_that_is_a_path_names_nothing(subtests, project, home):
    for number, prompt_id in enumerate(
        ["", "..", "../mine", "a/mine", "a\\mine", "/etc/passwd", ".hidden", "a\0", "x" * 999]
    ):
        with subtests.test(number=number):
            put(home / ".kin-code", "mine.md", "outside")
            put(home / ".kin-code" / "prompts" / "a", "mine.md", "below")
            put(home / ".kin-code" / "prompts", ".hidden.md", "hidden")
            with pytest.raises(ConfigError, match="Unknown prompt"):
                load_prompt(prompt_id, project, trusted=True)


def test_a_prompt_that_is_no_text_is_named(project, home):
    put(home / ".kin-code" / "prompts", "mine.md", "")
    (home / ".kin-code" / "prompts" / "mine.md").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r'^system_prompt_id = "mine" cannot be used: .*/mine.md is not UTF-8.$'):
        load_prompt("mine", project, trusted=False)
    (home / ".kin-code" / "prompts" / "folder.md").mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        load_prompt("folder", project, trusted=False)
