"""How a notebook is seen to run: what `kin-nb replay` and `demo` print as it happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kin_nb.replay.runner.running import Progress


def say(text: str = "") -> None:
    print(text, flush=True)  # noqa: T201  (a command's output)


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
