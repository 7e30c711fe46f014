"""The backend for each kind of server, and the names that programs import from here (seed 003)."""

from __future__ import annotations

from kin_nb.core.config import Backend
from kin_nb.core.llm.adapters.anthropic import AnthropicAdapter
from kin_nb.core.llm.adapters.base import BACKEND_ADAPTERS, APIAdapter, PreparedRequest, register_adapter
from kin_nb.core.llm.adapters.openai import MistralAdapter, OpenAIAdapter
from kin_nb.core.llm.backend.client import get_user_agent
from kin_nb.core.llm.backend.http_backend import GenericBackend
from kin_nb.core.llm.backend.mistral import MistralBackend

__all__ = [
    "BACKEND_ADAPTERS",
    "BACKEND_FACTORY",
    "APIAdapter",
    "AnthropicAdapter",
    "GenericBackend",
    "MistralAdapter",
    "MistralBackend",
    "OpenAIAdapter",
    "PreparedRequest",
    "get_user_agent",
    "register_adapter",
]

BACKEND_FACTORY: dict[Backend, type[GenericBackend]] = {
    Backend.GENERIC: GenericBackend,
    Backend.MISTRAL: MistralBackend,
}
