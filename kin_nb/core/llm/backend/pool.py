"""The backends of one agent: one for each provider and its settings, made on first use, kept until `aclose`."""

from __future__ import annotations

from kin_nb.core.config import KinConfig
from kin_nb.core.llm.types import BackendLike


class BackendPool:
    """So that a change of model, or of anything but the provider's settings, keeps the connection."""

    def __init__(self) -> None:
        self._backends: dict[str, BackendLike] = {}

    def for_active_model(self, config: KinConfig) -> BackendLike:
        """Raises ConfigError when the active model or its provider cannot be used."""
        provider = config.get_provider_for_model(config.get_active_model())
        key = f"{config.api_timeout} {provider.model_dump_json()}"
        if key not in self._backends:
            from kin_nb.core.llm.backend.factory import BACKEND_FACTORY  # noqa: PLC0415  (httpx on first use)

            self._backends[key] = BACKEND_FACTORY[provider.backend](provider, config.api_timeout)
        return self._backends[key]

    async def aclose(self) -> None:
        """Close the clients; they open anew when needed."""
        for backend in self._backends.values():
            await backend.__aexit__(None, None, None)
        self._backends.clear()
