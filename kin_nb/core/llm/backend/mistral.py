"""MistralBackend: Mistral's own servers."""

from __future__ import annotations

from contextlib import aclosing

from kin_nb.core.config import ProviderConfig
from kin_nb.core.llm.backend.http_backend import GenericBackend
from kin_nb.core.llm.response_builder import ResponseBuilder
from kin_nb.core.llm.retry import RetryPolicy
from kin_nb.core.llm.types import ReplyRequest


class MistralBackend(GenericBackend):
    """Mistral: uses the API style `mistral` by default, and has the server count tokens."""

    def __init__(self, provider: ProviderConfig, timeout: float = 720.0, *, retry: RetryPolicy | None = None) -> None:
        if provider.api_style == "openai":
            provider = provider.model_copy(update={"api_style": "mistral"})
        super().__init__(provider, timeout, retry=retry)

    async def server_count(self, request: ReplyRequest) -> int:
        """Return the prompt tokens that the server reports for a request of one output token."""
        prepared = self.prepare({**request, "max_tokens": 1}, streaming=False)
        reply, headers = ResponseBuilder(), request["extra_headers"] or {}
        async with aclosing(self.attempt(prepared, request["model"].name, headers, streaming=False)) as chunks:
            async for chunk in chunks:
                reply.add(chunk)
        return reply.usage.prompt_tokens if reply.usage else 0
