"""The benchmark of the browser runs at small size; the others: tests/kernel/test_benchmarks.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser


def test_the_benchmark_of_the_browser_runs_at_small_size():
    command = [sys.executable, "-m", "benchmarks.browser", "--small"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
