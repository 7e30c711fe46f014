"""Calibrating: the lines that come out otherwise on every run, found by running a notebook twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kin_nb.core.session.records import RecordedCall, RecordedDecision, RecordedStep, sha256
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.loading import as_node, load_notebook
from kin_nb.replay.playback.shipped import examples_folder
from kin_nb.replay.recording import step_sha, turn_sha
from kin_nb.replay.rerun.calls_file import CameOut, read_calls, write_calls
from kin_nb.replay.rerun.drift import compare_call
from kin_nb.replay.runner.calibrating import MOST_LINES, Judged, calibrated, judge
from kin_nb.replay.runner.one import replay_notebook
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.saving.making import session_notebook
from kin_nb.replay.saving.writing import write_notebook
from tests.unit.replay.sessions import busy_turn, recording, turn

YES = RecordedDecision(verdict="allow", by="person", reason="asked")


def bash(output: str, command: str = "make", **fields: Any) -> RecordedCall:
    fields = {"id": "c1", "decision": YES, "status": "ok", "exit": 0, **fields}
    return RecordedCall(name="bash", arguments=json.dumps({"command": command}), output=output, **fields)


def after(recorded: RecordedCall, *outputs: str, after_drift: bool = False, **fields: Any) -> Judged:
    calls = [recorded.model_copy(update={"output": output, **fields}) for output in outputs]
    return judge(recorded, [CameOut(call, compare_call(recorded, call)) for call in calls], after_drift=after_drift)


def test_a_line_that_differs_between_the_runs_may_vary():
    judged = after(bash("at 1\nok"), "at 2\nok", "at 3\nok")
    assert (judged.call.varies, judged.says, judged.spoils) == ((1,), "line 1 may vary", False)
    assert compare_call(judged.call, bash("at 4\nok")).kind == "equivalent"
    assert compare_call(judged.call, bash("at 4\nno")).kind == "text"


def test_a_line_that_differs_in_one_run_alone_may_vary():
    assert after(bash("a\n1\nb\n1"), "a\n1\nb\n1", "a\n2\nb\n3").call.varies == (2, 4)


def test_a_line_that_only_the_recording_has_otherwise_may_vary_and_is_pointed_out():
    judged = after(bash("1\na\n1"), "2\na\n8", "3\na\n8")
    assert judged.call.varies == (1, 3)
    assert judged.says == ("lines 1, 3 may vary; 3 not from run to run, only since it was recorded: is that no drift?")


def test_what_the_rules_cover_need_not_vary():
    recorded = bash("1\n2 passed in 0.1s", "date; pytest -q")
    judged = after(recorded, "2\n2 passed in 0.2s", "3\n2 passed in 0.3s")
    assert judged.call.varies == (1,)
    assert compare_call(judged.call, recorded.model_copy(update={"output": "4\n3 passed in 0.1s"})).kind == "text"


def test_a_call_that_came_out_as_recorded_stays_as_it_was():
    recorded = bash("a\n2 passed in 0.1s", "pytest -q")
    assert after(recorded, "a\n2 passed in 0.2s", "a\n2 passed in 0.1s") == Judged(recorded)


def test_what_was_calibrated_before_stays():
    judged = after(bash("1\n1\nb", varies=(1,)), "1\n2\nb", "1\n3\nb")
    assert (judged.call.varies, judged.says) == ((1, 2), "line 2 may vary")
    recorded = bash("1\nb", varies=(1,))
    assert after(recorded, "2\nb", "3\nb") == Judged(recorded)


LEFT = {
    "another number of lines": (bash("a"), ("a\nb", "a"), {}, "it had 1 lines, and now 2", False),
    "another exit code": (bash("a"), ("b", "b"), {"exit": 1}, "effect drift: exit code: recorded 0, now 1", True),
    "a refusal": (bash("a"), ("b", "b"), {"status": "refused"}, "refused drift: recorded as ok, now refused", True),
    "a result that is not stored": (bash("", withheld=sha256("a")), ("b", "c"), {}, "its result is not stored", False),
    "too many lines": (
        bash("a\n" * (MOST_LINES + 1)),
        ("b\n" * (MOST_LINES + 1), "c\n" * (MOST_LINES + 1)),
        {},
        f"{MOST_LINES + 1} lines differ, and {MOST_LINES} may",
        False,
    ),
}


@pytest.mark.parametrize("what", LEFT)
def test_what_is_not_calibrated_is_said(what):
    recorded, outputs, fields, says, spoils = LEFT[what]
    judged = after(recorded, *outputs, **fields)
    assert judged.call == recorded
    assert judged.says.startswith(says)
    assert judged.spoils is spoils


def test_after_another_effect_no_text_is_calibrated():
    recorded = bash("a")
    judged = after(recorded, "b", "c", after_drift=True)
    assert (judged.call, judged.says) == (recorded, "a call before it drifted: mend that first")


def test_a_call_that_one_run_did_not_come_to_is_not_calibrated():
    recorded = bash("a")
    came = CameOut(bash("b"), compare_call(recorded, bash("b")))
    assert judge(recorded, [came, None]) == Judged(recorded, "it did not run", spoils=True)


def test_what_calls_came_to_is_read_as_it_was_written(tmp_path):
    file = tmp_path / "calls.jsonl"
    assert read_calls(file) == {}
    came = [CameOut(call, compare_call(call, call)) for call in (*busy_turn().calls, bash("half a pair: \ud83d"))]
    write_calls(file, 1, came)
    write_calls(file, 2, [None, came[0]])
    assert read_calls(file) == {1: tuple(came), 2: (None, came[0])}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"turn": "x", "calls": []}',
        '{"turn": 1, "calls": 1}',
        '{"turn": 1, "calls": [{}]}',
        "\xff",
        "[" * 9999,
    ],
)
def test_a_file_that_something_else_wrote_to_is_an_error(tmp_path, text):
    file = tmp_path / "calls.jsonl"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(ReplayError, match=r"calls\.jsonl is not as the run wrote it"):
        read_calls(file)


def test_a_folder_that_is_gone_is_an_error(tmp_path):
    with pytest.raises(ReplayError, match="cannot be written"):
        write_calls(tmp_path / "gone" / "calls.jsonl", 1, [])


def test_lines_that_vary_change_hashes_only_where_there_are_some():
    plain, varying = bash("a"), bash("a", varies=(1,))
    steps = [RecordedStep(calls=(call,)) for call in (plain, varying)]
    assert "varies" not in plain.model_dump(exclude_defaults=True)
    assert step_sha(steps[0]) != step_sha(steps[1])
    assert turn_sha(turn(1, "a", steps=(steps[0],))) != turn_sha(turn(1, "a", steps=(steps[1],)))


@pytest.fixture
def save(tmp_path):
    """Writes a session notebook with these calls, each in a step of its own, and an empty workspace beside it."""
    (tmp_path / "work").mkdir()

    def save(*calls: RecordedCall) -> Path:
        steps = [RecordedStep(fingerprint="f", content="I look.", calls=(call,)) for call in calls]
        asked = turn(1, "look", steps=(*steps, RecordedStep(fingerprint="f", content="Done.")))
        nb = session_notebook(recording(asked, workspace={"path": "work"}))
        return write_notebook(nb, tmp_path / "talk.ipynb")

    return save


TOOLS = ReplayOptions(tools=True, approve_recorded=True)


@pytest.mark.long
@pytest.mark.kernel
def test_a_calibrated_notebook_runs_again_without_drift(save, tmp_path):
    path = save(
        bash("17\nok", "date +%s%N; echo ok", id="c1"),
        bash("steady", "echo steady", id="c2"),
        bash("one\nmore", "echo one", id="c3"),
    )
    before = path.read_bytes()
    calibration = calibrated(path)
    assert [call.varies for call in calibration.recording.turns[0].calls] == [(1,), (), ()]
    assert calibration.found == ("turn 1, step 1, bash: line 1 may vary",)
    assert calibration.left == ("turn 1, step 3, bash: it had 2 lines, and now 1 and 1",)
    assert path.read_bytes() == before
    was, now = read_recording(load_notebook(path)).name, calibration.recording.name
    assert was != now
    assert calibration.text().splitlines()[1:] == [
        "not calibrated: turn 1, step 3, bash: it had 2 lines, and now 1 and 1",
        f"The recording was {was}, and is {now} now.",
    ]

    nb = session_notebook(calibration.recording, source_nb=as_node(load_notebook(path)))
    report = replay_notebook(write_notebook(nb, path), TOOLS)
    assert [call.kind for call in report.calls] == ["equivalent", "same", "text"]
    assert report.calls[0].detail == "calibrated: line 1 varies"


@pytest.mark.kernel
def test_another_effect_is_listed_and_so_is_the_text_after_it(save):
    path = save(bash("", "echo $RANDOM > made", id="c1"), bash("1", "cat made", id="c2"))
    calibration = calibrated(path)
    assert calibration.found == ()
    assert calibration.left == (
        "turn 1, step 1, bash: effect drift: made: changed now, not when recorded",
        "turn 1, step 2, bash: a call before it drifted: mend that first",
    )
    assert calibration.recording == read_recording(load_notebook(path))
    assert calibration.text().splitlines()[-1] == (
        f"No more lines vary in 2 runs: the recording stays {calibration.before}."
    )


@pytest.mark.long
@pytest.mark.kernel
def test_a_notebook_that_does_not_run_to_its_end_is_not_calibrated(save):
    def fail(nb):
        nb["cells"][0]["source"] += "\nraise SystemError('no')"
        return nb

    path = save(bash("a", "echo a"))
    write_notebook(fail(as_node(load_notebook(path))), path)
    with pytest.raises(ReplayError, match=r"talk\.ipynb cannot be calibrated: .*SystemError: no"):
        calibrated(path)


@pytest.mark.long
@pytest.mark.kernel
@pytest.mark.parametrize("example", sorted(examples_folder().glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_example_runs_twice_in_two_places_without_a_false_alarm(example, tmp_path):
    import shutil

    for place in ("here", "another place/and a longer one"):
        folder = tmp_path / place
        shutil.copytree(examples_folder(), folder)
        report = replay_notebook(folder / example.name, TOOLS)
        assert (report.exit_code, report.error) == (0, ""), report.text()
    assert calibrated(example).found == ()
