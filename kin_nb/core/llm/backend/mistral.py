"""Mistral's own servers (seed 003)."""

from __future__ import annotations

from contextlib import aclosing

from kin_nb.core.config import ModelConfig, ProviderConfig
from kin_nb.core.llm.backend.generic import GenericBackend
from kin_nb.core.llm.errors import BackendError
from kin_nb.core.llm.merge import ReplyBuilder
from kin_nb.core.llm.retry import RetryPolicy
from kin_nb.core.messages import AvailableTool, LLMMessage, StrToolChoice


class MistralBackend(GenericBackend):
    """Speaks `mistral` where the configuration leaves the API style as it is, and lets the server count tokens."""

    def __init__(self, provider: ProviderConfig, timeout: float = 720.0, *, retry: RetryPolicy | None = None) -> None:
        if provider.api_style == "openai":
            provider = provider.model_copy(update={"api_style": "mistral"})
        super().__init__(provider, timeout, retry=retry)

    async def count_tokens(
        self,
        *,
        model: ModelConfig,
        messages: list[LLMMessage],
        temperature: float = 0.0,
        tools: list[AvailableTool] | None = None,
        tool_choice: StrToolChoice | None = None,
        extra_headers: dict[str, str] | None = None,
    ) -> int:
        """What the server says of a request that may be answered with one token; an estimate when it says nothing."""
        request = self.prepare(
            model=model,
            messages=messages,
            temperature=temperature,
            tools=tools,
            max_tokens=1,
            tool_choice=tool_choice,
            streaming=False,
        )
        reply = ReplyBuilder()
        try:
            async with aclosing(self.attempt(request, model.name, extra_headers or {}, streaming=False)) as chunks:
                async for chunk in chunks:
                    reply.add(chunk)
        except BackendError:
            return self.estimate(request, model, messages)
        return reply.usage.prompt_tokens if reply.usage else self.estimate(request, model, messages)
