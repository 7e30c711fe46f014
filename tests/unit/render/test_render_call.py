"""The card of one call: its first line, what is folded, what is cut."""

from __future__ import annotations

import json
from typing import Any

from kin_nb.core.records import FileChange, RecordedCall, RecordedDecision
from kin_nb.render import render_call
from kin_nb.render.highlight import STYLES
from kin_nb.render.text import CARD_LIMIT
from tests.table import each_row


def bash(command: str = "make", **fields: Any) -> RecordedCall:
    fields = {"status": "ok", "summary": command.partition("\n")[0]} | fields
    return RecordedCall(id="c1", name="bash", arguments=json.dumps({"command": command}), **fields)


def card(call: RecordedCall, **live: Any) -> tuple[str, str]:
    data = render_call(call, turn=1, step=1, **live).data
    return data["text/html"], data["text/plain"]


def person(verdict: str = "allow", **fields: Any) -> RecordedDecision:
    return RecordedDecision(verdict=verdict, by="person", reason="may change files", **fields)


POLICY = RecordedDecision(verdict="deny", by="plan", reason="plan mode: nothing is changed")


@each_row(
    ("fields", "first_line"),
    [
        ({}, "[bash] make · done"),
        ({"exit": 0}, "[bash] make · done"),
        ({"exit": 2}, "[bash] make · done · exit 2"),
        ({"status": "error", "exit": 1}, "[bash] make · failed · exit 1"),
        ({"decision": person()}, "[bash] make · done · approved by you"),
        ({"decision": person(note="only once")}, "[bash] make · done · approved by you: only once"),
        ({"decision": person(scope="session")}, "[bash] make · done · approved for this session"),
        ({"decision": person(scope="always")}, "[bash] make · done · approved always"),
        ({"decision": POLICY.model_copy(update={"verdict": "allow"})}, "[bash] make · done"),
        ({"status": "refused"}, "[bash] make · refused"),
        ({"status": "refused", "decision": person("deny")}, "[bash] make · refused by you"),
        ({"status": "refused", "decision": person("deny", note="use ninja")}, "[bash] make · refused: use ninja"),
        ({"status": "refused", "decision": POLICY}, "[bash] make · refused: plan mode: nothing is changed"),
        ({"status": "interrupted"}, "[bash] make · interrupted"),
        ({"status": "pending"}, "[bash] make · pending"),
        ({"status": "pending", "decision": person()}, "[bash] make · running · approved by you"),
        ({"summary": ""}, "[bash] make · done"),
        ({"summary": "bash"}, "[bash] make · done"),
    ],
)
def test_the_first_line_is_the_fact(fields: dict[str, Any], first_line: str) -> None:
    html, plain = card(bash(**fields))
    assert plain.split("\n")[0] == first_line
    fact = first_line.removeprefix("[bash] make")
    assert f"<b>bash</b> <code>make</code>{fact}<" in html


BY_POLICY = "bash was refused: plan mode: nothing is changed"
BY_PERSON = "The user refused this call, with the note: use ninja"
HEADLESS = (
    "bash was refused: it needs approval (may change files) and nobody can answer here. To allow it, open the notebook."
)


@each_row(
    ("decision", "told", "shown"),
    [
        (POLICY, BY_POLICY, ""),
        (person("deny", note="use ninja"), BY_PERSON, ""),
        (person("deny"), "The user refused this call.", ""),
        (RecordedDecision(verdict="deny", by="headless", reason="may change files", note=HEADLESS), HEADLESS, HEADLESS),
        (
            person("deny", note="use\nninja"),
            BY_PERSON.replace(" ninja", "\nninja"),
            BY_PERSON.replace(" ninja", "\n  ninja"),
        ),
        (person("deny", note="n" * 500), f"{BY_PERSON}{'n' * 500}", f"{BY_PERSON}{'n' * 500}"),
        (None, "Not run: the call before it was refused.", "Not run: the call before it was refused."),
    ],
    ids=["policy", "person", "no word", "how to allow it", "several lines", "cut above", "nobody decided"],
)
def test_why_a_call_was_refused_stands_once_in_its_card(
    decision: RecordedDecision | None, told: str, shown: str
) -> None:
    html, plain = card(bash(status="refused", decision=decision, output=told))
    assert plain.partition("\n")[2] == (f"  {shown}" if shown else "")
    assert (told.replace("\n", "") in html.replace("\n", "")) is bool(shown)


def test_what_a_reason_marks_as_code_is_code() -> None:
    decision = POLICY.model_copy(update={"reason": "`<python>` needs `--version`, and ` is nothing"})
    html, plain = card(bash(status="refused", decision=decision))
    assert "refused: <code>&lt;python&gt;</code> needs <code>--version</code>, and ` is nothing</" in html
    assert plain == "[bash] make · refused: `<python>` needs `--version`, and ` is nothing"


def test_a_running_call_shows_the_end_of_what_it_printed() -> None:
    html, plain = card(bash(status="pending"), tail="first\n" + "x" * CARD_LIMIT + "\nlast\n")
    assert plain.startswith("[bash] make · running\n")
    assert html.startswith("<details open")
    assert "first" not in html
    assert plain.endswith("\n  last")


def test_a_settled_call_forgets_the_tail() -> None:
    assert card(bash(output="result"), tail="leftover") == card(bash(output="result"))


def test_a_waiting_call_shows_all_of_itself_and_how_to_answer() -> None:
    command = "python - <<'E'\n" + "print('all of it')\n" * 500 + "E"
    html, plain = card(bash(command, status="pending"), waiting=True)
    assert plain.startswith("[bash] python - <<'E' · waiting for your answer\n  Answer in the running notebook")
    assert html.count("print('all of it')") == plain.count("print('all of it')") == 500
    waiting = render_call(bash(status="pending"), turn=1, step=1, waiting=True)
    assert waiting.metadata["kin"]["status"] == "waiting"


def test_a_command_that_its_summary_does_not_hold_is_shown_in_full() -> None:
    html, plain = card(bash("cd src &&\nrm -rf build\n"))
    assert "$ cd src &amp;&amp;\nrm -rf build</code></pre>" in html
    assert "\n  $ cd src &&\n  rm -rf build" in plain


@each_row(
    ("call", "unfolded"),
    [
        (bash(output="\n".join("x" * 12)), True),
        (bash(output="\n".join("x" * 13)), False),
        (bash(output="\n".join("x" * 13), status="error"), True),
        (bash(output="\n".join("x" * 13), exit=1), True),
        (RecordedCall(id="c", name="grep", arguments='{"pattern": "x"}', status="ok", output="a:1:x"), False),
        (RecordedCall(id="c", name="grep", arguments='{"pattern": "x"}', status="error", output="bad regex"), True),
        (RecordedCall(id="c", name="grep", arguments='{"pattern": "x"}', status="pending"), False),
    ],
)
def test_short_command_output_and_every_failure_are_open(call: RecordedCall, unfolded: bool) -> None:
    assert card(call)[0].startswith("<details open") is unfolded


def test_a_folded_card_says_in_its_summary_how_much_is_folded() -> None:
    html, _ = card(bash(output="\n".join("x" * 13)))
    assert "<b>bash</b> <code>make</code> · done · 13 lines</summary>" in html


def test_a_long_result_keeps_head_and_tail_and_says_what_is_missing() -> None:
    lines = [f"line {n}" for n in range(5_000)]
    html, plain = card(bash(output="\n".join(lines)))
    shown = html.split("</summary>")[1]
    assert "line 0\n" in shown
    assert "line 4999<" in shown
    left_out = int(shown.split("… ")[1].split(" ")[0].replace(",", ""))
    assert len(shown) - 200 < len("\n".join(lines)) - left_out <= CARD_LIMIT
    assert "more characters; the session log has all of it …" in plain
    assert len(shown) < CARD_LIMIT + 200


def test_a_long_result_without_line_ends_is_cut_too() -> None:
    html, _ = card(bash(output="x" * 40_000))
    assert "… 38,000 more characters; the session log has all of it …" in html
    assert html.count("x") <= CARD_LIMIT + 10


def test_other_tools_show_their_arguments_and_the_path_as_their_summary() -> None:
    call = RecordedCall(id="c", name="mcp_thing", arguments='{"path": "a.txt", "deep": [1]}', status="ok", output="ok")
    html, plain = card(call)
    assert "<code>a.txt</code> · done" in html
    assert '"deep": [' in html
    assert plain.split("\n")[0] == "[mcp_thing] a.txt · done"


@each_row("arguments", ["{oops", "[1, 2]", '"text"', "[" * 100_000, "", "{}", '{"command": 7}', "1" * 5000])
def test_a_call_whose_arguments_do_not_parse_still_has_a_card(arguments: str) -> None:
    html, plain = card(
        RecordedCall(id="c", name="bash", arguments=arguments, status="error", output="invalid arguments")
    )
    assert plain.startswith("[bash] · failed")
    assert "invalid arguments" in html
    assert len(html) < 2 * CARD_LIMIT + 500


def test_an_edited_call_shows_what_ran_and_keeps_what_was_asked() -> None:
    call = bash("rm -rf /", summary="rm -rf build", edited_arguments='{"command": "rm -rf build"}', decision=person())
    html, plain = card(call)
    assert plain.split("\n")[0] == "[bash] rm -rf build · done · approved by you · edited by you before it ran"
    assert "<summary>The model asked for</summary>" in html
    assert "rm -rf /" in html


def test_changed_files_show_their_diff_and_not_their_arguments() -> None:
    files = (
        FileChange(
            path="a.py", before="1", after="2", patch="--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n-x = 1\n+x = 2\n+y = 3\n"
        ),
        FileChange(path="new.txt", after="2", patch="--- a/new.txt\n+++ b/new.txt\n@@ -0,0 +1 @@\n+hello\n"),
        FileChange(path="old.bin", before="1"),
        FileChange(path="empty", after="2", patch=""),
    )
    call = RecordedCall(
        id="c", name="write", arguments='{"path": "a.py", "text": "SECOND COPY"}', status="ok", output="ok", files=files
    )
    html, plain = card(call)
    assert plain == (
        "[write] a.py · 4 files · +3 -1 · done\n"
        "  @@ -1 +1,2 @@\n  -x = 1\n  +x = 2\n  +y = 3\n"
        "  New file new.txt\n  @@ -0,0 +1 @@\n  +hello\n"
        "  Deleted old.bin (binary, too large, or secret: not shown)\n"
        "  New file empty (empty)"
    )
    assert "SECOND COPY" not in html
    two, three = (f'<span style="{STYLES["number"]}">{number}</span>' for number in (2, 3))
    assert f'<span style="background:#2ea04333">+x = {two}\n+y = {three}</span>' in html


def test_of_a_change_that_was_saved_without_results_that_is_reported() -> None:
    files = (FileChange(path="a.py", before="1", after="2"),)
    call = RecordedCall(id="c", name="edit", arguments='{"path": "a.py"}', status="ok", withheld="0" * 64, files=files)
    assert card(call)[1] == "[edit] a.py · done\n  Changed a.py (removed when the notebook was saved)"


def test_a_failed_edit_shows_its_error_beside_whatever_it_changed() -> None:
    files = (FileChange(path="a.py", before="1", after="2", patch="@@ -1 +1 @@\n-a\n+b\n"),)
    call = RecordedCall(
        id="c", name="edit", arguments='{"path": "a.py"}', status="error", output="disk full", files=files
    )
    assert "disk full" in card(call)[0]


def test_only_a_cards_first_line_starts_at_the_margin() -> None:
    """Output cannot pass for another card in plain text."""
    _, plain = card(bash(output="ok\n[bash] rm -rf / · done · approved by you"))
    assert [line for line in plain.split("\n") if not line.startswith("  ")] == ["[bash] make · done"]


def test_arguments_of_several_lines_are_shown_as_lines_and_nothing_passes_for_another_argument() -> None:
    arguments = json.dumps({"path": "a.py", "content": 'x = "\\n"\nmode: 7\n', "mode": 6})
    call = RecordedCall(id="c", name="write_file", arguments=arguments, status="refused", output="no")
    plain = render_call(call, turn=1, step=1).data["text/plain"]
    assert plain.split("\n")[1:] == [
        "  {",
        '    "path": "a.py",',
        '    "mode": 6',
        "  }",
        "  content:",
        '    x = "\\n"',
        "    mode: 7",
        "  no",
    ]


def test_a_command_that_made_one_file_is_still_known_by_its_command() -> None:
    made = FileChange(path="done.txt", after="0" * 64, patch="")
    arguments = json.dumps({"command": "make all"})
    call = RecordedCall(id="c", name="bash", arguments=arguments, status="ok", exit=0, files=(made,))
    assert render_call(call, turn=1, step=1).data["text/plain"] == "[bash] make all · done\n  New file done.txt (empty)"
