"""How a notebook is seen to run: what `kin-nb replay` and `demo` print as it happens."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from kin_nb.replay.runner.running import Progress


def say(text: str = "") -> None:
    print(text, flush=True)  # noqa: T201  (a command's output)


class Playing:
    """A line on stderr that says how far a play is, on a terminal only; it is gone afterwards."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> Playing:
        self._show(self._what)
        return self

    def __call__(self, cell: int, cells: int) -> None:
        self._show(f"{self._what}: cell {cell} of {cells}")

    def __exit__(self, *_: object) -> None:
        self._show("")

    def _show(self, line: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()


class Steps:
    """A line per cell that asks and per tool call, as they happen; unless `live`, with how it compares."""

    def __init__(self, *, live: bool = False, secrets: Callable[[str], str] = str) -> None:
        self._live, self._secrets = live, secrets

    def __call__(self, progress: Progress) -> None:
        kin = (progress.output or {}).get("metadata", {}).get("kin", {})
        match kin.get("kind"):
            case "call" if kin.get("status") not in {"pending", "waiting"}:
                drift = "" if self._live else f"  [{kin.get('drift', {}).get('kind', 'played')}]"
                say(f"  turn {kin.get('turn')}, step {kin.get('step')}: {self._first_line(progress.output)}{drift}")
            case "receipt":
                say(f"  turn {kin.get('turn')}: {self._first_line(progress.output)}")

    def _first_line(self, output: Any) -> str:
        text = output["data"].get("text/plain", "")
        line = self._secrets(("".join(text) if isinstance(text, list) else text).split("\n", 1)[0])
        return line if len(line) <= 100 else f"{line[:99]}…"  # noqa: PLR2004
