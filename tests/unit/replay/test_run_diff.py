"""Two runs compared: which turns stand side by side, what counts as the same, and what a terminal and a program get."""

from __future__ import annotations

import json
from dataclasses import replace

import nbformat
import pytest

from kin_nb.cli import main
from kin_nb.core.records import ClearRecord, FileChange, RecordedCall, RecordedStep, TurnRecord
from kin_nb.core.session.log import SessionLog
from kin_nb.render.terminal import columns, fit, pad
from kin_nb.replay.recording import Recording
from kin_nb.replay.run_diff import RunDiff, RunLabel, compare_runs, diff_json, diff_text
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.writing import write_notebook
from tests.notebook.people import QUICKSTART
from tests.table import each_row
from tests.unit.replay.sessions import busy_turn, recording, turn, undo


def call(name: str = "bash", *, status: str = "ok", files: tuple[FileChange, ...] = (), ended=None, **arguments):
    text = json.dumps(arguments or {"command": "make"})
    return RecordedCall(id="c", name=name, arguments=text, status=status, files=files, exit=ended)


def change(path: str = "a.py", after: str | None = "2" * 64, patch: str | None = "@@ -1 +1 @@\n-x\n+y\n", **modes):
    return FileChange(path=path, before="1" * 64, after=after, patch=patch, **modes)


def working(*calls: RecordedCall, number: int = 1, prompt: str = "go", **fields) -> TurnRecord:
    return turn(number, prompt, steps=(RecordedStep(content="Done.", calls=calls),), **fields)


def marks(found: RunDiff) -> list[tuple[str, str]]:
    return [(each.mark, each.name) for turn in found.turns for each in turn.calls]


def numbers(found: RunDiff) -> list[tuple[int | None, int | None]]:
    return [(each.a and each.a.turn, each.b and each.b.turn) for each in found.turns]


def prompts(*words: str) -> Recording:
    return recording(*(turn(n, word) for n, word in enumerate(words, 1)))


def text(a: Recording, b: Recording, width: int = 80) -> str:
    return diff_text(RunLabel.of("a.ipynb", a), RunLabel.of("b.ipynb", b), compare_runs(a, b), width)


@each_row(
    ("a", "b", "pairs"),
    [
        ("x y z", "x y z", [(1, 1), (2, 2), (3, 3)]),
        ("x y z", "x z", [(1, 1), (2, None), (3, 2)]),
        ("x z", "x y z", [(1, 1), (None, 2), (2, 3)]),
        ("x y z", "x w z", [(1, 1), (2, 2), (3, 3)]),
        ("x", "x y z", [(1, 1), (None, 2), (None, 3)]),
        ("v w z", "x z", [(1, 1), (2, None), (3, 2)]),
        ("x x", "x", [(1, 1), (2, None)]),
    ],
)
def test_turns_are_paired_by_prompt_and_else_by_position(a, b, pairs):
    assert numbers(compare_runs(prompts(*a.split()), prompts(*b.split()))) == pairs


def test_a_prompt_is_the_same_with_other_options_since_they_may_name_the_model():
    one, other = (recording(turn(1, "go", options=f"--model {model}")) for model in ("m1", "m2"))
    assert one.turns[0].key != other.turns[0].key
    assert compare_runs(one, other).same


def test_calls_are_marked_as_in_a_diff():
    ours = recording(working(call("grep", pattern="x"), call(command="make"), call("todo")))
    theirs = recording(working(call(command="make"), call("todo"), call("read_file", path="a")))
    assert marks(compare_runs(ours, theirs)) == [("-", "grep"), ("=", "bash"), ("=", "todo"), ("+", "read_file")]


def test_a_call_that_ended_otherwise_is_another_one():
    ours, theirs = recording(working(call(ended=0))), recording(working(call(ended=1)))
    assert marks(compare_runs(ours, theirs)) == [("-", "bash"), ("+", "bash")]


def test_a_call_that_reads_the_same_with_other_arguments_is_not_the_same():
    ours = recording(working(call("edit_file", path="a.py", old_string="x")))
    theirs = recording(working(call("edit_file", path="a.py", old_string="y")))
    found = compare_runs(ours, theirs)
    assert marks(found) == [("~", "edit_file")]
    assert not found.same


def test_arguments_are_the_same_however_their_json_is_written():
    ours, theirs = (call("tool").model_copy(update={"arguments": t}) for t in ('{"a":1,"b":2}', '{"b": 2, "a": 1}'))
    assert compare_runs(recording(working(ours)), recording(working(theirs))).same


def test_arguments_that_are_no_json_are_compared_as_text():
    ours, theirs = (call("tool").model_copy(update={"arguments": t}) for t in ("[" * 100_000, "{"))
    assert [mark for mark, _ in marks(compare_runs(recording(working(ours)), recording(working(theirs))))] == ["~"]


def test_files_are_the_same_when_they_came_out_the_same_however_many_calls_it_took():
    once = recording(working(call("edit_file", files=(change(),))))
    twice = recording(working(call("edit_file", files=(change(after="3" * 64),)), call("edit_file", files=(change(),))))
    (file,) = compare_runs(once, twice).turns[0].files
    assert file.same
    assert (file.a.added, file.a.removed, file.b.added, file.b.removed) == (1, 1, 2, 2)


@each_row(
    ("ours", "theirs", "same"),
    [
        (change(), change(after="3" * 64), False),
        (change(), change(after=None), False),
        (change(after=None), change(after=None), True),
        (change(after_mode="100644"), change(after_mode="100755"), False),
        (change(after_mode="100755"), change(), True),
    ],
)
def test_a_file_is_shown_by_its_hash_and_by_its_mode_where_both_records_have_it(ours, theirs, same):
    found = compare_runs(recording(working(call(files=(ours,)))), recording(working(call(files=(theirs,)))))
    assert (found.turns[0].files[0].same, found.same) == (same, same)


def test_a_file_of_one_run_alone_differs():
    found = compare_runs(recording(working(call(files=(change(),)))), recording(working(call())))
    assert (found.turns[0].files[0].b, found.same) == (None, False)


def test_lines_are_unknown_where_the_record_has_no_text():
    ours = recording(working(call(files=(change(patch=None),))))
    assert compare_runs(ours, ours).turns[0].files[0].a.added is None
    assert "file  a.py · A no text recorded, B no text recorded · the same" in text(ours, ours)


def test_models_replies_tokens_cost_and_time_may_differ():
    step = RecordedStep(content="Otherwise.", prompt_tokens=5, completion_tokens=7, milliseconds=9)
    other = turn(1, "go", steps=(step,), cost="0.5", milliseconds=99).model_copy(update={"model": "n"})
    found = compare_runs(recording(turn(1, "go")), recording(other))
    assert found.same
    assert (found.total_b.prompt_tokens, found.total_b.completion_tokens, found.total_b.cost) == (5, 7, "0.5")


def test_an_outcome_that_differs_counts():
    assert not compare_runs(recording(turn(1, "go")), recording(turn(1, "go", outcome="stopped"))).same


def test_a_turn_that_one_run_undid_differs():
    kept = prompts("x", "y")
    taken = undo(kept.turns[1], to=kept.turns[0])
    undone = replace(kept, records=(*kept.records, taken))
    found = compare_runs(kept, undone)
    assert [each.same for each in found.turns] == [True, False]
    assert "done, undone" in text(kept, undone)
    back = {"type": "redo", "id": "c" * 16, "seq": 4, "parent": taken.head, "head": taken.parent}
    redo = taken.model_copy(update=back)
    assert compare_runs(kept, replace(undone, records=(*undone.records, redo))).same


def test_a_turn_that_was_cleared_was_not_undone():
    kept = prompts("x", "y")
    clear = ClearRecord(id="c" * 16, parent=kept.turns[1].head, seq=3)
    assert compare_runs(kept, replace(kept, records=(*kept.records, clear))).same


@each_row(
    ("costs", "total"),
    [(("0.1", "0.2"), "0.3"), (("0.0000001", "0"), "0.0000001"), (("0.1", ""), ""), (("NaN",), ""), (("1e99999",), "")],
)
def test_costs_add_up_exactly_and_are_unknown_when_one_is(costs, total):
    run = recording(*(turn(n, str(n), cost=cost) for n, cost in enumerate(costs, 1)))
    assert compare_runs(run, run).total_a.cost == total


def test_two_empty_sessions_are_the_same():
    assert compare_runs(recording(), recording()).same
    assert text(recording(), recording()).endswith("The same in turns, calls and files.")


def test_the_text_says_what_only_one_run_has():
    said = text(prompts("x", "y"), prompts("x"))
    assert "turn 2, only in A (differs): y" in said
    assert "no such turn" in said
    assert said.endswith("1 turn of 2 differs.")
    assert "turn 2, only in B (differs): y" in text(prompts("x"), prompts("x", "y"))


def test_the_text_shows_both_prompts_where_they_differ():
    said = text(prompts("one"), prompts("other")).splitlines()
    assert said[3:6] == ["turn 1 (differs), another prompt", "  - one", "  + other"]


def test_the_text_names_turns_that_have_other_numbers():
    assert "turn 3 of A, turn 2 of B: z" in text(prompts("x", "y", "z"), prompts("x", "z"))


@pytest.mark.parametrize("width", [0, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal_in_columns(width):
    wide = "表計算の結果を直してください" * 10
    busy = busy_turn().model_copy(update={"prompt": wide, "model": wide})
    long = working(
        call(command=wide, ended=2), call("x" * 300), call(files=(change(path=wide),)), number=2, prompt=wide
    )
    said = text(recording(busy, long), recording(busy, turn(2, "e\u0301" * 300)), width)
    assert max(map(columns, said.splitlines())) <= max(width, 40)
    assert "· done, exit 2" in said, "how a call ended is never cut"


def test_hostile_text_reaches_the_terminal_with_its_controls_in_sight():
    said = text(recording(working(call(command="\x1b]0;x\x07rm\u202e"), prompt="a\x1b[31m\nb")), recording())
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert "⟨U+001B⟩" in said


def test_the_document_has_all_of_it():
    ours, theirs = recording(busy_turn()), prompts("x", "half a pair: \ud83d")
    document = json.loads(diff_json(RunLabel.of("a", ours), RunLabel.of("b", theirs), compare_runs(ours, theirs)))
    assert (document["a"]["recording"], document["a"]["model"], document["same"]) == (ours.name, "m", False)
    first, second = document["turns"]
    assert (first["same"], first["a"]["turn"], second["a"], second["b"]["turn"]) == (False, 1, None, 2)
    assert [each["mark"] for each in first["calls"]] == ["-", "-"]
    assert document["totals"]["a"]["calls"] == 2


def test_wide_and_combining_characters_are_counted_as_terminals_do():
    assert [columns(each) for each in ("ab", "表", "e\u0301", "")] == [2, 2, 1, 0]
    assert (fit("表表表", 5), fit("abc", 2), fit("abc", 3)) == ("表表…", "a…", "abc")
    assert (pad("表", 4), pad("表表", 2)) == ("表  ", "… ")


@pytest.fixture
def kin(monkeypatch, tmp_path, capsys):
    """`kin-nb ARGV...` in a folder of its own: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "70")

    def run(*argv: str) -> tuple[int, str, str]:
        try:
            code = main(list(argv))
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return run


def test_the_command_compares_notebooks_and_says_so_in_its_exit_code(kin, tmp_path):
    write_notebook(session_notebook(prompts("x")), tmp_path / "x.ipynb")
    code, out, err = kin("diff", str(QUICKSTART), str(QUICKSTART))
    assert (code, err) == (0, "")
    assert max(map(columns, out.splitlines())) <= 70
    code, out, err = kin("diff", str(QUICKSTART), "x.ipynb", "--output", "json")
    assert (code, err) == (3, "")
    assert json.loads(out)["same"] is False


def test_the_command_says_which_of_the_two_it_cannot_read(kin, tmp_path):
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "none.ipynb")
    code, out, err = kin("diff", str(QUICKSTART), "none.ipynb")
    assert (code, out) == (1, "")
    assert err.startswith("none.ipynb: This notebook has no")
    assert kin("diff", str(QUICKSTART), "gone")[::2] == (1, f"No session gone in {tmp_path / 'home' / 'sessions'}.\n")
    assert kin("diff", str(QUICKSTART))[0] == 2


def test_the_command_compares_a_session_of_the_log(kin, tmp_path):
    log = SessionLog("abc-1")
    header = {"format": 1, "model": "m", "commit": None, "system_prompt": "b" * 64, "tools": "c" * 64}
    log.append("session", **header, session="abc-1", workspace=str(tmp_path))
    log.append("turn", record=turn(1, "x").model_dump(mode="json"))
    log.close()
    write_notebook(session_notebook(prompts("x", "y")), tmp_path / "x.ipynb")
    code, out, err = kin("diff", "abc-", "x.ipynb")
    assert (code, err) == (3, "")
    assert "turn 1: x\n" in out, "the turn of the log has its outcome, calls and files"
    assert "turn 2, only in B (differs): y" in out
