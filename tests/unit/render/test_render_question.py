"""The card of a question: what was asked, what could be chosen, what was answered."""

from __future__ import annotations

import json

from kin_nb.core.records import RecordedCall
from kin_nb.render import render_call
from kin_nb.render.approval import question_html, question_text, run_question_html, run_question_text


def card(status: str = "ok", output: str = "", *, waiting: bool = False, **asked: object) -> dict[str, str]:
    call = RecordedCall(
        id="c1", name="ask_user", arguments=json.dumps(asked, ensure_ascii=False), status=status, output=output
    )
    return render_call(call, turn=1, step=1, waiting=waiting).data


DATABASE = {"question": "Which database?", "choices": ["SQLite", "Postgres"]}


def test_the_question_its_choices_and_the_answer_are_in_sight() -> None:
    data = card(output="Postgres", **DATABASE)
    assert data["text/plain"] == ("[ask_user] Which database? · done\n  1) SQLite\n  2) Postgres\n  Answer: Postgres")
    assert data["text/html"].startswith("<details open ")
    assert "<code>Which database?</code>" in data["text/html"]
    assert "1) SQLite\n2) Postgres" in data["text/html"]
    assert "Answer: Postgres" in data["text/html"]


def test_a_question_without_choices_is_one_line_and_the_answer() -> None:
    assert card(output="x", question="Name?")["text/plain"] == "[ask_user] Name? · done\n  Answer: x"


def test_several_lines_stay_several_lines() -> None:
    data = card(output="a\nb", question="First line\nSecond **line**", multiple=True)
    assert data["text/plain"] == (
        "[ask_user] First line ⏎ Second **line** · done\n  First line\n  Second **line**\n  Answer:\n    a\n    b"
    )
    assert "<strong>" not in data["text/html"]


def test_while_it_waits_it_says_where_to_answer() -> None:
    data = card("pending", waiting=True, **DATABASE)
    assert data["text/plain"].split("\n")[0] == "[ask_user] Which database? · waiting for your answer"
    assert "the buttons here, or in the input box." in data["text/plain"]
    assert "y or n" not in data["text/html"]
    long = "why? " * 700
    assert long.strip() in card("pending", waiting=True, question=long)["text/html"]
    assert long.strip() not in card(output="x", question=long)["text/html"]


def test_an_interrupted_question_has_no_answer() -> None:
    assert "Answer" not in card("interrupted", "interrupted", **DATABASE)["text/plain"]
    assert "No one can" in card("error", "No one can be asked here.", **DATABASE)["text/plain"]


def test_hostile_text_is_shown_literally() -> None:
    data = card(output="<i>\u202e", question="<script>\u202e\x1b[2J", choices=["<b>\u200b", 7, None])
    assert data["text/plain"].split("\n") == [
        "[ask_user] <script>⟨U+202E⟩⟨U+001B⟩[2J · done",
        "  <script>⟨U+202E⟩⟨U+001B⟩[2J",
        "  1) <b>⟨U+200B⟩",
        "  Answer: <i>⟨U+202E⟩",
    ]
    for tag in ("<script>", "<i>", "<b>⟨"):
        assert tag not in data["text/html"]
    assert "&lt;script&gt;⟨U+202E⟩" in question_html("<script>\u202e")


def test_arguments_that_ask_nothing_are_shown_as_they_are() -> None:
    for wrong in ({"question": 7}, {"question": "q", "choices": "abc"}, {}):
        data = card("error", "ask_user: invalid arguments", **wrong)
        assert "invalid arguments" in data["text/plain"]
    assert '"question": 7' in card("error", "x", question=7)["text/plain"]


def test_what_kin_nb_asks_itself_is_not_said_to_come_from_the_agent() -> None:
    assert "The agent asks: <b>Which?</b>" in question_html("Which?")
    assert question_text("Which?", ["a"]) == "The agent asks:\n  Which?\n  1) a"
    assert "agent" not in question_html("What now?", own=True)
    assert question_text("What now?", ["a"], own=True) == "What now?\n  1) a"


def test_a_question_about_code_shows_all_of_it_literally_each_piece_by_itself():
    code = ["x = '<b>\u202e'\n", *["y = 1\n" * 50]]
    html = run_question_html("Run `x`?", "it <asks>", code)
    assert "<b>Run `x`?</b><br>\nReason: it &lt;asks&gt; (<b>high risk</b>)" in html
    assert "<details open><summary>The whole code, 51 lines</summary>\nPart 1 of 2:\n<pre" in html
    assert "&lt;b&gt;⟨U+202E⟩" in html
    assert html.count("y = ") == 50
    text = run_question_text("Run `x`?", "it <asks>", code, ["Run it"])
    assert text.startswith(
        "Run `x`?\n  Reason: it <asks> (high risk)\nPart 1 of 2:\n  x = '<b>⟨U+202E⟩'\nPart 2 of 2:\n  y"
    )
    assert text.endswith("\n  y = 1\n1) Run it")


def test_one_piece_of_code_has_no_number():
    assert run_question_text("Run?", "it asks", ["x = 1"], ["Run it"]) == (
        "Run?\n  Reason: it asks (high risk)\n  x = 1\n1) Run it"
    )
    assert "Part" not in run_question_html("Run?", "it asks", ["x = 1"])
