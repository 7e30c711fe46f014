"""Every benchmark runs at small size; its figures are judged by `make bench` alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPORTED = {"shapes", "sizes"}
IN_A_BROWSER = {"browser"}  # tests/browser/test_benchmark.py
NAMES = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - IMPORTED - IN_A_BROWSER


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_benchmark_runs_at_small_size(name, tmp_path):
    home = {"HOME": str(tmp_path), "KIN_HOME": str(tmp_path / "kin"), "IPYTHONDIR": str(tmp_path / "ipython")}
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--small"],
        cwd=ROOT,
        env=os.environ | home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
