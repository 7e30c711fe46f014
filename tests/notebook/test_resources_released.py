"""A kernel lives for days: agents, threads and tools that are not used any more are released, and so is a kernel itself."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kin_nb.core.agent import Agent
from kin_nb.notebook.namespace.python import Python
from tests.notebook.in_process_page import InProcessPage

ONE_AGENT = dict.fromkeys(
    [
        "Agent",
        "KinMagics",
        "NotebookSessions",
        "RecordedAnswers",
        "OutputBackup",
        "AgentThread",
        "NotebookSession",
        "Python",
    ],
    1,
)
"""What a kernel has whose notebook has one session, by the names of classes; `Python` is a tool's, made for that kernel."""


def living() -> list[Any]:
    """kin_nb's objects of these classes, and the classes that an agent's tools have."""
    gc.collect()
    return [each for each in gc.get_objects() if _is_ours(each)]


def _is_ours(each: Any) -> bool:
    """Objects of other programs may have anything for a module."""
    if type(each) is type(Python):
        return Python in each.__mro__[1:]
    return str(type(each).__module__).startswith("kin_nb.") and type(each).__name__ in ONE_AGENT


@pytest.fixture
def alive() -> Callable[[], Counter[str]]:
    """How many there are of each class, without those of tests before this one."""
    before = living()

    def count() -> Counter[str]:
        others = {id(each) for each in before}
        names = (
            each.__name__ if isinstance(each, type) else type(each).__name__
            for each in living()
            if id(each) not in others
        )
        return Counter(names)

    return count


@pytest.fixture
def saved(alive, page: InProcessPage) -> InProcessPage:
    """One answer; `talk.kin.ipynb` is open, and plays."""
    page.answered("%%kin\nHello.", "Hi.")
    page.save()
    page.command("%kin save")
    page.open(page.file.with_name("talk.kin.ipynb"))
    assert set(page.run_all()) == {""}
    return page


def asked(page: InProcessPage) -> None:
    page.answered(f"%%kin\nPrompt {len(page.cells)}.", "Hi again.")


@pytest.mark.parametrize("command", ["%kin clear", "%reload_ext kin_nb", "%kin replay", "%kin resume"])
def test_of_many_agents_one_is_left(saved, alive, command):
    command = saved.cells[0]["source"].partition("\n")[2] if command == "%kin replay" else command
    asked(saved)
    for _ in range(4):
        saved.command(command)
        asked(saved)
    assert alive() == ONE_AGENT
    assert [thread.name for thread in threading.enumerate()].count("kin-agent") == 1


def test_an_unloaded_extension_leaves_nothing_in_the_kernel(saved, alive):
    asked(saved)
    saved.command("%unload_ext kin_nb")
    assert not alive()


def test_a_kernel_that_ended_is_released(saved):
    asked(saved)
    shell = weakref.ref(saved.kernel.shell)
    agents = [weakref.ref(each) for each in gc.get_objects() if isinstance(each, Agent)]
    saved.restart()
    gc.collect()
    assert shell() is None
    assert [ref() for ref in agents] == [None] * len(agents)
