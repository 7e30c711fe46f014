"""A session notebook that was continued live, was saved by its front end alone, and is played by a teammate, who has no log.

What ordinary work leaves out of the outputs, cells that were run again, undid twice or were deleted, must not stop it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest
from page import Page, prompts_sent, with_and_without_log

from kin_nb.replay.format.output_records import RECORD_KEY
from tests.model_server import ModelServer

pytestmark = [pytest.mark.kernel, pytest.mark.in_process]


class Work:
    """`page` after its two answers, with prompts below: each letter has a cell, and each answer a number."""

    def __init__(self, page: Page, server: ModelServer) -> None:
        self.page, self._server = page, server
        self._answers: dict[str, int] = {}

    def ask(self, letter: str) -> None:
        self._answer(letter)
        self.page.add(f"%%kin\nPrompt {letter}.")

    def fail(self, letter: str) -> None:
        self._server.enqueue(status=400)
        assert self.page.add(f"%%kin\nPrompt {letter}.") == "error"

    def again(self, letter: str, rule: str = "retry") -> None:
        self._answer(letter)
        getattr(self.page, rule)(self.cell(f"Prompt {letter}."))

    def delete(self, letter: str) -> None:
        self.page.cells.remove(self.cell(f"Prompt {letter}."))

    def cell(self, text: str):
        return next(cell for cell in self.page.cells if cell["source"].endswith(text))

    def _answer(self, letter: str) -> None:
        self._answers[letter] = self._answers.get(letter, 0) + 1
        self._server.enqueue(f"{letter}{self._answers[letter]}.")


def failed(work: Work) -> None:
    work.fail("A")
    work.again("A", "ask")
    work.ask("B")


def failed_and_undone(work: Work) -> None:
    failed(work)
    work.page.add("%kin undo 3")
    work.ask("C")


def failed_after_a_clear(work: Work) -> None:
    work.page.add("%kin clear")
    failed(work)


def asked_as_new_turns(work: Work) -> None:
    work.ask("A")
    work.again("A", "live")
    work.again("A", "live")
    work.ask("B")


def asked_again_twice(work: Work) -> None:
    for letter in "AB":
        work.ask(letter)
    work.again("A")
    work.again("A")
    work.ask("C")


def undone_twice_by_one_cell(work: Work) -> None:
    for letter in "AB":
        work.ask(letter)
    work.page.add("%kin undo 1")
    work.page.run(work.page.cells[-1])
    work.ask("C")


def undone_twice_and_redone(work: Work) -> None:
    for letter in "AB":
        work.ask(letter)
    work.page.add("%kin undo 1")
    work.page.run(work.page.cells[-1])
    work.page.add("%kin redo")


def deleted(work: Work) -> None:
    for letter in "ABC":
        work.ask(letter)
    work.delete("B")


def undo_deleted(work: Work) -> None:
    for letter in "AB":
        work.ask(letter)
    work.page.add("%kin undo 1")
    del work.page.cells[-1]
    work.ask("C")


def cleared_and_asked_again(work: Work) -> None:
    work.ask("A")
    work.page.add("%kin clear")
    work.ask("B")
    work.again("B")
    work.ask("C")


def undone_above_what_was_undone(work: Work) -> None:
    work.ask("A")
    work.page.add("%kin undo 1")
    undo = work.page.cells[-1]
    work.ask("B")
    work.again("B", "live")
    work.ask("C")
    work.page.run(undo)


def undone_and_asked_again(work: Work) -> None:
    """What the undo undid stands in its own cell, not in that of the answer."""
    work.ask("A")
    work.page.add("%kin undo 1")
    work.again("A")
    work.ask("B")


def moved_among_the_same(work: Work) -> None:
    """Both are undone, so only what they show tells them apart."""
    for letter in "AA":
        work.ask(letter)
    work.page.add("%kin undo 2")
    work.ask("C")
    work.page.cells.insert(-3, work.page.cells.pop(-4))


def asked_as_new_and_undone(work: Work) -> None:
    work.ask("A")
    work.again("A", "live")
    work.page.add("%kin undo 1")
    work.ask("B")


def redone_above(work: Work) -> None:
    for letter in "AB":
        work.ask(letter)
    for command in ("undo 2", "redo"):
        work.page.add(f"%kin {command}")
    work.page.cells.insert(-4, work.page.cells.pop())


def copied(work: Work) -> None:
    for letter in "ABAC":
        work.ask(letter)
    copy = deepcopy(work.cell("Prompt A."))
    copy["id"] = "copy"
    work.page.cells.append(copy)


def failed_last(work: Work) -> None:
    work.ask("A")
    work.again("A")
    work.fail("F")


SCENES = {
    failed: "A1 B1",
    failed_and_undone: "C1",
    failed_after_a_clear: "A1 B1",
    asked_as_new_turns: "A3 B1",
    asked_again_twice: "A3 C1",
    undone_twice_by_one_cell: "C1",
    undone_twice_and_redone: "A1",
    deleted: "A1 C1",
    undo_deleted: "A1 C1",
    cleared_and_asked_again: "B2 C1",
    undone_above_what_was_undone: "B2",
    undone_and_asked_again: "A2 B1",
    moved_among_the_same: "C1",
    asked_as_new_and_undone: "A1 B1",
    redone_above: "A1 B1",
    copied: "A1 B1 C1",
    failed_last: "A2 F1",
}
"""What is done, and the answers below that the conversation on the page has then."""


MISSING = {deleted}
"""Where an answer that was sent is on the page no more: a cell that was asked again carries its earlier answers too."""


def shown(cell) -> list[str]:
    """Turns, and what was undone: no notices, and nothing of commands that do nothing in playback."""
    return [output["data"]["text/plain"] for output in cell["outputs"] if RECORD_KEY in output.get("metadata", {})]


@pytest.mark.parametrize(("scene", "stands"), SCENES.items(), ids=[scene.__name__ for scene in SCENES])
def test_it_is_played_and_continued_with_from_what_the_page_shows(
    page, model_server, tmp_path, scene, stands, subtests
):
    work = Work(page, model_server)
    scene(work)
    page.save()
    for log in with_and_without_log(page, tmp_path):
        with subtests.test(log=log):
            check_playback(page, model_server, scene, stands)


def check_playback(page: Page, model_server: ModelServer, scene: Callable[[Work], None], stands: str) -> None:
    live = [shown(cell) for cell in page.cells]
    asked, outputs = len(model_server.requests), None
    for _ in range(2):
        assert set(page.run_all()) == {"ok"}
        assert [shown(cell) for cell in page.cells] == live
        before, outputs = outputs, [cell["outputs"] for cell in page.cells]
        page.save()
    assert before == outputs
    assert len(model_server.requests) == asked
    model_server.enqueue("Z.")
    page.type("%%kin\nPrompt Z.")
    page.cells[-1]["id"] = "next"
    assert page.ask(page.cells[-1]) == "ok", page.said
    begins = [] if scene in {failed_after_a_clear, cleared_and_asked_again} else ["Say one.", "Add a note."]
    assert ("The conversation continues without" in page.said) == (scene in MISSING)
    sent = [*begins, *(f"Prompt {each[0]}." for each in stands.split()), "Prompt Z."]
    assert [*dict.fromkeys(prompts_sent(model_server))] == sent


def test_what_the_page_has_lost_is_named_where_the_conversation_continues(page, model_server, tmp_path):
    work = Work(page, model_server)
    deleted(work)
    page.save()
    page.run_all()
    work.ask("D")
    assert (
        "The conversation continues without 1 record\n  Their cells were deleted, so the model does not see them"
        in page.said
    )


def test_a_command_that_failed_fails_again_and_changes_nothing(page, model_server):
    work = Work(page, model_server)
    work.ask("A")
    assert page.add("%kin redo") == "error"
    page.save()
    assert page.run_all()[-1] == "error"
    assert page.said == "There is nothing to redo: nothing was undone since the last prompt."


def test_a_last_prompt_that_failed_says_how_to_ask_it_again(page, model_server):
    """The model server may be up again, and the card looks as if it had just said no."""
    Work(page, model_server).fail("A")
    page.save()
    asked = len(model_server.requests)
    for _ in range(2):
        assert set(page.run_all()) == {"ok"}
        assert page.said.startswith(
            "Turn 3 has no answer\n  It is shown as it ended. To ask the model again: `%kin live`, then run this cell again."
        )
        page.save()
    assert len(model_server.requests) == asked
    page.command("%kin live")
    model_server.enqueue("A1.")
    assert page.run(page.cells[3]) == "ok"
    assert page.said.startswith("A1.")
