"""Twelve session notebooks, the examples twice, re-executed one at a time and two at a time. Budget: -j 2 is 1.6 times as fast.

Of `kin-nb replay`, in playback and with `--tools --approve recorded`; takes two idle cores.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.sizes import sized

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NAMES = sized("*.ipynb", "quickstart.ipynb")
TOOLS = ["--tools", "--approve", "recorded"]
WAYS: list[list[str]] = sized([[], TOOLS], [[]])
BUDGET = 1.6


def copies(folder: Path) -> list[Path]:
    """Each beside the workspaces that it names."""
    sets = [shutil.copytree(EXAMPLES, folder / name) for name in sized("ab", "a")]
    return sorted(path for each in sets for path in each.glob(NAMES))


def seconds(notebooks: list[Path], home: Path, jobs: int, how: list[str]) -> float:
    command = [sys.executable, "-m", "kin_nb.cli", "replay", "-j", str(jobs), *how, *map(str, notebooks)]
    begin = time.perf_counter()
    done = subprocess.run(
        command, env=os.environ | {"HOME": str(home)}, cwd=home, capture_output=True, text=True, check=False
    )
    took = time.perf_counter() - begin
    assert done.returncode == 0, done.stdout + done.stderr
    return took


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (home := folder / "home").mkdir()
        notebooks = copies(folder)
        for how in WAYS:
            one, two = (min(seconds(notebooks, home, jobs, how) for _ in range(sized(2, 1))) for jobs in (1, 2))
            print(
                f"{len(notebooks)} notebooks, {' '.join(how) or 'playback'}: {one:.1f} s one at a time, {two:.1f} s two at a time: "
                f"{one / two:.2f} times as fast (at least {BUDGET})"
            )


if __name__ == "__main__":
    main()
