"""Approvals: who decides on calls that ask, and what was granted. A session and its subagents share one."""

from __future__ import annotations

from pathlib import Path

from kin_nb.core.questions import AskQuestion, nobody
from kin_nb.core.safety.callbacks import ApprovalCallback, Ask, from_callback, refuse
from kin_nb.core.safety.grants import Grants


class Approvals:
    """`ask` decides on a call; by default each one that asks is refused, with how to allow it. `grants`: of this session.

    `ask_question` answers the agent's other questions. `open_files`: resolved paths of files that a front end has open and will
    write over. `allows_tools`: False tells the model that it may call no tool, and none runs.
    """

    def __init__(self) -> None:
        self.ask: Ask = refuse
        self.ask_question: AskQuestion = nobody
        self.grants = Grants()
        self.open_files: frozenset[Path] = frozenset()
        self.allows_tools = True
        self._callback: ApprovalCallback | None = None

    @property
    def callback(self) -> ApprovalCallback | None:
        """The callback of the seeds, where one was set. Setting it makes it decide; None: each call that asks is refused."""
        return self._callback

    @callback.setter
    def callback(self, callback: ApprovalCallback | None) -> None:
        self._callback = callback
        self.ask = refuse if callback is None else from_callback(callback)
