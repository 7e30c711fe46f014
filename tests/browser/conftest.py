"""Fixtures of the browser tests: two front ends, one Chromium, a folder and a page for each test."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext

from browser.chromium import running_chromium
from browser.lab import Lab
from browser.servers import FrontEnd, JupyterHome, JupyterServer, jupyter_server

LAB_FIRST = pytest.mark.parametrize(
    "front_end", ["lab", pytest.param("notebook", marks=pytest.mark.long)], indirect=True
)
"""What both front ends share is tried in one: Notebook 7 is made of JupyterLab's parts."""
FRONT_ENDS: tuple[FrontEnd, ...] = ("lab", "notebook")
RESULTS = Path(__file__).parents[2] / "test-results"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under xdist a file's tests in JupyterLab stay on one worker, and all tests in Notebook: few servers start.
    KIN_SCREENSHOTS runs only what takes one.
    """
    if os.environ.get("KIN_SCREENSHOTS"):
        items[:] = [item for item in items if "pictures" in getattr(item, "fixturenames", ())]
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")
            parameters = item.callspec.params if hasattr(item, "callspec") else {}
            front_end = parameters.get("front_end", "lab")
            item.add_marker(pytest.mark.xdist_group(item.path.stem if front_end == "lab" else front_end))


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Package scope: Playwright's loop must not outlive it."""
    with running_chromium() as chromium:
        yield chromium


@pytest.fixture(scope="package")
def window(browser: Browser) -> BrowserContext:
    """What all pages share, so that JupyterLab's files are loaded and compiled once."""
    return browser.new_context(viewport={"width": 1280, "height": 1000})


@pytest.fixture(scope="package")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[FrontEnd], JupyterServer]]:
    """The running server of a front end, started when first asked for."""
    home = JupyterHome(tmp_path_factory.mktemp("jupyter"))
    home.create()
    running: dict[FrontEnd, JupyterServer] = {}
    with ExitStack() as stack:

        def start(front_end: FrontEnd) -> JupyterServer:
            if front_end not in running:
                running[front_end] = stack.enter_context(jupyter_server(front_end, home))
            return running[front_end]

        yield start


@pytest.fixture(params=FRONT_ENDS)
def front_end(request: pytest.FixtureRequest) -> FrontEnd:
    return request.param


@pytest.fixture
def server(jupyter: Callable[[FrontEnd], JupyterServer], front_end: FrontEnd) -> JupyterServer:
    return jupyter(front_end)


@pytest.fixture
def kin_home(server: JupyterServer) -> Path:
    """KIN_HOME of the test's kernels, empty: write config.toml here before the first cell runs."""
    shutil.rmtree(server.home.kin_home)
    server.home.kin_home.mkdir()
    return server.home.kin_home


@pytest.fixture
def workspace(server: JupyterServer, request: pytest.FixtureRequest) -> Path:
    """The folder of the test's notebook, and its kernel's working directory."""
    folder = server.home.notebooks / re.sub(r"\W+", "-", request.node.name).strip("-")
    folder.mkdir()
    return folder


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where screenshots go: the folder that `make screenshots` names, else one that is thrown away."""
    folder = Path(os.environ.get("KIN_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def lab(
    window: BrowserContext, server: JupyterServer, workspace: Path, request: pytest.FixtureRequest
) -> Iterator[Lab]:
    """A page of its own, and no kernel left after it. A failed test leaves a picture in test-results/."""
    failed_before = request.session.testsfailed
    lab = Lab(window.new_page(), server, workspace)
    yield lab
    if request.session.testsfailed > failed_before:
        RESULTS.mkdir(exist_ok=True)
        lab.screenshot(RESULTS / f"{workspace.name}.png")
        (RESULTS / f"{workspace.name}.txt").write_text("\n".join([*lab.console_errors, *server.log]))
    lab.page.close()
    server.shut_down_kernels()
