"""The todo list as a checklist: what was written, what was read, what is no list."""

from __future__ import annotations

import json
from typing import Any

from kin_nb.core.records import RecordedCall
from kin_nb.core.tools.builtins.todo import Todo as TodoTool
from kin_nb.core.tools.builtins.todo import TodoItem, TodoResult
from kin_nb.render import render_call
from tests.table import each_row

TODOS = [
    {"id": "1", "content": "Read the code", "status": "completed"},
    {"id": "2", "content": "Find <it>", "status": "done"},
    {"id": "3", "content": "Mend it", "status": "In-Progress", "priority": "high"},
    {"id": 4, "content": "Write a test"},
    {"id": "5", "content": "Rename", "status": "cancelled"},
]


def card(status: str = "ok", output: str = "", *, waiting: bool = False, **arguments: Any) -> dict[str, str]:
    call = RecordedCall(
        id="c", name="todo", arguments=json.dumps(arguments), status=status, output=output, summary="todo list"
    )
    return render_call(call, turn=1, step=1, waiting=waiting).data


def test_a_list_that_was_written_is_a_checklist_under_its_count() -> None:
    data = card(output="5 todos: 2 completed", action="write", todos=TODOS)
    assert data["text/plain"].split("\n") == [
        "[todo] · 2 of 5 done · in progress: Mend it",
        "  [x] Read the code",
        "  [x] Find <it>",
        "  [~] Mend it (high priority)",
        "  [ ] Write a test",
        "  [-] Rename",
    ]
    assert data["text/html"].startswith("<details open ")
    assert "<b>todo</b> · 2 of 5 done · in progress: Mend it</summary>" in data["text/html"]
    assert (
        "<li><samp>[x]</samp> Find &lt;it&gt;</li>\n<li><samp>[~]</samp> Mend it (high priority)</li>"
        in data["text/html"]
    )


def test_a_list_that_was_read_is_the_same_checklist() -> None:
    items = [TodoItem.model_validate(todo) for todo in TODOS]
    told = TodoTool.to_model(None, TodoResult(message="", todos=items, total_count=5))  # type: ignore[arg-type]
    assert card(output=told, action="read") == card(action="write", todos=TODOS)


def test_a_long_list_is_folded_and_its_count_stays() -> None:
    html = card(action="write", todos=[{"id": n, "content": f"item {n}"} for n in range(13)])["text/html"]
    assert html.startswith("<details class")
    assert "0 of 13 done</summary>" in html
    assert html.count("<li><samp>[ ]</samp> item") == 13


def test_what_became_of_the_call_is_reported_unless_it_went_well() -> None:
    head = card("interrupted", "interrupted", action="write", todos=TODOS[:1])["text/plain"].split("\n")[0]
    assert head == "[todo] · 1 of 1 done · interrupted"
    waiting = card("pending", waiting=True, action="write", todos=TODOS[:1])["text/plain"]
    assert waiting.startswith("[todo] · 1 of 1 done · waiting for your answer\n  Answer in the running notebook")


@each_row(
    ("status", "output", "arguments"),
    [
        ("error", "Todo ids must be unique", {"action": "write", "todos": TODOS}),
        ("refused", "no", {"action": "write", "todos": TODOS}),
        ("ok", "0 todos", {"action": "write", "todos": []}),
        ("ok", "0 todos", {"action": "read"}),
        ("ok", "1 todo\na line of another version", {"action": "read"}),
        ("ok", "x", {"action": "write", "todos": [{"content": "no id"}]}),
        ("ok", "x", {"action": "write", "todos": "abc"}),
        ("ok", "x", {"action": 7}),
    ],
)
def test_what_holds_no_list_is_an_ordinary_card(status: str, output: str, arguments: dict[str, Any]) -> None:
    data = card(status, output, **arguments)
    assert data["text/plain"].startswith("[todo] todo list · ")
    assert all(line in data["text/plain"] for line in output.split("\n"))


def test_an_item_of_many_lines_is_one_line() -> None:
    todos = [{"id": 1, "content": "a\n[x] forged\u202e" + "z" * 1_000, "status": "in_progress"}]
    lines = card(action="write", todos=todos)["text/plain"].split("\n")
    assert len(lines) == 2
    assert lines[1].startswith("  [~] a ⏎ [x] forged⟨U+202E⟩z")
    assert len(lines[1]) < 420


def test_a_result_made_to_be_slow_is_not() -> None:
    data = card(output="1 todo\n" + "1. (pending " * 3_000, action="read")
    assert data["text/plain"].startswith("[todo] todo list")
