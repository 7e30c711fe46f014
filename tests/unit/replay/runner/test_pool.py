"""Many notebooks: real processes of their own, and whatever becomes of one is a row."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from nbformat.v4 import new_code_cell

from kin_nb.replay.commands.replay import ProgressCounter
from kin_nb.replay.runner import pool
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.runner.pool import replay_in_process, replay_many
from kin_nb.replay.runner.results import (
    CallResult,
    CellResult,
    ReplayReport,
    ReplayResult,
    as_json,
    result_from_json,
    results_json,
    results_table,
    worst_exit_code,
)
from kin_nb.replay.runner.run_notebook import Request
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.writing import write_notebook
from tests.unit.replay.sessions import recording, turn


def write(path: Path, *sources: str) -> Path:
    nb = session_notebook(recording(turn(1, "first")))
    nb["cells"] += [new_code_cell(source, id=f"plain-{n}") for n, source in enumerate(sources)]
    return write_notebook(nb, path)


def request(path: Path, **options) -> Request:
    options = {"output_dir": path.parent / "out" / path.stem, **options}
    return Request(path.name, ReplayOptions(**options), str(path.parent))


def script(tmp_path: Path, text: str, monkeypatch) -> Request:
    """A request that a worker of this text answers."""
    path = tmp_path / "worker.py"
    path.write_text(text)
    monkeypatch.setattr(pool, "WORKER", (sys.executable, str(path)))
    return Request("a.ipynb", ReplayOptions(), str(tmp_path))


def test_of_many_the_worst_is_an_error_then_drift():
    rows = {code: ReplayResult("x", code) for code in (0, 1, 3)}
    assert worst_exit_code([rows[0], rows[3], rows[0]]) == 3
    assert worst_exit_code([rows[3], rows[1], rows[3]]) == 1
    assert (worst_exit_code([rows[0]]), worst_exit_code([])) == (0, 0)


def test_a_row_comes_back_as_it_was():
    report = ReplayReport(
        "playback", Path("x"), (CellResult(1, "differs", "é\ud83d"),), (), (CallResult(1, 1, "b", "text"),)
    )
    for row in (ReplayResult.of("a.ipynb", report), ReplayResult.failed("a.ipynb", "gone")):
        assert result_from_json(as_json(row)) == row


def test_the_document_has_every_notebook_in_order_and_the_worst_code():
    rows = [ReplayResult.failed("b.ipynb", "gone"), ReplayResult("a.ipynb", 0)]
    said = results_json(rows)
    assert said.index("b.ipynb") < said.index("a.ipynb")
    assert said.startswith('{\n  "exit_code": 1')


def test_the_table_says_of_each_what_is_wrong_and_counts():
    drifted = ReplayReport("tools", Path("x"), (), (), (CallResult(1, 2, "bash", "effect", "exit code"),))
    said = results_table(
        [
            ReplayResult("long-name.ipynb", 0),
            ReplayResult.of("b.ipynb", drifted),
            ReplayResult.failed("c.ipynb", "two\nlines"),
        ]
    )
    assert said.splitlines() == [
        "same    long-name.ipynb",
        "drift   b.ipynb          turn 1, step 2, bash: effect: exit code",
        "failed  c.ipynb          two ⏎ lines",
        "3 notebooks: 1 same, 1 drift, 1 failed.",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        (Terminal, "\r1 of 2 notebooks, 0 differ, 0 failed\r2 of 2 notebooks, 0 differ, 1 failed\n"),
        (io.StringIO, "1/2 a.ipynb: exit code 0\n2/2 b.ipynb: exit code 1\n"),
    ],
)
def test_progress_is_one_line_on_a_terminal_and_a_line_each_elsewhere(monkeypatch, stream, says):
    monkeypatch.setattr(sys, "stderr", stream())
    told = ProgressCounter(2)
    told(ReplayResult("a.ipynb", 0))
    told(ReplayResult.failed("b.ipynb", "gone"))
    told.end()
    assert sys.stderr.getvalue() == says


@pytest.mark.kernel
def test_each_has_a_kernel_of_its_own_and_rows_come_in_the_order_of_the_requests(tmp_path):
    (tmp_path / "broken.ipynb").write_text('{"cells": [')
    paths = [
        write(tmp_path / "kills.ipynb", "import os; os.system('echo noise'); os.kill(os.getpid(), 9)"),
        tmp_path / "broken.ipynb",
    ]
    told: list[ReplayResult] = []
    rows = replay_many([request(path) for path in paths], 2, None, told.append)
    assert [row.notebook for row in rows] == [path.name for path in paths]
    assert [row.exit_code for row in rows] == [1, 1], [row.summary for row in rows]
    assert sorted(row.notebook for row in told) == sorted(path.name for path in paths)
    assert "not complete JSON" in rows[1].summary
    assert rows[0].summary == "cell 3: the kernel died"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import os; os.kill(os.getpid(), 9)", "its process was killed by signal 9"),
        ("raise SystemExit('no such thing')", "its process ended with 1: no such thing"),
        ("print('rubbish')", "its process gave no report"),
        ("print('[' * 200_000)", "its process gave no report"),
        ("""print('{"notebook": "other.ipynb", "exit_code": 0}')""", "its process gave no report"),
        ("""print('{"notebook": "a.ipynb", "exit_code": 7}')""", "its process gave no report"),
        ("import sys; sys.stdout.buffer.write(b'\\xff' * 10)", "its process gave no report"),
    ],
)
def test_a_worker_that_dies_or_prints_rubbish_is_a_failed_row(tmp_path, monkeypatch, text, says):
    assert replay_in_process(script(tmp_path, text, monkeypatch), None) == ReplayResult.failed("a.ipynb", says)


def test_a_program_that_cannot_be_started_is_a_failed_row(monkeypatch, tmp_path):
    monkeypatch.setattr(pool, "WORKER", (str(tmp_path / "none"),))
    row = replay_in_process(Request("a.ipynb", ReplayOptions(), "."), None)
    assert row.error == "its process cannot be started: No such file or directory"


@pytest.mark.long
def test_a_worker_that_hangs_and_heeds_no_signal_is_ended_with_all_it_started(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "fifo")
    text = f"""
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.signal(15, signal.SIG_IGN); signal.pause()"])
open({str(tmp_path / "fifo")!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
signal.pause()
"""
    monkeypatch.setattr(pool, "GRACE_SECONDS", 0.2)
    asked = script(tmp_path, text, monkeypatch)
    found: list[psutil.Process] = []
    reader = threading.Thread(
        target=lambda: found.extend(psutil.Process(int(pid)) for pid in (tmp_path / "fifo").read_text().split()),
        daemon=True,
    )
    reader.start()
    row = replay_in_process(asked, 4)
    reader.join(60)
    assert row.error == "it took longer than 4 s and was stopped"
    _, left = psutil.wait_procs(found, timeout=60)
    assert len(found) == 2
    assert [each for each in left if each.status() != psutil.STATUS_ZOMBIE] == []


def test_a_module_in_the_current_folder_is_none_of_ours(tmp_path, monkeypatch):
    (tmp_path / "nbformat.py").write_text(f"open({str(tmp_path / 'owned')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    row = replay_in_process(Request("gone.ipynb", ReplayOptions(), str(tmp_path)), None)
    assert "cannot be read" in row.error
    assert not (tmp_path / "owned").exists()


@pytest.mark.long
@pytest.mark.kernel
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_an_interrupt_ends_every_worker_and_kernel(tmp_path, number, code):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    pid = f"import os; f = open({str(fifo)!r}, 'w'); f.write(f'{{os.getpid()}} {{os.getppid()}}\\n'); f.close(); input"
    for name in "ab":
        write(tmp_path / f"{name}.ipynb", f"{pid}; __import__('signal').pause()")
    command = [sys.executable, "-m", "kin_nb.cli", "replay", "a.ipynb", "b.ipynb", "-j", "2"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    pids: list[int] = []
    while len(pids) < 4:
        pids += [int(word) for word in fifo.read_text().split()]
    started = [psutil.Process(each) for each in pids]
    try:
        process.send_signal(number)
        assert process.wait(120) == code
        _, left = psutil.wait_procs(started, timeout=60)
        assert [each for each in left if each.status() != psutil.STATUS_ZOMBIE] == []
    finally:
        for each in (process, *started):
            if psutil.pid_exists(each.pid):
                each.kill()
        process.wait(10)
