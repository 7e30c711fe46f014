"""Schedule the calls of one reply: which of them may run in parallel, according to their declared accesses.

Contract: conflicting calls keep the model's order, also if the conflict arises only after earlier calls have run
(`wait_for_conflicts`). Other calls do not wait for each other. A path includes the tree below it. This only orders calls; the
safety chain decides whether a call may run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kin_nb.core.safety.decision import ToolRequest
from kin_nb.core.tools.resolve import FailedToolCall, ResolvedToolCall, re_resolve
from kin_nb.core.workspace import Workspace

AnyCall = ResolvedToolCall | FailedToolCall


@dataclass(frozen=True)
class Slot:
    """`after`: positions of the calls that must end before this one starts; `same_as`: the call whose answer it shares."""

    after: tuple[int, ...] = ()
    same_as: int | None = None


def slots(calls: Sequence[AnyCall]) -> list[Slot]:
    """Return the slot of each call, in call order."""
    found: list[Slot] = []
    for index, call in enumerate(calls):
        before = calls[:index]
        after = tuple(i for i, other in enumerate(before) if _conflict(call, other))
        found.append(Slot(after, _same(call, before)))
    return found


async def wait_for_conflicts(
    call: ResolvedToolCall, before: Mapping[asyncio.Task[None], AnyCall], workspace: Workspace
) -> ResolvedToolCall:
    """Wait until no conflicting call of `before` runs any more, and return the call with its paths resolved again.

    `before`: the earlier calls; empty if the call did not wait for any. Earlier calls may have created links, and so conflicts.
    """
    while before:
        call = re_resolve(call, workspace)
        running = [
            task for task, other in before.items() if not task.done() and _conflict(call, _as_now(other, workspace))
        ]
        if not running:
            break
        await asyncio.wait(running)
    return call


def conflict(one: ToolRequest, other: ToolRequest) -> bool:
    """Whether the order of two calls matters: one may write what the other touches, or both use the same tool's state."""
    if _alone(one) or _alone(other):
        return True
    if one.tool_name == other.tool_name and not (_touches(one) and _touches(other)):
        return True
    return _writes_into(one, other) or _writes_into(other, one)


def _conflict(one: AnyCall, other: AnyCall) -> bool:
    if isinstance(one, FailedToolCall) or isinstance(other, FailedToolCall):
        return False
    return conflict(one.request, other.request)


def _as_now(call: AnyCall, workspace: Workspace) -> AnyCall:
    if isinstance(call, FailedToolCall):
        return call
    try:
        return re_resolve(call, workspace)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  (a custom tool's own code; that call reports the error itself)
        return call


def _alone(request: ToolRequest) -> bool:
    return request.accesses.everything and not request.accesses.shared


def _touches(request: ToolRequest) -> bool:
    accesses = request.accesses
    return bool(accesses.reads or accesses.writes or accesses.everything or accesses.network)


def _writes_into(one: ToolRequest, other: ToolRequest) -> bool:
    if other.accesses.everything and one.write_paths:
        return True
    return _overlap(one.write_paths, (*other.write_paths, *other.read_paths))


def _overlap(ones: Iterable[Path], others: Sequence[Path]) -> bool:
    return any(a.is_relative_to(b) or b.is_relative_to(a) for a in ones for b in others)


def _same(call: AnyCall, before: Sequence[AnyCall]) -> int | None:
    """The nearest earlier identical call, if no call in between could change the answer."""
    if isinstance(call, FailedToolCall):
        return None
    wanted = _identity(call)
    for index in range(len(before) - 1, -1, -1):
        other = before[index]
        if isinstance(other, ResolvedToolCall):
            if _identity(other) == wanted:
                return index
            if conflict(call.request, other.request):
                return None
    return None


def _identity(call: ResolvedToolCall) -> tuple[str, str]:
    return call.tool_name, json.dumps(call.args.model_dump(mode="json"), sort_keys=True)
