"""Fixtures for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.model_server import ModelServer


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    """A scripted model server on loopback; every history sent to it must be one that OpenAI accepts."""
    with ModelServer.start() as server:
        yield server
        assert server.violations == []
