"""What to do when nothing is set up yet: one short text, the same in a cell and on the command line."""

from __future__ import annotations

from kin_nb.core.config import ConfigError, KinConfig, MissingAPIKeyError
from kin_nb.core.config.files import config_path
from kin_nb.core.config.keys import env_file_warnings, env_path
from kin_nb.core.paths import shown


def explain(error: ConfigError, config: KinConfig | None = None) -> str:
    """The error, what of a project `config` lacks, then the ways on. A missing key gets all: a key, a local server, the demo."""
    what = [str(error)]
    if config is not None and config.layers.left_out:
        what.append(f"  {config.layers.left_out}")
    if not isinstance(error, MissingAPIKeyError):
        return "\n".join(what)
    return "\n".join(
        [
            *what,
            *(f"  {warning}" for warning in env_file_warnings()),
            f"  With a key: set {error.env_key} or write it into {shown(env_path())}; other providers: {shown(config_path())}",
            "  Without one: start a local server (llama.cpp: port 8080, Ollama: 11434), then `%kin model local` or `ollama`",
            "  To see kin_nb without either: kin-nb demo",
        ]
    )
