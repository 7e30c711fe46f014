"""Which way this cell's client can answer. Never a hang, never a silent yes."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TypeAlias

from kin_nb.core.config import ConfigError
from kin_nb.core.safety.callbacks import FREE_SPACE
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.notebook.approval.card import NoWidgetsError
from kin_nb.notebook.approval.stdin import ask_by_stdin
from kin_nb.notebook.approval.widget import CardPlace, ask_by_widget
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.pump import SubmitMain
from kin_nb.notebook.tap import TapRun

ApprovalChannel: TypeAlias = Callable[[ApprovalRequest], Awaitable[ApprovalDecision]]
"""`await ask(request)`, on the agent's loop."""


class Way(StrEnum):
    WIDGET = "widget"
    STDIN = "stdin"
    HEADLESS = "headless"


def choose_channel(
    io: CellOutput,
    *,
    run: TapRun,
    submit_main: SubmitMain,
    place: Callable[[ApprovalRequest], CardPlace],
) -> ApprovalChannel:
    """Widget, `input()` or refusal, as the cell's client allows; KIN_APPROVAL=widget|stdin|headless overrides.

    A cell id in the request's metadata means a notebook front end: a widget, as long as `run` hears its comms. When
    that client closes our comm it has no widgets: from then on this channel asks by `input()` where `allow_stdin`, and
    refuses elsewhere. `place` says where a request's card belongs. Raises ConfigError for another KIN_APPROVAL.
    """
    return _CellChannel(io, run, submit_main, place)


class _CellChannel:
    def __init__(
        self,
        io: CellOutput,
        run: TapRun,
        submit_main: SubmitMain,
        place: Callable[[ApprovalRequest], CardPlace],
    ) -> None:
        self._io, self._run, self._submit_main, self._place = io, run, submit_main, place
        self._way = first_way(io, run)

    async def __call__(self, request: ApprovalRequest) -> ApprovalDecision:
        if self._way is Way.WIDGET:
            try:
                return await ask_by_widget(request, io=self._io, run=self._run, place=self._place(request))
            except NoWidgetsError:
                self._way = way_without_widgets(self._io)
        if self._way is Way.STDIN:
            try:
                return await ask_by_stdin(request, self._submit_main, self._io.asking)
            except NotImplementedError:  # IPython's StdinNotImplementedError: this client takes no input()
                self._way = Way.HEADLESS
        return refuse_headless(request)


def draws_widgets(io: CellOutput, run: TapRun) -> bool:
    """Whether this cell's client may draw widgets, as far as that is known before any is shown."""
    return first_way(io, run) is Way.WIDGET


def somebody_answers(io: CellOutput, run: TapRun) -> bool:
    """Whether a question of ours would reach a person."""
    return first_way(io, run) is not Way.HEADLESS


def first_way(io: CellOutput, run: TapRun) -> Way:
    """What to try first, for approvals and questions alike. Raises ConfigError for an unknown KIN_APPROVAL."""
    return _forced() or (Way.WIDGET if io.cell_id and run.hears else way_without_widgets(io))


def way_without_widgets(io: CellOutput) -> Way:
    """What is left once the cell's client has said that it draws none."""
    return Way.STDIN if io.allow_stdin else Way.HEADLESS


def refuse_headless(request: ApprovalRequest) -> ApprovalDecision:
    """Nobody can answer here: a refusal that says how to allow it."""
    if request.without_undo:
        message = FREE_SPACE.format(tool=request.tool_name, reason=request.reason)
        return ApprovalDecision(approved=False, message=message, by="headless")
    message = (
        f"{request.tool_name} was refused: it needs approval ({request.reason}) and nobody can answer here. "
        "To allow it, open the notebook in JupyterLab, or use `%%kin --mode auto-approve`, "
        "or `kin-nb replay --tools --approve recorded`."
    )
    return ApprovalDecision(approved=False, message=message, by="headless")


def _forced() -> Way | None:
    wanted = os.environ.get("KIN_APPROVAL")
    if not wanted:
        return None
    try:
        return Way(wanted)
    except ValueError:
        raise ConfigError(f'KIN_APPROVAL = "{wanted}" is no way to ask. Known: {", ".join(Way)}.') from None
