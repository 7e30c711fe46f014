"""Errors of the configuration, and suggestions for mistyped names."""

from __future__ import annotations

from collections.abc import Iterable


class ConfigError(Exception):
    """The configuration is not usable. The text names the place and what to do."""

    def explained_by(self, notice: str) -> None:
        """Append `notice`, a possible reason, to the text."""
        if notice:
            self.args = (f"{self}\n{notice}",)


class LLMNotConfigured(ConfigError):  # noqa: N818  (seed 001's name)
    """No model can be asked: the name is unknown, its provider is not configured, or its key is missing."""


class MissingAPIKeyError(LLMNotConfigured):
    """The provider of the active model needs a key, and its variable is not set."""

    def __init__(self, env_key: str, provider_name: str) -> None:
        self.env_key, self.provider_name = env_key, provider_name
        super().__init__(f"No key for {provider_name}: the variable {env_key} is not set.")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean A or B?` with the names of `known` that are similar to `name` or begin with it; else ""."""
    from difflib import get_close_matches  # noqa: PLC0415  (only for a mistake)

    known = list(known)
    longer = [each for each in known if name and each.lower().startswith(name.lower())]
    near = list(dict.fromkeys([*longer, *get_close_matches(name, known, 3)]))[:3]
    return f" Did you mean {' or '.join(near)}?" if near else ""
