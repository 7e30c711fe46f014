"""What becomes of the system prompt and what the model reads when instructions and facts change within a session."""

from __future__ import annotations

import pytest

from kin_nb.core.system_prompt.builder import joined
from kin_nb.core.system_prompt.changes import compare_prompt

FACTS = "Workspace: /w\nSystem: Linux; shell: bash\nModel: m"
RULES = "Answer in rhymes.\n\nAlways."
STATE = "<project_context>\nGit: branch main\n\nFiles:\na.py\n</project_context>"
SECTIONS = ["You are Kin.\n\nHow you work:\n- Well.", FACTS]
PROMPT = joined([*SECTIONS, STATE])


def test_the_same_sections_change_nothing():
    assert compare_prompt(PROMPT, [], SECTIONS) == (False, "")


def test_changed_facts_are_a_note():
    other = FACTS.replace("Model: m", "Model: other")
    rebuild, note = compare_prompt(PROMPT, [], [SECTIONS[0], other])
    assert not rebuild
    assert note.endswith(f"<changed>\n{other}\n</changed>")


def test_new_instructions_are_a_note_once():
    sections = [*SECTIONS, RULES]
    rebuild, note = compare_prompt(PROMPT, [], sections)
    assert not rebuild
    assert RULES in note
    assert compare_prompt(PROMPT, ["", f"{note}\n\nplan mode is on."], sections) == (False, "")


@pytest.mark.parametrize("taken", [RULES, "Python 3.8 only.", "Model: a sports car.", "The project uses: nothing."])
def test_where_instructions_were_taken_away_the_prompt_is_built_again(taken):
    assert compare_prompt(joined([PROMPT, taken]), [], SECTIONS) == (True, "")
    assert compare_prompt(joined([PROMPT, taken]), [], [*SECTIONS, "Answer in prose."]) == (True, "")


def test_instructions_of_a_note_that_were_taken_away_are_revoked_once():
    _, note = compare_prompt(PROMPT, [], [*SECTIONS, RULES])
    rebuild, revoked = compare_prompt(PROMPT, [note], SECTIONS)
    assert rebuild
    assert "no longer apply" in revoked
    assert compare_prompt(PROMPT, [note, revoked], SECTIONS) == (False, "")
