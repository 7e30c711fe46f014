"""What to do when nothing is set up yet: one short text, the same in a cell and on the command line."""

from __future__ import annotations

from pathlib import Path

from kin_nb.core.config import ConfigError, MissingAPIKeyError
from kin_nb.core.config.files import config_path


def explain(error: ConfigError) -> str:
    """The error, then the ways on. A missing key gets all three: a key, a local server, the demo."""
    if not isinstance(error, MissingAPIKeyError):
        return str(error)
    return "\n".join(
        [
            str(error),
            f"  With a key: set {error.env_key}, or choose another provider and model in {_shown(config_path())}",
            "  Without one: start a local server (llama.cpp: port 8080, Ollama: 11434), then `%kin model local` or `ollama`",
            "  To see kin_nb without either: kin-nb demo",
        ]
    )


def _shown(path: Path) -> str:
    """With `~` for the home folder: shorter, and what a person would type."""
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)
