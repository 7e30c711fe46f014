"""What a cell in playback says when its text is not the one that was answered in it."""

from __future__ import annotations

import pytest

from kin_nb.replay.playback.player import describe_edited_prompt, prompt_diff
from tests.unit.replay.sessions import turn

HEAD = "The saved answer of this cell (turn 2) is for "


def test_one_line_that_was_changed():
    assert describe_edited_prompt(turn(2, "Fix the build."), "Fix the tests.\n").splitlines() == [
        f"{HEAD}another prompt:",
        "  - Fix the build.",
        "  + Fix the tests.",
        "Restore the text to show that answer, or use `%%kin --retry` to ask again from where turn 2 was asked.",
    ]


def test_other_options_alone_are_named_as_such():
    said = describe_edited_prompt(turn(2, "Fix it.", options="--mode plan"), "Fix it.")
    assert said.splitlines()[0] == f"{HEAD}other options on the %%kin line."
    assert len(said.splitlines()) == 2


def test_a_prompt_that_begins_like_a_command_is_compared_as_it_is_typed():
    assert prompt_diff("//undo", "//undo") == []
    assert "+ //redo" in describe_edited_prompt(turn(2, "/undo"), "//redo")
    assert "- //undo" in describe_edited_prompt(turn(2, "/undo"), "//redo")


def test_a_long_line_shows_the_place_that_differs_and_no_more():
    words = " ".join(f"word{n}" for n in range(400))
    found = prompt_diff(words, words.replace("word200 ", "WORD "))
    assert any("WORD" in line for line in found)
    assert sum(map(len, found)) < 2000
    assert not any("word10 " in line for line in found)


def test_a_text_that_has_nothing_in_common_is_cut():
    lines = prompt_diff("\n".join(f"a{n}" for n in range(100)), "\n".join(f"b{n}" for n in range(100)))
    assert len(lines) == 13
    assert lines[-1] == "  ... 188 more"


@pytest.mark.parametrize("hidden", ["\x1b[2J", "\u202e", "\x07", "\ud83d"])
def test_what_a_recorded_prompt_hides_is_in_sight(hidden):
    text = "\n".join(prompt_diff(f"a{hidden}b", "ab"))
    assert hidden not in text
    assert "⟨U+" in text


def test_lines_that_look_like_a_diff_are_lines():
    assert prompt_diff("-- a\n@@ b\nc", "++ a\n@@ b\nc") == ["  - -- a", "  + ++ a", "    @@ b"]
