"""The seeds' approval callbacks, adapted to the one way of asking."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TypeAlias

from pydantic import BaseModel

from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest

FREE_SPACE = "{tool} was refused: {reason}, and nobody can be asked here. Free space on that disk, then ask again."
Ask = Callable[[ApprovalRequest], Awaitable[ApprovalDecision]]

NOBODY = (
    "{tool} was refused: {reason}, and nobody can be asked here. To allow it, run in a notebook where you can answer"
)


async def refuse(request: ApprovalRequest) -> ApprovalDecision:
    """Nobody can be asked: never a hang, never a silent yes."""
    if request.without_undo:
        text = FREE_SPACE.format(tool=request.tool_name, reason=request.reason)
    else:
        nobody = NOBODY.format(tool=request.tool_name, reason=request.reason)
        text = f"{', or '.join([nobody, *request.ways_to_allow])}."
    return ApprovalDecision(False, text, by="headless")


def from_callback(callback: ApprovalCallback) -> Ask:
    """`(tool_name, args, tool_call_id) -> (response, message)`, sync or async (seed 002)."""

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        answer = callback(request.tool_name, request.args, request.tool_call_id)
        response, message = await answer if inspect.isawaitable(answer) else answer
        return ApprovalDecision(response == ApprovalResponse.YES, message, by="callback")

    return ask


class ApprovalResponse(StrEnum):
    YES = "y"
    NO = "n"


AsyncApprovalCallback: TypeAlias = Callable[[str, BaseModel, str], Awaitable[tuple[ApprovalResponse, str | None]]]


SyncApprovalCallback: TypeAlias = Callable[[str, BaseModel, str], tuple[ApprovalResponse, str | None]]


ApprovalCallback: TypeAlias = AsyncApprovalCallback | SyncApprovalCallback
