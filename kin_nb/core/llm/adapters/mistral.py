"""Mistral's own API: OpenAI's format, but unknown fields are refused (422) and so are histories out of order (400)."""

from __future__ import annotations

from typing import Any

from kin_nb.core.config import ProviderConfig
from kin_nb.core.llm.adapters.base import BACKEND_ADAPTERS, register_adapter
from kin_nb.core.llm.adapters.dialects import MISTRAL, Dialect
from kin_nb.core.llm.adapters.openai import STAND_IN, OpenAIAdapter, content_parts, tool_call, wire_name
from kin_nb.core.messages import LLMMessage, Role


@register_adapter(BACKEND_ADAPTERS, "mistral")
class MistralAdapter(OpenAIAdapter):
    """The rules, as its API and its templates state them: only known fields; a tool message is followed by a tool or an
    assistant message; an assistant message says or calls something; reasoning is a typed part of the content.

    Histories are mended in what is sent, never in themselves. Usage comes without being asked for.
    """

    def dialect(self, provider: ProviderConfig) -> Dialect:
        del provider
        return MISTRAL

    def reasoning_style(self, model_name: str, provider: ProviderConfig) -> str:
        """Only models that think get reasoning back: the others were not trained on it."""
        del provider
        thinks = "magistral" in model_name or (self.model is not None and self.model.thinking != "off")
        return "thinking" if thinks else ""

    def wants_alternation(self, model_name: str) -> bool:
        del model_name
        return True

    def encode(self, message: LLMMessage, reasoning: str) -> dict[str, Any]:
        wire: dict[str, Any] = {"role": message.role.value, "content": content_parts(message)}
        if message.role is Role.tool:
            named = {"name": wire_name(message.name)} if message.name else {}
            return {**wire, "tool_call_id": message.tool_call_id or "", **named}
        if message.role is not Role.assistant:
            return wire
        if reasoning and message.reasoning_content:
            said = [{"type": "text", "text": message.content}] if message.content else []
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": message.reasoning_content}]}
            wire["content"] = [thought, *said]
        if message.tool_calls:
            wire["tool_calls"] = [tool_call(call) for call in message.tool_calls]
        elif not wire["content"]:
            wire["content"] = STAND_IN
        return wire
