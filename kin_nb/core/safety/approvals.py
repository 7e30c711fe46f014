"""Approvals: the function that answers calls that ask, and the session's grants. Approval callbacks are adapted to it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from pydantic import BaseModel

from kin_nb.core.questions import AskQuestion, no_user
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.safety.grants import Grants

Ask = Callable[[ApprovalRequest], Awaitable[ApprovalDecision]]

FREE_SPACE = "{tool} was refused: {reason}, and no one can approve it here. Free space on that disk, then ask again."
NO_APPROVER = (
    "{tool} was refused: {reason}, and no one can approve it here. To allow it, run in a notebook where you can answer"
)


class ApprovalResponse(StrEnum):
    YES = "y"
    NO = "n"


AsyncApprovalCallback: TypeAlias = Callable[[str, BaseModel, str], Awaitable[tuple[ApprovalResponse, str | None]]]
SyncApprovalCallback: TypeAlias = Callable[[str, BaseModel, str], tuple[ApprovalResponse, str | None]]
ApprovalCallback: TypeAlias = AsyncApprovalCallback | SyncApprovalCallback
"""An approval callback: `(tool_name, args, tool_call_id) -> (response, message)`."""


class Approvals:
    """Hold what answers approvals in a session. `ask`: answers a call that asks; the default refuses it and says how to allow it.

    `ask_question`: answers the ask_user tool. `grants`: approved for this session. `open_files`: resolved paths of files that are
    open in a front end. `allows_tools`: False tells the model that it may call no tool, and none runs.
    """

    def __init__(self) -> None:
        self.ask: Ask = refuse
        self.ask_question: AskQuestion = no_user
        self.grants = Grants()
        self.open_files: frozenset[Path] = frozenset()
        self.allows_tools = True
        self._callback: ApprovalCallback | None = None

    @property
    def callback(self) -> ApprovalCallback | None:
        """The approval callback, if one is set. Setting it replaces `ask`; None refuses each call that asks."""
        return self._callback

    @callback.setter
    def callback(self, callback: ApprovalCallback | None) -> None:
        self._callback = callback
        self.ask = refuse if callback is None else from_callback(callback)


async def refuse(request: ApprovalRequest) -> ApprovalDecision:
    """Refuse, because no one can approve here. It never waits and never approves."""
    if request.without_undo:
        text = FREE_SPACE.format(tool=request.tool_name, reason=request.reason)
    else:
        refusal = NO_APPROVER.format(tool=request.tool_name, reason=request.reason)
        text = f"{', or '.join([refusal, *request.ways_to_allow])}."
    return ApprovalDecision(False, text, by="headless")


def from_callback(callback: ApprovalCallback) -> Ask:
    """Adapt an approval callback, sync or async, to `Ask`."""

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        answer = callback(request.tool_name, request.args, request.tool_call_id)
        response, message = await answer if inspect.isawaitable(answer) else answer
        return ApprovalDecision(response == ApprovalResponse.YES, message, by="callback")

    return ask
