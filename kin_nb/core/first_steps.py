"""What to do when nothing is set up yet: one short text, the same in a cell and on the command line."""

from __future__ import annotations

from kin_nb.core.config import ConfigError, MissingAPIKeyError
from kin_nb.core.config.files import config_path
from kin_nb.core.config.keys import env_file_warnings, env_path
from kin_nb.core.paths import shown


def explain(error: ConfigError) -> str:
    """The error, then the ways on. A missing key gets all three: a key, a local server, the demo."""
    if not isinstance(error, MissingAPIKeyError):
        return str(error)
    return "\n".join(
        [
            str(error),
            *(f"  {warning}" for warning in env_file_warnings()),
            f"  With a key: set {error.env_key} or write it into {shown(env_path())}; other providers: {shown(config_path())}",
            "  Without one: start a local server (llama.cpp: port 8080, Ollama: 11434), then `%kin model local` or `ollama`",
            "  To see kin_nb without either: kin-nb demo",
        ]
    )
