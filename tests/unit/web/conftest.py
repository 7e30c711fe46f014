"""A web on loopback, and a tool that may reach it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kin_nb.core.tools.builtins.web_fetch import WebFetch, WebFetchConfig, WebFetchState
from tests.unit.web.page_server import PageServer, pages


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """~/.kin-code, empty; and a proxy in the environment that nothing may go through."""
    folder = tmp_path_factory.mktemp("kin-home")
    monkeypatch.setenv("KIN_HOME", str(folder))
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    return folder


@pytest.fixture
def web() -> Iterator[PageServer]:
    with pages() as server:
        yield server


@pytest.fixture
def fetching() -> Callable[..., WebFetch]:
    """The tool, with settings of its own; it may reach loopback."""
    return lambda **settings: WebFetch(WebFetchConfig(**{"allow_private": True, **settings}), WebFetchState())


@pytest.fixture
def tool(fetching: Callable[..., WebFetch]) -> WebFetch:
    return fetching()


class Names:
    """What names resolve to, an answer for each time that one is asked for; the last one stays."""

    def __init__(self) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []
        self._real = socket.getaddrinfo

    def __call__(self, host: Any, port: Any, *args: Any, **kwargs: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in self.answers:
            return self._real(host, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
        self.asked.append(name)
        answers = self.answers[name]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (socket.AF_INET6 if ":" in each else socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port))
            for each in addresses
        ]


@pytest.fixture
def resolves(monkeypatch: pytest.MonkeyPatch) -> Names:
    """No name is looked up outside of this process."""
    names = Names()
    monkeypatch.setattr(socket, "getaddrinfo", names)
    return names
