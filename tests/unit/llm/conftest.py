"""Servers of every wire format. A test that means to break a rule starts one of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.anthropic_server import AnthropicServer
from tests.model_server import ModelServer


@pytest.fixture
def mistral_server() -> Iterator[ModelServer]:
    with ModelServer.start(rules="mistral") as server:
        yield server
        assert server.violations == []


@pytest.fixture
def anthropic_server() -> Iterator[AnthropicServer]:
    with AnthropicServer.start() as server:
        yield server
        assert server.violations == []
