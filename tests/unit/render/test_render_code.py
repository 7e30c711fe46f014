"""Cards that show code: what ran in the notebook, what was read from a file, quiet looks at the notebook."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kin_nb.core.records import FileChange, RecordedCall, RecordedDecision, RecordedImage
from kin_nb.render import approval_html, approval_text, render_call
from kin_nb.render.highlight import STYLES, highlighted
from tests.table import each_row

LONG = "import pandas as pd\n" + "\n".join(f"x{n} = {n}" for n in range(12))


def card(name: str, arguments: dict[str, Any], *, waiting: bool = False, **fields: Any) -> tuple[str, str]:
    call = RecordedCall(**{"id": "c", "name": name, "arguments": json.dumps(arguments), "status": "ok"} | fields)
    data = render_call(call, turn=1, step=1, waiting=waiting).data
    return data["text/html"], data["text/plain"]


def test_code_of_one_line_is_the_head_and_is_not_said_twice() -> None:
    html, plain = card("python", {"code": "df.shape\n"}, output="(3, 2)", summary="df.shape", exit=0)
    assert plain == "[python] df.shape · done\n  (3, 2)"
    assert html.startswith("<details open")
    assert html.count("df.shape") == 1


def test_longer_code_is_highlighted_under_its_first_line_and_its_bindings_end_the_card() -> None:
    html, plain = card("python", {"code": "\nx = 1\ny = x\n"}, output="1", summary="x = 1 …", bound=("x", "y"))
    assert plain.split("\n") == [
        "[python] x = 1 · done",
        "  x = 1",
        "  y = x",
        "  1",
        "  changed variables: x, y (undo does not restore variables)",
    ]
    assert f">{highlighted('x = 1', 'python')}\ny = x</code></pre>" in html
    assert "<small>changed variables: x, y (undo does not restore variables)</small>" in html
    assert html.index("1</code></pre>") < html.index("changed variables:")


def test_code_of_more_than_ten_lines_is_folded_unless_a_person_is_asked() -> None:
    html, plain = card("python", {"code": LONG})
    assert "<details><summary>The code, 13 lines</summary>" in html
    assert html.count("x11") == plain.count("x11") == 1
    asked, _ = card("python", {"code": LONG}, waiting=True, status="pending")
    assert "The code, 13 lines" not in asked
    assert "x11" in asked


def test_long_output_of_code_is_folded_although_variables_were_bound() -> None:
    long = "\n".join("x" * 13)
    assert not card("python", {"code": "f()"}, output=long, bound=("a",))[0].startswith("<details open")
    assert card("python", {"code": "f()"}, output=long, exit=1)[0].startswith("<details open")


@each_row(
    ("uncovered", "bound", "lines"),
    [
        (
            "not covered: a.db is over 2 MB",
            ("x",),
            ["changed variables: x (undo does not restore variables)", "Undo does not restore: a.db is over 2 MB"],
        ),
        ("not covered: a.db is over 2 MB", (), ["Undo does not restore: a.db is over 2 MB"]),
        (
            "variables that it had changed when it was stopped",
            (),
            ["Undo does not restore: variables that it had changed when it was stopped"],
        ),
        ("not covered: a file; variables: b", (), ["Undo does not restore: a file; variables: b"]),
        (
            "",
            tuple(f"v{n}" for n in range(33)),
            [
                f"changed variables: {', '.join(f'v{n}' for n in range(30))} and 3 more (undo does not restore variables)"
            ],
        ),
    ],
)
def test_what_undo_does_not_bring_back_is_told_apart(uncovered: str, bound: tuple[str, ...], lines: list[str]) -> None:
    _, plain = card("python", {"code": "f()"}, uncovered=uncovered, bound=bound)
    assert [line.strip() for line in plain.split("\n")[1:]] == lines


def test_a_file_that_code_wrote_is_shown_and_the_first_line_stays_the_code() -> None:
    files = (FileChange(path="a.csv", after="1", patch="@@ -0,0 +1 @@\n+1\n"),)
    _, plain = card("python", {"code": "df.to_csv('a.csv')"}, output="[no output]", files=files)
    assert plain.split("\n")[0] == "[python] df.to_csv('a.csv') · +1 -0 · done"
    assert "New file a.csv" in plain
    assert "[no output]" in plain


def test_an_edited_call_shows_the_code_that_ran_and_keeps_what_was_asked() -> None:
    html, plain = card("python", {"code": "a\nb"}, edited_arguments='{"code": "c\\nd"}')
    assert plain.startswith("[python] c · done · edited by you before it ran\n  c\n  d\n")
    assert "The model asked for" in html


@pytest.mark.parametrize("arguments", [{}, {"code": 7}, {"code": None}, {"command": "ls"}])
def test_a_call_without_code_still_has_a_card(arguments: dict[str, Any]) -> None:
    assert card("python", arguments, status="error", output="bad arguments")[1].startswith("[python]")


def test_a_tool_of_another_name_with_code_shows_its_arguments() -> None:
    assert '"code": "x = 1"' in card("mcp_python", {"code": "x = 1"})[1]


def test_the_lines_of_a_file_are_highlighted_behind_their_numbers() -> None:
    output = '     9\t"""Doc\n    10\tstring"""\n    11\tx = 1\n[lines 9-11 of 40; continue with offset=12]'
    html, plain = card("read_file", {"path": "src/a.py"}, output=output, summary="read src/a.py from line 9")
    string = f'<span style="{STYLES["string"]}">'
    doc = [f'     9\t{string}"""Doc</span>', f'    10\t{string}string"""</span>']
    assert "\n".join(doc) in html
    assert f"    11\t{highlighted('x = 1', 'py')}\n[lines 9-11 of 40; continue with offset=12]</code></pre>" in html
    assert "    11\tx = 1\n" in plain


@pytest.mark.parametrize("path", ["notes.txt", "README", 7])
def test_other_files_are_shown_as_they_are(path: object) -> None:
    html, _ = card("read_file", {"path": path}, output="     1\tif x < 1: pass")
    assert "     1\tif x &lt; 1: pass</code></pre>" in html


def test_a_file_too_long_for_a_card_keeps_its_note_and_its_colours() -> None:
    output = "\n".join(f"{number:>6}\tx = {number}" for number in range(1, 900))
    html, _ = card("read_file", {"path": "a.py"}, output=output)
    assert "more characters; the session log has all of it …\n" in html
    assert "color:#be5f1b" in html.split("session log has all of it")[1]


@pytest.mark.parametrize("name", ["variables", "notebook"])
def test_a_look_at_the_notebook_is_a_quiet_folded_block(name: str) -> None:
    html, plain = card(name, {"action": "read", "last": 3}, output="df  DataFrame  3 x 2\nn  int", summary="look")
    assert html.startswith("<details class")
    assert "· done · 2 lines</summary>" in html
    assert plain == f"[{name}] look · done\n  df  DataFrame  3 x 2\n  n  int"
    assert '"last": 3' in card(name, {"last": 3}, status="error", output="no")[1]


def test_code_that_a_person_is_asked_about_is_highlighted_and_whole() -> None:
    html = approval_html("x = 1 …", "it runs in your namespace", "x = 1\ny = 2\n", "code")
    assert "<summary>The whole code, 2 lines</summary>" in html
    assert f"{highlighted('x = 1', 'python')}\n{highlighted('y = 2', 'python')}" in html
    assert approval_text("x = 1 …", "why", "x = 1\ny = 2\n", "code").endswith("\n  x = 1\n  y = 2")


@each_row(
    ("output", "bound", "pictures", "shown"),
    [
        ("5\n[1 picture with this result]\n[new or changed: totals]", ("totals",), 1, "5"),
        ("[2 pictures with this result]", (), 2, ""),
        ("[new or changed: a, b]\nprinted last", ("a", "b"), 0, "[new or changed: a, b]\nprinted last"),
        ("5\n[new or changed: a]\n[deleted: b]", ("a", "b"), 0, "5\n[new or changed: a]\n[deleted: b]"),
        ("printed:\n[new or changed: a]", (), 0, "printed:\n[new or changed: a]"),
        ("printed:\n[1 picture with this result]", (), 0, "printed:\n[1 picture with this result]"),
    ],
)
def test_what_the_person_sees_anyway_is_not_told_them_as_the_model_is_shown(
    output: str, bound: tuple[str, ...], pictures: int, shown: str
) -> None:
    images = (RecordedImage(media_type="image/png", data=""),) * pictures
    html, plain = card("python", {"code": "f()"}, output=output, summary="f()", exit=0, bound=bound, images=images)
    lines = [line for line in plain.split("\n")[1:] if not line.startswith("  changed variables: ")]
    assert lines == [f"  {line}" for line in shown.split("\n") if line]
    assert ("with this result" in html) == ("with this result" in shown)


def test_a_call_that_was_run_once_for_two_is_said_to_bind_once() -> None:
    decision = RecordedDecision(verdict="allow", by="identical", reason="the same call as c1: run once")
    _, plain = card(
        "python", {"code": "x = 1"}, output="[no output]\n[new or changed: x]", bound=("x",), decision=decision
    )
    assert plain.endswith("\n  [no output]")
