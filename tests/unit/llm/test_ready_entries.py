"""The providers and models that every configuration starts with."""

from __future__ import annotations

import subprocess
import sys

from kin_nb import __version__
from kin_nb.core.config import Backend
from kin_nb.core.config.entries import default_models, default_providers
from kin_nb.core.llm.backend.generic import BACKEND_ADAPTERS, BACKEND_FACTORY, MistralBackend, get_user_agent

PROVIDERS = {provider.name: provider for provider in default_providers()}


def test_aliases_are_unique_and_the_first_four_are_the_old_ones() -> None:
    aliases = [model.alias for model in default_models()]
    assert len(set(aliases)) == len(aliases)
    assert aliases[:4] == ["devstral-2", "devstral-small", "local", "ollama"]


def test_each_model_has_a_provider_that_can_be_made(subtests) -> None:
    for model in default_models():
        with subtests.test(model=model):
            provider = PROVIDERS[model.provider]
            BACKEND_FACTORY[provider.backend](provider)
            assert bool(model.input_price) == bool(model.output_price)


def test_remote_providers_want_a_key_and_local_ones_none(subtests) -> None:
    for provider in default_providers():
        with subtests.test(provider=provider):
            assert bool(provider.api_key_env_var) is provider.api_base.startswith("https://")


def test_the_wire_formats_are_registered() -> None:
    assert {"openai", "mistral", "anthropic"} <= set(BACKEND_ADAPTERS)
    assert BACKEND_FACTORY[Backend.MISTRAL] is MistralBackend


def test_the_user_agent_is_ours() -> None:
    assert {get_user_agent(backend) for backend in Backend} == {f"kin_nb/{__version__}"}


def test_importing_the_backends_loads_no_http_client() -> None:
    program = "import sys, kin_nb.core.llm.backend.generic; print([m for m in ('httpx', 'httpx_sse', 'anyio') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
