"""What is reported of how a play ended."""

from __future__ import annotations

import pytest

from kin_nb.core.config import KinConfig
from kin_nb.core.interrupts import Interrupted
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.runner.confined import (
    CellFailure,
    ConfinedPlay,
    PlayResult,
    confinement_cause,
    describe_play,
    play_and_report,
)
from kin_nb.replay.saving.preflight import Preflight
from tests.table import each_row
from tests.unit.replay.sessions import recording, turn

READ = Preflight(((3, "a.csv does not exist"), (6, "no cell above it defines `x`")), ("Cell 4 never ran here.",))
GONE = CellFailure("FileNotFoundError", "[Errno 2] No such file or directory: 'sales.csv'")
GIT_LOG = "Command '['git', 'log']' returned non-zero exit status 128."


@each_row(
    ("failure", "says"),
    [
        (CellFailure("gaierror", "[Errno -3] Temporary failure in name resolution"), "needs the network"),
        (
            CellFailure("ConnectError", "All failed", "...\nOSError: [Errno 101] Network is unreachable\n"),
            "needs the network",
        ),
        (CellFailure("ConnectionRefusedError", "[Errno 111] Connection refused"), "needs the network"),
        (CellFailure("KeyError", "'DB_PASSWORD'"), "needs the variable DB_PASSWORD, which may hold a secret"),
        (CellFailure("OSError", "[Errno 30] Read-only file system: '/home/ann/x'"), "writes outside of the copy"),
        (CellFailure("_ArrayMemoryError", "Unable to allocate"), "needs more memory"),
        (
            CellFailure("FileNotFoundError", "[Errno 2] No such file or directory: '../here.csv'"),
            "reads ../here.csv, which is not in the copy",
        ),
        (
            CellFailure("RuntimeError", "Set api_key or the environment variable DB_PASSWORD."),
            "needs the variable DB_PASSWORD, which may hold a secret",
        ),
        (CellFailure("OperationalError", "attempt to write a readonly database"), "writes outside of the copy"),
        (CellFailure("OperationalError", "unable to open database file"), "may need a database outside of the copy"),
        (CellFailure("CalledProcessError", GIT_LOG), "needs a git repository, which the copy is not"),
        (
            CellFailure("RuntimeError", "fatal: not a git repository (or any of the parent directories): .git"),
            "needs a git repository, which the copy is not",
        ),
        (
            CellFailure("FileNotFoundError", "No such file or directory (os error 2): ../here.csv"),
            "reads ../here.csv, which is not in the copy",
        ),
        (GONE, ""),
        (CellFailure("RuntimeError", "MY_DB_PASSWORD_2 is wrong"), ""),
        (CellFailure("KeyError", "'total'"), ""),
        (CellFailure("ValueError", "the network of roads is empty"), ""),
    ],
)
def test_what_only_the_confinement_takes_from_a_cell_is_told_from_what_stops_it_anywhere(failure, says):
    assert confinement_cause(failure, {"DB_PASSWORD"}, lambda name: name == "../here.csv", str) == says


def test_the_play_in_words():
    assert describe_play(PlayResult(12, 12), 30, "") == "Played once, without network, in a copy: 12 of 12 cells ran."
    assert describe_play(PlayResult(12, 6, 8), 30, "") == "Stopped after 30 s in cell 8; 6 of 12 cells ran."
    assert describe_play(PlayResult(12, 0, 1), 30, "") == "Stopped after 30 s in cell 1; 0 of 12 cells ran."
    assert describe_play(PlayResult(12, 4, 5, GONE), 30, "needs the network") == (
        "Cell 5 needs the network, so a play confined to a copy ends there; 4 of 12 cells ran."
    )
    assert describe_play(PlayResult(12, 4, 5, GONE), 30, "") == (
        "Stopped at cell 5: FileNotFoundError: [Errno 2] No such file or directory: 'sales.csv' (played once, in a copy; "
        "4 of 12 cells ran)."
    )


@pytest.fixture
def said(tmp_path, monkeypatch):
    """(lines, whether it stops, whether it was played) after a play that ended so, or raised that."""

    def said(ended: PlayResult | BaseException):
        def run(self: ConfinedPlay, on_cell: object) -> PlayResult:
            if isinstance(ended, BaseException):
                raise ended
            return ended

        monkeypatch.setattr(ConfinedPlay, "run", run)
        play = ConfinedPlay(tmp_path / "a b.ipynb", {"cells": []}, recording(turn(1, "first")), KinConfig(), 30)
        found = play_and_report(play, READ, "a b.ipynb", lambda text: text.replace("sales", "***"), lambda *_: None)
        return found.lines, found.stops, found.played

    return said


CHECK = "kin-nb save 'a b.ipynb' --check"
STOPPED = (
    "Stopped at cell 5: FileNotFoundError: [Errno 2] No such file or directory: '***.csv' (played once, in a copy; "
    "4 of 9 cells ran)."
)
BY_READING = [
    "A replay stops at cell 3: a.csv does not exist.",
    "A replay stops at cell 6: no cell above it defines `x`.",
    "Cell 4 never ran here.",
]


def test_a_whole_play_proves_what_reading_found_wrong(said):
    lines = ["Played once, without network, in a copy: 9 of 9 cells ran.", "Cell 4 never ran here."]
    assert said(PlayResult(9, 9)) == (lines, False, True)


def test_what_stops_a_play_is_named_without_what_a_save_takes_out_and_reading_adds_what_is_below(said):
    lines, stops, played = said(PlayResult(9, 4, 5, GONE))
    assert lines == [
        f"{STOPPED} To play it whole: {CHECK}",
        *BY_READING[1:],
    ]
    assert (stops, played) == (True, False)


def test_what_a_save_takes_out_is_taken_out_before_a_long_error_is_cut(said, tmp_path):
    cut = "p" * 370 + " sales" * 20
    assert "sal" not in said(PlayResult(9, 4, 5, CellFailure("ValueError", cut)))[0][0]
    path = "./" * 195 + "sales.csv"
    (tmp_path / "sales.csv").write_text("x")
    lines, _, _ = said(PlayResult(9, 4, 5, CellFailure("FileNotFoundError", f"No such file or directory: '{path}'")))
    assert "which is not in the copy" in lines[0]
    assert "sal" not in lines[0]


def test_a_play_that_takes_too_long_says_how_far_it_came_and_is_no_stop(said, monkeypatch):
    monkeypatch.setitem(globals(), "READ", Preflight())
    lines, stops, _ = said(PlayResult(9, 4, 5))
    assert lines == [f"Stopped after 30 s in cell 5; 4 of 9 cells ran. To play it whole: {CHECK}"]
    assert not stops


@pytest.mark.parametrize(
    ("ended", "why"),
    [
        (
            ReplayError("bubblewrap is not installed (apt install bubblewrap)"),
            "bubblewrap is not installed (apt install bubblewrap)",
        ),
        (KeyboardInterrupt(), "you interrupted it"),
    ],
)
def test_where_it_is_not_played_the_reason_is_named_and_reading_is_all_there_is(said, ended, why):
    lines, stops, _ = said(ended)
    assert lines == [*BY_READING, f"Not played after saving: {why}. To play it once in a copy, unconfined: {CHECK}"]
    assert stops


def test_a_signal_that_ends_the_program_ends_it(said):
    with pytest.raises(Interrupted):
        said(Interrupted(15))
