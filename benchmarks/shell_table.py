"""The shell commands of the test tables, how each is judged and why, and the share of everyday ones that run unasked."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from kin_nb.core.safety.shell import classify
from tests.unit.safety import shell_workspace

_SHOWN = 70


def table(name: str, root: Path) -> tuple[int, int]:
    """Print a table; returns how many commands are judged harmless, and how many are judged otherwise than expected."""
    environment = shell_workspace.environment(root.parent / "home")
    harmless = wrong = 0
    for command, expected, _ in shell_workspace.rows(name):
        judgement = classify(command, root, environment)
        told = ", ".join(judgement.reads) or "reads no files" if judgement.kind == "read-only" else judgement.reason
        mark = " " if judgement.kind == expected else "!"
        harmless += judgement.kind == "read-only"
        wrong += judgement.kind != expected
        print(f"{mark} {judgement.kind:9}  {command[:_SHOWN]!r:{_SHOWN + 2}}  {told}")
    return harmless, wrong


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = shell_workspace.make(Path(folder).resolve())
        for name in ("table", "everyday"):
            count = len(shell_workspace.rows(name))
            started = time.perf_counter()
            harmless, wrong = table(name, root)
            spent = (time.perf_counter() - started) * 1000 / count
            print(
                f"{name}: {harmless} of {count} harmless ({harmless / count:.0%}), {wrong} not as expected, {spent:.1f} ms each\n"
            )


if __name__ == "__main__":
    main()
