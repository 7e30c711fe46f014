"""What the model is shown of variables goes without the session's secrets: they were never typed for it."""

from __future__ import annotations

from pathlib import Path

from kin_nb.core.config import KinConfig
from kin_nb.core.config.secrets import secret_values
from kin_nb.core.redaction import Redactor
from kin_nb.core.tools.call_context import call_context

_NO_PATHS = Path("/")


def without_secrets(text: str, config: KinConfig | None = None) -> str:
    """Keys of the settings and of the environment, and well-known shapes of keys; `config`: the running call's if None."""
    call = call_context.get()
    config = config or (call.config if call else None)
    return Redactor(secret_values(config) if config else (), _NO_PATHS, _NO_PATHS).text(text)
