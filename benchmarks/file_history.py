"""Looking at a whole workspace before and after a command, 5,000 and 20,000 small files: the first time, and again.

Budget: an unchanged workspace of 5,000 files 0.15 s; the first look at 20,000 files 2 s, or it says "not covered".
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.sizes import sized
from kin_nb.core.file_history import FileHistory, workspace_store
from kin_nb.core.file_history.scan import DEFAULT_LIMITS

SIZES = sized((5_000, 19_000), (100,))
FILES = 20
"""In each folder: with the folders, 19,000 files are just under the limit of 20,000."""
SETTLE = sized(2.1, 0.0)
"""Seconds: files younger than two are read again each time."""


def make(root: Path, files: int) -> None:
    (root / ".gitignore").write_text("*.log\nbuild/\n/cache/**\n!keep.log\n")
    for number in range(files // FILES):
        folder = root / f"package{number % 10}" / f"sub{number}"
        folder.mkdir(parents=True)
        for file in range(FILES):
            (folder / f"module_{file}.py").write_bytes(os.urandom(64).hex().encode() * 16)


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    for files in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["KIN_HOME"] = f"{folder}/home"
            root = Path(folder, "workspace")
            root.mkdir()
            make(root, files)
            time.sleep(SETTLE)
            history = FileHistory(root, workspace_store(root), replace(DEFAULT_LIMITS, seconds=60))
            first = seconds(history.before_anything)
            again = [seconds(history.before_anything) for _ in range(7)]
            history.close()
            later = FileHistory(root, workspace_store(root))
            opened = seconds(later.before_anything)
            before = later.before_anything()
            (root / "package0" / "sub0" / "module_0.py").write_text("changed\n")
            changed = seconds(lambda: later.changes(before))  # noqa: B023  (called at once)
            later.close()
            print(
                f"{files:,} files: first look {first:.2f} s; unchanged {statistics.median(again):.3f} s, worst "
                f"{max(again):.3f} s; a new session's first look {opened:.3f} s; after a change {changed:.3f} s"
            )


if __name__ == "__main__":
    main()
