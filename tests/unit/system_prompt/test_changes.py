"""What becomes of the system prompt and what the model is told when instructions and facts change within a session."""

from __future__ import annotations

from kin_nb.core.system_prompt.builder import joined
from kin_nb.core.system_prompt.changes import update_prompt

FACTS = "Workspace: /w\nSystem: Linux; shell: bash\nModel: m"
RULES = "Answer in rhymes.\n\nAlways."
CONTEXT = "<project_context>\nGit: branch main\n\nFiles:\na.py\n</project_context>"
SECTIONS = ["You are Kin.\n\nHow you work:\n- Well.", FACTS, CONTEXT]
PROMPT = joined(SECTIONS)


def test_the_same_sections_change_nothing():
    assert update_prompt(PROMPT, [], SECTIONS) == (PROMPT, "")


def test_other_files_change_nothing():
    assert update_prompt(PROMPT, [], [*SECTIONS[:2], CONTEXT.replace("a.py", "b.py")]) == (PROMPT, "")


def test_of_the_facts_the_new_lines_are_a_note():
    prompt, note = update_prompt(PROMPT, [], [SECTIONS[0], FACTS.replace("Model: m", "Model: other"), CONTEXT])
    assert prompt == PROMPT
    assert note.endswith("<changed>\nModel: other\n</changed>")
    assert "Workspace" not in note


def test_new_instructions_are_a_note_once():
    sections = [*SECTIONS, RULES]
    prompt, note = update_prompt(PROMPT, [], sections)
    assert prompt == PROMPT
    assert RULES in note
    assert update_prompt(PROMPT, ["", f"{note}\n\nplan mode is on."], sections) == (PROMPT, "")


def test_instructions_that_were_taken_away_are_not_read_any_more():
    sections = [*SECTIONS, RULES]
    assert update_prompt(joined(sections), [], SECTIONS) == (PROMPT, "")
    changed = [*SECTIONS, "Answer in prose."]
    assert update_prompt(joined(sections), [], changed) == (joined(changed), "")


def test_instructions_of_a_note_that_were_taken_away_are_revoked_once():
    _, note = update_prompt(PROMPT, [], [*SECTIONS, RULES])
    prompt, revoked = update_prompt(PROMPT, [note], SECTIONS)
    assert prompt == PROMPT
    assert "no longer apply" in revoked
    assert update_prompt(prompt, [note, revoked], SECTIONS) == (PROMPT, "")
