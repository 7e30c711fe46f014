"""The agent's questions in a blocked cell, on real kernels."""

from __future__ import annotations

import pytest
from notebook_client import WIDGET_VIEW, LiveKernel, says_where_to_answer, shown

from tests.model_server import tool_call

pytestmark = pytest.mark.kernel

CHANNEL = """%%agent
from kin_nb.core.questions import Question
from kin_nb.core.tools.base import ToolError
from kin_nb.notebook.approval import CardPlace, choose_question_channel

def place(question):
    card = {"text/html": f"<b>waiting: {question.text}</b>", "text/plain": f"waiting: {question.text}"}
    io.display(card, display_id=f"id-{question.call_id}")
    return CardPlace(f"id-{question.call_id}", card)

channel = choose_question_channel(io, run=run, submit_main=submit_main, place=place)

async def question(text, *choices, multiple=False):
    try:
        io.stream(repr(await channel(Question(text, choices, multiple, text))))
    except ToolError as error:
        io.stream(str(error))

"""
CHOICE = f'{CHANNEL}await question("Which?", "SQLite", "Postgres")\n'
SEVERAL = f'{CHANNEL}await question("Which?", "a", "b", "c", multiple=True)\n'
OPEN = f'{CHANNEL}await question("Name?")\n'


def tick(nb: LiveKernel, label: str, *, value: bool = True) -> None:
    box = nb.widget(description=label)
    nb.comm_msg(box, {"method": "update", "state": {"value": value}, "buffer_paths": []})


def settled(nb: LiveKernel, cell: str) -> str:
    """What the card's one line says in the end."""
    html = nb.widget(_model_name="HTMLModel")
    states = [
        m["content"]["data"].get("state", {})
        for m in nb.of(cell)
        if m["msg_type"] == "comm_msg" and m["content"]["comm_id"] == html
    ]
    return [state["value"] for state in states if "value" in state][-1]


def test_a_click_of_another_client_is_no_answer(nb):
    cell = nb.run(CHOICE)
    nb.card(cell)
    with nb.second_client() as other:
        other.seen = list(nb.seen)
        other.click("SQLite")
        nb.until(says_where_to_answer)
    nb.click("Postgres")
    nb.done(cell)
    assert nb.text(cell) == "'Postgres'"


@pytest.mark.every_kernel
def test_one_click_answers(nb):
    cell = nb.run(CHOICE)
    card = nb.card(cell)
    assert card["msg_type"] == "update_display_data"
    assert card["content"]["data"]["text/plain"] == "waiting: Which?"
    nb.click("Postgres")
    assert nb.done(cell)["content"]["status"] == "ok"
    assert nb.text(cell) == "'Postgres'"


def test_an_answer_of_ones_own_comes_whole(nb):
    own = "neither: " + "use what the tests use, " * 20 + "please"
    cell = nb.run(CHOICE)
    nb.card(cell)
    nb.type_note(own)
    nb.click("Send")
    nb.done(cell)
    assert nb.text(cell) == repr(own)


def test_what_was_typed_goes_with_the_choice(nb):
    cell = nb.run(CHOICE)
    nb.card(cell)
    nb.type_note("version 16")
    nb.click("Postgres")
    nb.done(cell)
    assert nb.text(cell) == repr("Postgres\nversion 16")


def test_several_are_ticked_and_sent(nb):
    cell = nb.run(SEVERAL)
    nb.card(cell)
    for label in ("c", "a", "b"):
        tick(nb, label)
    tick(nb, "b", value=False)
    nb.type_note("and d")
    nb.click("Send")
    nb.done(cell)
    assert nb.text(cell) == repr("a\nc\nand d")


def test_sending_nothing_answers_nothing(nb):
    cell = nb.run(OPEN)
    nb.card(cell)
    nb.click("Send")
    nb.type_note("  ")
    nb.click("Send")
    nb.type_note("kin")
    nb.click("Send")
    nb.done(cell)
    assert nb.text(cell) == "'kin'"


def test_a_settled_card_keeps_question_and_answer_and_closes_its_controls(nb):
    cell = nb.run(CHOICE)
    nb.card(cell)
    controls = [nb.widget(description=label) for label in ("SQLite", "Postgres", "Send")]
    field = nb.widget(_model_name="TextModel")
    nb.click("SQLite")
    nb.done(cell)
    closed = {m["content"]["comm_id"] for m in nb.of(cell) if m["msg_type"] == "comm_close"}
    assert {*controls, field} <= closed
    assert settled(nb, cell) == "<code>Which?</code> <b>Answered: SQLite</b>"


def test_what_the_model_writes_is_shown_literally(nb):
    cell = nb.run(CHANNEL + r'await question("<i>\u202eWhich?</i> **b**", "<b>\u200bx")' + "\n")
    nb.card(cell)
    html = next(
        m["content"]["data"]["state"]["value"]
        for m in nb.of(cell)
        if m["msg_type"] == "comm_open" and m["content"]["data"]["state"].get("_model_name") == "HTMLModel"
    )
    assert "&lt;i&gt;⟨U+202E⟩Which?&lt;/i&gt; **b**" in html
    nb.click("<b>⟨U+200B⟩x")
    nb.done(cell)
    assert nb.text(cell) == repr("<b>\u200bx")
    assert settled(nb, cell).endswith("<b>Answered: &lt;b&gt;⟨U+200B⟩x</b>")


def test_two_questions_are_asked_one_after_the_other(nb):
    both = 'await asyncio.gather(question("first", "yes"), question("second", "yes"))\n'
    cell = nb.run(CHANNEL + both)
    nb.card(cell)
    nb.click("yes")
    second = nb.until(lambda m: "second" in m["content"].get("data", {}).get("text/plain", "") and _is_card(m))
    assert nb.seen.index(second) > nb.seen.index(nb.text_of(cell, "'yes'"))
    nb.click("yes")
    nb.done(cell)
    assert nb.text(cell) == "'yes''yes'"


def _is_card(message: dict) -> bool:
    return WIDGET_VIEW in message["content"]["data"]


@pytest.mark.every_kernel
def test_an_interrupt_while_it_waits_leaves_all_well(nb):
    cell = nb.run(CHOICE)
    nb.card(cell)
    nb.interrupt()
    assert nb.done(cell)["content"]["ename"] == "TurnInterrupted"
    assert settled(nb, cell) == "<code>Which?</code> <b>Interrupted</b>"


@pytest.mark.every_kernel
def test_a_client_that_closes_our_comms_is_asked_by_input(nb):
    cell = nb.run(CHOICE)
    nb.card(cell)
    nb.close_comms()
    prompt = nb.prompt()
    assert prompt == "The agent asks:\n  Which?\n  1) SQLite\n  2) Postgres\nanswer or number: "
    nb.answer("2")
    nb.done(cell)
    assert nb.text(cell).endswith("'Postgres'")


def test_input_answers_and_an_empty_line_asks_again(nb):
    cell = nb.run(SEVERAL, cell=None)
    assert nb.prompt().endswith("answer, or numbers with commas: ")
    nb.answer("")
    nb.prompt()
    nb.answer("1,3")
    nb.done(cell)
    assert nb.text(cell).endswith(repr("a\nc"))


def test_where_no_one_can_answer_that_is_reported_at_once(nb):
    cell = nb.run(CHOICE, cell=None, allow_stdin=False)
    assert nb.done(cell)["content"]["status"] == "ok"
    assert nb.text(cell) == "No one can be asked here. Decide yourself, and say what you assumed."


@pytest.mark.usefixtures("file_is_known")
def test_in_a_cell_the_answer_goes_to_the_model_and_the_summary_line_is_what_a_replay_shows(kin, model_server):
    model_server.enqueue("I ask.", calls=[tool_call("ask_user", question="Which?", choices=["a", "b"])])
    model_server.enqueue("So be it.")
    cell = kin.run("%%kin\nDo it.")
    waiting = kin.card(cell)["content"]["data"]["text/plain"]
    assert waiting.startswith("[ask_user] Which? · waiting for your answer\n")
    kin.click("b")
    assert kin.done(cell)["content"]["status"] == "ok"
    assert model_server.requests[-1]["messages"][-1]["content"] == "b"
    live = shown(kin, cell)
    assert "[ask_user] Which? · done\n  1) a\n  2) b\n  Answer: b" in live
    again = kin.run("%kin last")
    kin.done(again)
    assert shown(kin, again) == live
