"""How a notebook is seen to run: what `kin-nb replay` and `demo` print as it happens."""

from __future__ import annotations

from typing import Any

from kin_nb.replay.runner.running import Progress


def say(text: str = "") -> None:
    print(text, flush=True)  # noqa: T201  (a command's output)


class Steps:
    """A line per cell that asks and per tool call, as they happen; unless `live`, with how it compares."""

    def __init__(self, *, live: bool = False) -> None:
        self._live = live

    def __call__(self, progress: Progress) -> None:
        kin = (progress.output or {}).get("metadata", {}).get("kin", {})
        match kin.get("kind"):
            case "call" if kin.get("status") not in {"pending", "waiting"}:
                drift = "" if self._live else f"  [{kin.get('drift', {}).get('kind', 'played')}]"
                say(f"  turn {kin.get('turn')}, step {kin.get('step')}: {_first_line(progress.output)}{drift}")
            case "receipt":
                say(f"  turn {kin.get('turn')}: {_first_line(progress.output)}")


def _first_line(output: Any) -> str:
    text = output["data"].get("text/plain", "")
    line = ("".join(text) if isinstance(text, list) else text).split("\n", 1)[0]
    return line if len(line) <= 100 else f"{line[:99]}…"  # noqa: PLR2004
