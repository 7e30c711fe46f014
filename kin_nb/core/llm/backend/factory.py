"""Which class talks to which kind of server (seed 003)."""

from __future__ import annotations

from kin_nb.core.config import Backend
from kin_nb.core.llm.backend.generic import GenericBackend
from kin_nb.core.llm.backend.mistral import MistralBackend

BACKEND_FACTORY: dict[Backend, type[GenericBackend]] = {
    Backend.GENERIC: GenericBackend,
    Backend.MISTRAL: MistralBackend,
}
