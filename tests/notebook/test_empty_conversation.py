"""Commands that move the conversation where there is nothing to move: what a cell showed live, Run All shows again."""

from __future__ import annotations

import pytest

from kin_nb.replay.format.output_records import raw_output_records
from tests.notebook.in_process_page import InProcessPage, prompts_sent, shown

CLEARED = "A new conversation begins with the next prompt. What was said stays recorded."
NO_UNDO = "There is nothing to undo: no turn has run in this conversation."
NO_REDO = "There is nothing to redo: nothing was undone since the last prompt."
NO_COMPACTION = "Nothing to compact yet: nothing was said in this conversation."
PROMPT = "%%kin\nHello."
TOOK_BACK, GAVE_BACK = "Undid turn 1", "Restored turn 1"

CASES = {
    "a clear first": [("clear", CLEARED)],
    "two clears first": [("clear", CLEARED), ("clear", CLEARED)],
    "a compaction first": [("compact", NO_COMPACTION)],
    "an undo first": [("undo", NO_UNDO)],
    "undo 2 first": [("undo 2", NO_UNDO)],
    "a redo first": [("redo", NO_REDO)],
    "all of them after a clear": [
        ("clear", CLEARED),
        ("undo", NO_UNDO),
        ("redo", NO_REDO),
        ("compact", NO_COMPACTION),
    ],
    "two clears after an answer": [(PROMPT, ""), ("clear", CLEARED), ("clear", CLEARED)],
    "a compaction of what was cleared": [(PROMPT, ""), ("clear", CLEARED), ("compact", NO_COMPACTION)],
    "a redo after an answer": [(PROMPT, ""), ("redo", NO_REDO)],
    "an undo of what was undone": [(PROMPT, ""), ("undo", TOOK_BACK), ("undo", NO_UNDO)],
    "a compaction of what was undone": [(PROMPT, ""), ("undo", TOOK_BACK), ("compact", NO_COMPACTION)],
    "a redo of what was redone": [(PROMPT, ""), ("undo", TOOK_BACK), ("redo", GAVE_BACK), ("redo", NO_REDO)],
    "an undo, a redo and an undo": [
        (PROMPT, ""),
        ("undo", TOOK_BACK),
        ("redo", GAVE_BACK),
        ("undo", TOOK_BACK),
        ("undo", NO_UNDO),
    ],
}
"""Commands in the order of their cells, below them a prompt; what each shows, "" for an answer."""


def commands_of(case: str, session: str) -> list[tuple[str, str]]:
    named = f"--session {session} " if session else ""
    prompt = PROMPT.replace("%%kin", f"%%kin {named}".rstrip())
    return [(prompt if says == "" else f"%kin {named}{command}", says) for command, says in CASES[case]]


def says(cell) -> str:
    """The first line of what it shows, apart from what is reported of playback."""
    return next(
        text.partition("\n")[0]
        for text in shown(cell)
        if not text.startswith(("Saved answers are", "This output keeps"))
    )


def lived(page: InProcessPage, case: str, session: str = "") -> list[str]:
    """What each cell says. A prompt comes last, so that the notebook plays."""
    for source, _ in commands_of(case, session):
        if source.startswith("%%"):
            page.answered(source, "Hi.")
        else:
            page.run(page.type(source))
    page.answered("%%kin\nThe last.", "The end.")
    return [says(cell) for cell in page.cells]


@pytest.mark.parametrize("session", ["", "side"])
@pytest.mark.parametrize("case", CASES)
def test_run_all_says_what_was_said_live(page, model_server, case, session):
    said = lived(page, case, session)
    assert said[:-1] == [text or "Hi." for _, text in commands_of(case, session)]
    sent, requests = prompts_sent(model_server), len(model_server.requests)
    sources = [cell["source"] for cell in page.cells]
    # without ids the next cell with the same text counts: two undos are told apart only by their order
    for cell_id in (True, True, len(set(sources)) < len(sources)):
        page.save()
        page.restart()
        errors = page.run_all(stops=False, cell_id=cell_id)
        assert list(map(says, page.cells)) == said
        assert [bool(error) for error in errors] == [text.startswith(("There is no", "Nothing to")) for text in said]
    assert len(model_server.requests) == requests
    page.answered("%%kin\nAnd one more.", "More.")
    assert prompts_sent(model_server) == [*sent, "And one more."]


@pytest.mark.parametrize("case", CASES)
def test_saved_it_plays_what_moved_the_conversation(page, model_server, case):
    """A command that did nothing is left out, as any other that made no record."""
    said = [text for text in lived(page, case) if not text.startswith(("There is no", "Nothing to"))]
    page.save()
    assert page.command("%kin save").startswith("Saved ")
    page.open(page.file.with_name("talk.kin.ipynb"))
    assert set(page.run_all()) == {""}
    assert list(map(says, page.cells[1:])) == said


def test_a_notebook_in_which_only_a_clear_ran_holds_no_answer(page, model_server):
    """So a prompt in it is asked without a question, also where no user can answer one."""
    clear = page.type("%kin clear")
    assert page.run(clear) == ""
    page.type(PROMPT)
    page.save()
    page.restart()
    model_server.enqueue("Hi.")
    assert page.run_all(cell_id=False) == ["", ""]
    assert list(map(says, page.cells)) == [CLEARED, "Hi."]


def test_a_clear_needs_no_model(page):
    (page.home / "kin" / "config.toml").write_text("")
    assert page.run(page.type("%kin clear")) == ""
    assert says(page.cells[0]) == CLEARED


def test_a_clear_that_was_run_again_shows_its_last_run(page, model_server):
    clear = page.type("%kin clear")
    for _ in range(2):
        assert page.run(clear) == ""
    page.answered(PROMPT, "Hi.")
    assert page.run(clear) == ""
    page.answered("%%kin\nThe last.", "The end.")
    assert prompts_sent(model_server) == ["The last."]
    assert page.restart_and_run_all() == ["", "", ""]


def test_a_command_that_never_ran_says_that_nothing_is_recorded(page, model_server):
    """Where it would do something."""
    page.answered(PROMPT, "Hi.")
    for command in ("undo", "clear", "compact"):
        page.type(f"%kin {command}")
    page.answered("%%kin\nThe last.", "The end.")
    errors = page.restart_and_run_all(stops=False)
    for error, command in zip(errors[1:4], ("undo", "clear", "compact"), strict=True):
        assert f"for this cell no `%kin {command}` is recorded, and this notebook plays a recording" in error


def test_a_command_in_a_cell_that_the_file_does_not_have_says_that_nothing_is_recorded(page):
    """Run before anything else: what is above it is not known."""
    page.answered(PROMPT, "Hi.")
    page.save()
    page.restart()
    assert page.command("%kin undo").startswith("Nothing was done: for this cell no `%kin undo` is recorded")


def test_a_clear_first_knows_the_commit_of_the_workspace_and_so_does_what_comes_after_it(page):
    git, commit = page.file.parent / ".git", "0123456789" * 4
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/topic")
    (git / "packed-refs").write_text(f"{commit} refs/heads/topic\n")
    page.run(page.type("%kin clear"))
    page.answered(PROMPT, "Hi.")
    page.save()
    carried = [each for cell in page.cells for each in raw_output_records(cell)]
    assert [each["session"]["workspace"] for each in carried] == [
        {"path": ".", "commit": commit, "branch": "topic"}
    ] * 2
