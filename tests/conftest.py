"""Fixtures for all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest

from kin_nb.replay.format.notebook_reader import import_nbformat
from tests.model_server import ModelServer
from tests.notebook.people import UNPLAYED

os.environ["KIN_SAVE"] = UNPLAYED

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun in the background of a shell, which programs inherit
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as above, with nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

import_nbformat()  # before a test's own import of it, which would take a second longer


def pytest_collection_finish() -> None:
    """Thousands of tests stay where they are: the garbage collector need not look through them again and again."""
    gc.freeze()


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    """A scripted model server on loopback; every history sent to it must be one that OpenAI accepts."""
    with ModelServer.start() as server:
        yield server
        assert server.violations == []
