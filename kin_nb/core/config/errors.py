"""What is wrong with a configuration, in words that say where and what to do."""

from __future__ import annotations


class ConfigError(Exception):
    """The configuration cannot be used. The text says where and what to do."""

    def explained_by(self, notice: str) -> None:
        """Say `notice` after the text: what may be the reason."""
        if notice:
            self.args = (f"{self} {notice}",)


class LLMNotConfigured(ConfigError):  # noqa: N818  (seed 001's name)
    """There is no model to ask: none of that name, no provider for it, or no key."""


class MissingAPIKeyError(LLMNotConfigured):
    """The active model's provider needs a key and its variable is not set."""

    def __init__(self, env_key: str, provider_name: str) -> None:
        self.env_key, self.provider_name = env_key, provider_name
        super().__init__(f"No key for {provider_name}: the variable {env_key} is not set.")
