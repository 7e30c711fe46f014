"""Calibrating: which lines of its results come out otherwise on every run of a session notebook (`RecordedCall.varies`)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kin_nb.core.session.records import RecordedCall
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.loading import load_notebook
from kin_nb.replay.format.taken_out import HiddenText
from kin_nb.replay.recording import Recording
from kin_nb.replay.rerun.calls_file import CameOut, read_calls
from kin_nb.replay.rerun.drift import HARMLESS, compare_call
from kin_nb.replay.runner.one import replay_notebook
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.runner.running import OnProgress

RUNS = 2
MOST_LINES = 200
"""Lines of one result that may vary: where more do, it says nothing any more."""
_STORED_NOT = "its result is not stored here, only its hash"


@dataclass(frozen=True)
class Calibration:
    """`found`: a line for each call that has more lines that vary now; `left`: for each that drifted otherwise, and why."""

    recording: Recording
    before: str
    """The recording's name as it was."""
    found: tuple[str, ...]
    left: tuple[str, ...]

    def text(self) -> str:
        """What to tell the person who asked for it."""
        rows = [*self.found, *(f"not calibrated: {line}" for line in self.left)]
        if not self.found:
            return "\n".join([*rows, f"No more lines vary in {RUNS} runs: the recording stays {self.before}."])
        return "\n".join([*rows, f"The recording was {self.before}, and is {self.recording.name} now."])


def calibrated(path: Path, options: ReplayOptions | None = None, on_progress: OnProgress | None = None) -> Calibration:
    """Execute the notebook at `path` twice with its tools; its recording, with the lines that came out otherwise.

    Recorded approvals count: asking for this says so. What was calibrated before stays, so that what varies rarely can be
    found by and by. Of `options` the workspace, the time-out and the parameters count. Nothing is written. Raises
    RecordingError and ReplayError, also when a cell fails.
    """
    nb = load_notebook(path)
    recording = read_recording(nb)
    hidden = HiddenText.of(nb, recording)
    runs = [_run(path, options or ReplayOptions(), on_progress) for _ in range(RUNS)]
    found, left = list[str](), list[str]()
    turns, spoiled = [], False
    for turn in recording.turns:
        came = _by_call(runs, turn.turn, len(turn.calls))
        steps = []
        for number, step in enumerate(turn.steps, 1):
            calls = []
            for call in step.calls:
                where = f"turn {turn.turn}, step {number}, {call.name}"
                judged = judge(call, next(came), after_drift=spoiled, instead=hidden.why if hidden else "")
                spoiled = spoiled or judged.spoils
                found += [f"{where}: {judged.says}"] if judged.call != call else []
                left += [f"{where}: {judged.says}"] if judged.call == call and judged.says else []
                calls.append(judged.call)
            steps.append(step.model_copy(update={"calls": tuple(calls)}))
        turns.append(turn.model_copy(update={"steps": tuple(steps)}))
    return Calibration(replace(recording, turns=tuple(turns)), recording.name, tuple(found), tuple(left))


def _run(
    path: Path, options: ReplayOptions, on_progress: OnProgress | None
) -> Mapping[int, tuple[CameOut | None, ...]]:
    with tempfile.TemporaryDirectory(prefix="kin-calibrate-") as temporary:
        folder = Path(temporary)
        calls = folder / "calls.jsonl"
        asked = replace(
            options, tools=True, live=False, scratch=False, approve_recorded=True, output_dir=folder, calls=calls
        )
        report = replay_notebook(path, asked, on_progress)
        if report.error:
            raise ReplayError(f"{path.name} cannot be calibrated: it must run to its end. {report.error}")
        return read_calls(calls)


def _by_call(
    runs: Sequence[Mapping[int, tuple[CameOut | None, ...]]], turn: int, count: int
) -> Iterator[list[CameOut | None]]:
    """For each recorded call of the turn, in order, what it came to in each run."""
    for n in range(count):
        yield [calls[n] if n < len(calls := run.get(turn, ())) else None for run in runs]


@dataclass(frozen=True)
class Judged:
    """`call`: as it is to be stored. `says`: which of its lines may vary now or, when it stays as it was, why none may."""

    call: RecordedCall
    says: str = ""
    spoils: bool = False
    """What comes after it may be otherwise because it was."""


def judge(
    recorded: RecordedCall, runs: Sequence[CameOut | None], *, after_drift: bool = False, instead: str = ""
) -> Judged:
    """What the runs tell of one call; None for a run that did not come to it. `after_drift`: one before it was spoiled.

    `instead`: what to say in place of how it drifted, where that is not to be shown.
    """
    came = [run for run in runs if run is not None]
    if len(came) < len(runs):
        return Judged(recorded, "it did not run", spoils=True)
    other = next((run.drift for run in came if run.drift.kind not in {*HARMLESS, "text"}), None)
    if other is not None:
        return Judged(recorded, f"{other.kind} drift: {instead or other.detail}", spoils=True)
    drifted = [run.call for run in came if run.drift.kind == "text"]
    if not drifted:
        return Judged(recorded)
    if after_drift:
        return Judged(recorded, "a call before it drifted: mend that first")
    if recorded.withheld:
        return Judged(recorded, _STORED_NOT)
    return _with_lines(recorded, drifted, [run.call for run in came])


def _with_lines(recorded: RecordedCall, drifted: Sequence[RecordedCall], both: Sequence[RecordedCall]) -> Judged:
    """`recorded` with those lines, and no others, that must be let vary for all of `drifted` to be as recorded."""
    lines = [recorded.output.split("\n"), *(call.output.split("\n") for call in drifted)]
    counts = [len(each) for each in lines]
    if len(set(counts)) > 1:
        return Judged(recorded, f"it had {counts[0]} lines, and now {' and '.join(map(str, counts[1:]))}")
    differ = [n for n, line in enumerate(zip(*lines, strict=True), 1) if len(set(line)) > 1]
    if len(differ) > MOST_LINES:
        return Judged(recorded, f"{len(differ)} lines differ, and {MOST_LINES} may")
    needed = {*recorded.varies, *differ}
    for number in differ:  # what a rule covers need not vary
        if number not in recorded.varies and _all_as_recorded(recorded, needed - {number}, drifted):
            needed.remove(number)
    call = recorded.model_copy(update={"varies": tuple(sorted(needed))})
    if not _all_as_recorded(recorded, needed, both):  # a rule may need the lines that another run has not
        return Judged(recorded, "the runs differ in more than single lines")
    new = [n for n in call.varies if n not in recorded.varies]
    return Judged(call, _told(new, [n for n in new if len({each[n - 1] for each in lines[1:]}) == 1 < len(lines) - 1]))


def _all_as_recorded(recorded: RecordedCall, varies: set[int], calls: Sequence[RecordedCall]) -> bool:
    allowing = recorded.model_copy(update={"varies": tuple(sorted(varies))})
    return all(compare_call(allowing, call).kind in HARMLESS for call in calls)


def _told(new: Sequence[int], steady: Sequence[int]) -> str:
    says = f"line{'s' * (len(new) > 1)} {', '.join(map(str, new))} may vary"
    if not steady:
        return says
    return f"{says}; {', '.join(map(str, steady))} not from run to run, only since it was recorded: is that no drift?"
