"""Completing `@path` in a workspace of 20,000 files: the first question, which makes the index, and the later ones.

Budget: 1 s, then 200 ms a key.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.sizes import sized
from kin_nb.core.autocompletion.completers import PathCompleter
from kin_nb.core.autocompletion.file_indexer import FileIndexer

FOLDERS, FILES = sized(1_000, 50), 20
IGNORED = "".join(f"name{i}/\n*.x{i}\n/at{i}/root\n" for i in range(30))
KEYS = ("@m", "@mo", "@module_1", "@sub9/mod", "@pms", "@zzz", "@")


def make(root: Path) -> None:
    (root / ".gitignore").write_text(IGNORED)
    for number in range(FOLDERS):
        folder = root / f"pkg{number % 10}" / f"mod{number % 100}" / f"sub{number}"
        folder.mkdir(parents=True)
        for file in range(FILES):
            (folder / f"module_{file}_name.py").touch()
    an_hour_ago = time.time() - 3600  # not the tree of a moment ago, which is looked through twice
    for path in [root, root / ".gitignore", *root.rglob("*/")]:
        os.utime(path, (an_hour_ago, an_hour_ago))


def milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make(root)
        indexer = FileIndexer(root)
        print(f"first index of {FOLDERS * FILES:,} files: {milliseconds(indexer.entries):.0f} ms")
        unchanged = [milliseconds(indexer.entries) for _ in range(9)]
        print(f"nothing changed: {statistics.median(unchanged):.1f} ms")
        (root / "pkg0" / "new.py").touch()
        print(f"one file more: {milliseconds(indexer.entries):.1f} ms, {len(indexer.entries()):,} entries known")
        completer = PathCompleter(indexer)
        for key in KEYS:
            taken = [milliseconds(partial(completer.complete, key, len(key))) for _ in range(3)]
            print(f"{key}: {min(taken):.0f} ms, worst {max(taken):.0f} ms")


if __name__ == "__main__":
    main()
