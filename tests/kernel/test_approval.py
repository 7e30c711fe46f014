"""Asking a person in a blocked cell, on real kernels."""

from __future__ import annotations

import pytest
from notebook_client import says_where_to_answer

pytestmark = [pytest.mark.kernel, pytest.mark.every_kernel]

ASK = '%%agent\nd = await ask("rm -rf build")\nio.stream(f"{d.approved} {d.scope} {d.message} {d.by}")\n'


def test_approve_lets_the_call_run(nb):
    cell = nb.run(ASK)
    nb.card(cell)
    nb.click("Approve")
    assert nb.done(cell)["content"]["status"] == "ok"
    assert nb.text(cell) == "True once None person"


def test_reject_takes_the_note_to_the_agent_whole(nb):
    cell = nb.run(ASK)
    nb.card(cell)
    nb.type_note("keep the build, " * 20 + "please")
    nb.click("Reject")
    nb.done(cell)
    assert nb.text(cell) == f"False once {'keep the build, ' * 20}please person"


GRANT = '%%agent\nd = await ask("rm -rf build")\nio.stream(f"{d.approved} {d.scope} {d.grant} {d.message}")\n'


@pytest.mark.parametrize(
    ("label", "decision", "line"),
    [
        ("Approve for this session: commands that start with `rm`", "session 0", "for this session: commands that"),
        ("Approve for this session: exactly this command", "session 1", "for this session: exactly this command"),
        ("Always: commands that start with `rm`", "always 0", "always: commands that start with `rm`"),
    ],
)
def test_a_button_says_what_it_covers_and_the_settled_card_says_it_too(nb, label, decision, line):
    cell = nb.run(GRANT)
    nb.card(cell)
    nb.type_note("go on")
    nb.click(label)
    nb.done(cell)
    assert nb.text(cell) == f"True {decision} go on"
    assert f"<b>Approved {line}" in lines_of_the_card(nb, cell)[-1]


def test_the_choices_stand_between_approve_and_reject_and_only_a_rule_offers_always(nb):
    cell = nb.run(GRANT)
    nb.card(cell)
    before = [m["content"]["data"]["state"] for m in nb.of(cell) if m["msg_type"] == "comm_open"]
    labels = [state["description"] for state in before if state["_model_name"] == "ButtonModel"]
    assert labels == [
        "Approve",
        "Approve for this session: commands that start with `rm`",
        "Approve for this session: exactly this command",
        "Always: commands that start with `rm`",
        "Reject",
    ]
    nb.click("Reject")
    nb.done(cell)


def lines_of_the_card(nb, cell):
    html = nb.widget(_model_name="HTMLModel")
    return [
        m["content"]["data"]["state"]["value"]
        for m in nb.of(cell)
        if m["msg_type"] == "comm_msg"
        and m["content"]["comm_id"] == html
        and "value" in m["content"]["data"].get("state", {})
    ]


def test_the_card_stands_in_the_calls_own_display_beside_its_static_text(nb):
    cell = nb.run(ASK)
    card = nb.card(cell)
    shown = [m for m in nb.of(cell) if m["msg_type"] == "display_data"]
    assert card["msg_type"] == "update_display_data"
    assert [m["content"]["transient"] for m in shown] == [card["content"]["transient"]]
    assert card["content"]["data"]["text/plain"] == "waiting: rm -rf build"
    nb.click("Reject")
    nb.done(cell)


def test_a_settled_card_keeps_one_line_and_closes_its_controls(nb):
    cell = nb.run(ASK)
    nb.card(cell)
    html, controls = nb.widget(_model_name="HTMLModel"), [nb.widget(description=d) for d in ("Approve", "Reject")]
    note = nb.widget(_model_name="TextModel")
    nb.click("Reject")
    nb.done(cell)
    closed = {m["content"]["comm_id"] for m in nb.of(cell) if m["msg_type"] == "comm_close"}
    assert {*controls, note} <= closed
    assert html not in closed
    assert lines_of_the_card(nb, cell)[-1] == "<b>Rejected</b> <code>rm -rf build</code>"


def test_a_client_that_closes_our_comms_is_asked_by_input(nb):
    cell = nb.run(ASK)
    nb.card(cell)
    nb.close_comms()
    assert "rm -rf build" in nb.prompt()
    nb.answer("y")
    nb.done(cell)
    assert nb.text(cell).endswith("True once None person")


LATE = """%%agent
from ipywidgets import Button
late, go = [await submit_main(lambda n=n: Button(description=n)) for n in ("late", "go")]
loop, started, told = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
run.subscribe(go.model_id, lambda m: loop.call_soon_threadsafe(started.set))
io.stream("ready ")
await started.wait()
run.subscribe(late.model_id, lambda m: loop.call_soon_threadsafe(told.set))
await asyncio.wait_for(told.wait(), 5)
io.stream("told")
"""


def test_a_comm_closed_before_anybody_listened_is_not_missed(nb):
    cell = nb.run(LATE)
    nb.text_of(cell, "ready")
    nb.close_comm(nb.widget(description="late"))
    nb.click("go")
    nb.done(cell)
    assert nb.text(cell) == "ready told"


def test_without_widgets_and_without_input_it_is_refused(nb):
    cell = nb.run(ASK, allow_stdin=False)
    nb.card(cell)
    nb.close_comms()
    nb.done(cell)
    assert nb.text(cell).startswith("False once bash was not run: it deletes files.")


def test_a_second_client_without_widgets_takes_nothing_from_the_first(nb):
    cell = nb.run(ASK)
    nb.card(cell)
    with nb.second_client() as other:
        other.seen = list(nb.seen)
        for closing in other.close_comms():
            nb.idle_after(closing)
    nb.click("Approve")
    nb.done(cell)
    assert nb.text(cell) == "True once None person"


def test_a_click_of_another_client_decides_nothing_and_the_card_says_so(nb):
    cell = nb.run(ASK)
    nb.card(cell)
    with nb.second_client() as other:
        other.seen = list(nb.seen)
        other.type_note("rather do this")
        other.click("Approve")
        other.click("Reject")
        nb.until(says_where_to_answer)
    assert all(message["msg_type"] != "comm_close" for message in nb.of(cell))
    nb.click("Approve")
    nb.done(cell)
    assert nb.text(cell) == "True once None person"  # and without the note that the other client typed
    assert lines_of_the_card(nb, cell)[-1] == "<b>Approved</b> <code>rm -rf build</code>"


def test_where_only_another_client_is_left_interrupting_ends_the_cell(nb):
    """As after a page is reloaded: it has another session then."""
    cell = nb.run(ASK)
    nb.card(cell)
    with nb.second_client() as page:
        page.seen = list(nb.seen)
        page.click("Approve")
        nb.until(says_where_to_answer)
        nb.interrupt()
        assert nb.done(cell)["content"]["status"] == "error"
        again = page.run(ASK)
        page.card(again)
        page.click("Approve")
        page.done(again)
    assert page.text(again) == "True once None person"


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        ("y", "True once None person"),
        ("n", "False once None person"),
        ("", "False once None person"),
        ("s", "True session None person"),
        ("use git clean instead", "False once use git clean instead person"),
    ],
)
def test_input_answers(nb, typed, decision):
    cell = nb.run(ASK, cell=None)
    prompt = nb.prompt()
    assert "rm -rf build" in prompt
    assert "it deletes files" in prompt
    assert "commands that start with `rm`" in prompt
    nb.answer(typed)
    nb.done(cell)
    assert nb.text(cell).endswith(decision)


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        ("s", "True session 0 None"),
        ("S1", "True session 0 None"),
        ("s2", "True session 1 None"),
        ("a", "True always 0 None"),
        ("always", "True always 0 None"),
        ("a2", "False once 0 a2"),
    ],
)
def test_input_takes_the_letters_that_the_prompt_names(nb, typed, decision):
    cell = nb.run(GRANT, cell=None)
    assert nb.prompt().endswith(
        "\ny = allow\n"
        "s = allow for this session: commands that start with `rm`\n"
        "s2 = allow for this session: exactly this command\n"
        "a = allow always: commands that start with `rm`\n"
        "n = refuse, other text = refuse and tell the agent: "
    )
    nb.answer(typed)
    nb.done(cell)
    assert nb.text(cell).endswith(decision)


def test_headless_is_refused_at_once_and_says_how_to_allow_it(nb):
    cell = nb.run(ASK, cell=None, allow_stdin=False)
    assert nb.done(cell)["content"]["status"] == "ok"
    text = nb.text(cell)
    assert text.startswith("False once bash was not run: it deletes files.\nNo one can approve it here.")
    assert "JupyterLab" in text
    assert "--mode auto-approve" not in text
    assert "--approve recorded" not in text
    assert text.endswith(" headless")


@pytest.fixture
def kin_approval(kernel):
    nb = kernel()

    def set_to(value: str) -> None:
        nb.done(nb.run(f"import os; os.environ['KIN_APPROVAL'] = {value!r}"))

    yield set_to
    nb.done(nb.run("del os.environ['KIN_APPROVAL']"))


def test_kin_approval_overrides_what_the_client_could_do(kernel, kin_approval):
    nb = kernel()
    kin_approval("headless")
    cell = nb.run(ASK)
    nb.done(cell)
    assert nb.text(cell).endswith(" headless")


def test_a_kin_approval_of_no_known_kind_is_an_error_that_lists_them(kernel, kin_approval):
    nb = kernel()
    kin_approval("carrier-pigeon")
    reply = nb.done(nb.run(ASK))
    known = 'KIN_APPROVAL must be widget, stdin, headless; got "carrier-pigeon".'
    assert reply["content"]["evalue"] == known


def test_two_cards_wait_at_once_and_each_answer_goes_to_its_own_call(nb):
    cell = nb.run(
        '%%agent\na, b = asyncio.create_task(ask("first")), asyncio.create_task(ask("second"))\n'
        'io.stream(f"{(await a).approved} {(await b).approved}")\n'
    )
    nb.until(lambda m: m["msg_type"] == "update_display_data" and "second" in m["content"]["data"]["text/plain"])
    first, second = nb.widgets(description="Approve")[0], nb.widgets(description="Reject")[1]
    nb.comm_msg(second, {"method": "custom", "content": {"event": "click"}})
    nb.comm_msg(first, {"method": "custom", "content": {"event": "click"}})
    nb.done(cell)
    assert nb.text(cell) == "True False"
