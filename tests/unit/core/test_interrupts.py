"""What ends a program ends it properly: by SIGTERM and SIGHUP nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kin_nb.core.interrupts import Interrupted, interruptible, run_interruptible

PROGRAM = """
import asyncio, os, signal, sys, tempfile, time
from contextlib import contextmanager
from pathlib import Path
from kin_nb.core.interrupts import Interrupted, interruptible, run_interruptible

async def nothing():
    pass

async def long():
    print("working", flush=True)
    await asyncio.sleep(100)

@contextmanager
def made():
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as folder:
        Path(folder, "file").touch()
        try:
            yield
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # once more, while it cleans up

try:
    with interruptible(), made():
        run_interruptible(nothing())
        if sys.argv[2] == "loop":
            run_interruptible(long())
        print("working", flush=True)
        while True:
            time.sleep(0.05)  # not pause(): a signal just before it would be waited for
except Interrupted as interrupted:
    sys.exit(interrupted.exit_code)
"""


@pytest.mark.parametrize("where", ["loop", "elsewhere"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_was_made_is_gone_in_a_loop_and_elsewhere(tmp_path, where, number):
    argv = [sys.executable, "-c", PROGRAM, str(tmp_path), where]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as program:
        assert program.stdout.readline() == "working\n"
        assert list(tmp_path.iterdir())
        program.send_signal(number)
        assert program.wait(60) == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_handlers_are_as_they_were_afterwards():
    async def nothing() -> int:
        return 5

    before = signal.getsignal(signal.SIGTERM)
    with interruptible():
        inside = signal.getsignal(signal.SIGTERM)
        assert run_interruptible(nothing()) == 5
        assert signal.getsignal(signal.SIGTERM) is inside is not before
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
