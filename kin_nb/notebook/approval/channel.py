"""Choose the channel on which this cell's client can answer, and ask by `input()`. Never hangs, never approves silently."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from enum import StrEnum
from functools import partial
from typing import TypeAlias

from kin_nb.core.config import ConfigError
from kin_nb.core.safety.approvals import FREE_SPACE
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.notebook.approval.card import NoWidgetsError
from kin_nb.notebook.approval.widget import CardPlace, ask_by_widget, choices, edited_args, original_text
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.main_thread_loop import SubmitMain
from kin_nb.notebook.tap import TapRun
from kin_nb.replay.environment import VARIABLE

_HOLDS = {"session": "allow for this session", "always": "allow always"}
_WORDS = {"session": "s", "always": "a", "s1": "s", "a1": "a"}
"""What is also understood, for the letter of the first scope."""
_EDIT = ("e", "edit")
_TRIES = 3
_HOW = "n = refuse, other text = refuse and tell the agent: "
_NOT_HERE = "Only one line can be edited here; edit longer text in JupyterLab. y = allow it unchanged"


async def ask_by_stdin(
    request: ApprovalRequest, submit_main: SubmitMain, asking: Callable[[str], str] = str
) -> ApprovalDecision:
    """Show the whole request, as `asking` makes it, and read one line. End of input and Ctrl-C interrupt the turn.

    Raises IPython's StdinNotImplementedError (a NotImplementedError) where the client takes no input.
    """
    prompt = asking(prompt_text(request))
    for _ in range(_TRIES):
        line = await submit_main(partial(read_line, prompt))
        if not (request.editable and line.strip().lower() in _EDIT):
            return read_answer(line, request)
        prompt = f"{_NOT_HERE}\n{_HOW}"
        if is_one_line(request):
            typed = (await submit_main(partial(read_line, "edit: "))).strip()
            if typed and typed != original_text(request).strip():
                return ApprovalDecision(approved=True, edited_args=edited_args(request, typed))
            prompt = f"Nothing was changed. y = allow it unchanged\n{_HOW}"
    return ApprovalDecision(approved=False, message="no answer")


def is_one_line(request: ApprovalRequest) -> bool:
    """Whether it can be edited here: a command, or code, of one line."""
    if not request.editable or request.preview.kind not in ("command", "code"):
        return False
    return "\n" not in original_text(request).strip()


def prompt_text(request: ApprovalRequest) -> str:
    from kin_nb.render.approval import approval_text  # noqa: PLC0415  (drawing is only needed when a user is asked)

    preview = request.preview
    asked = (preview.summary, request.reason, preview.body, preview.kind, request.risk)
    parts = [approval_text(*asked, claim=preview.claim, note=preview.note), "y = allow"]
    parts += ["e = edit it, then allow"] if is_one_line(request) else []
    parts += [f"{choice.key} = {_HOLDS[choice.decision.scope]}: {choice.covers}" for choice in choices(request)]
    return "\n".join([*parts, _HOW])


def read_answer(answer: str, request: ApprovalRequest) -> ApprovalDecision:
    """One of the letters that the prompt names. Other text refuses with that note; nothing, without one."""
    text = answer.strip()
    letter = text.lower()
    if letter in ("y", "yes"):
        return ApprovalDecision(approved=True)
    if letter in ("", "n", "no"):
        return ApprovalDecision(approved=False)
    offered = {choice.key: choice.decision for choice in choices(request)}
    return offered.get(_WORDS.get(letter, letter)) or ApprovalDecision(approved=False, message=text)


def read_line(prompt: str) -> str:
    """`input()`, for the main thread. The end of input interrupts the turn, as Ctrl-C does."""
    try:
        return input(prompt)
    except EOFError:
        raise KeyboardInterrupt from None


ApprovalChannel: TypeAlias = Callable[[ApprovalRequest], Awaitable[ApprovalDecision]]
"""`await ask(request)`, on the agent's loop."""


class Channel(StrEnum):
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
        self._way = first_channel(io, run)

    async def __call__(self, request: ApprovalRequest) -> ApprovalDecision:
        if self._way is Channel.WIDGET:
            try:
                return await ask_by_widget(request, io=self._io, run=self._run, place=self._place(request))
            except NoWidgetsError:
                self._way = channel_without_widgets(self._io)
        if self._way is Channel.STDIN:
            try:
                return await ask_by_stdin(request, self._submit_main, self._io.asking)
            except NotImplementedError:  # IPython's StdinNotImplementedError: this client takes no input()
                self._way = Channel.HEADLESS
        return refuse_headless(request)


def draws_widgets(io: CellOutput, run: TapRun) -> bool:
    """Whether this cell's client may draw widgets, as far as that is known before any is shown."""
    return first_channel(io, run) is Channel.WIDGET


def can_answer(io: CellOutput, run: TapRun) -> bool:
    """Whether a question would reach the user."""
    return first_channel(io, run) is not Channel.HEADLESS


def first_channel(io: CellOutput, run: TapRun) -> Channel:
    """Return the channel to try first, for approvals and questions. Raises ConfigError for an unknown KIN_APPROVAL."""
    return _forced() or (Channel.WIDGET if io.cell_id and run.is_listening else channel_without_widgets(io))


def channel_without_widgets(io: CellOutput) -> Channel:
    """Return the channel for a client that has reported that it draws no widgets."""
    return Channel.STDIN if io.allow_stdin else Channel.HEADLESS


def refuse_headless(request: ApprovalRequest) -> ApprovalDecision:
    """Refuse where no one can answer. The note names the narrowest way to allow the call: a rule only where one may."""
    if request.without_undo:
        message = FREE_SPACE.format(tool=request.tool_name, reason=request.reason)
        return ApprovalDecision(approved=False, message=message, by="headless")
    ways = ["run the notebook in JupyterLab to be asked"]
    if any(scope.may_last for scope in request.scopes):
        ways.append(f"allow it in config.toml (`[tools.{request.tool_name}] allowlist`)")
    if VARIABLE in os.environ:
        ways.append("replay with `--approve recorded` if you trust the recording")
    advice = f"{ways[0][0].upper()}{', or '.join(ways)[1:]}"
    message = f"{request.tool_name} was not run: {request.reason}.\nNo one can approve it here. {advice}."
    return ApprovalDecision(approved=False, message=message, by="headless")


def _forced() -> Channel | None:
    wanted = os.environ.get("KIN_APPROVAL")
    if not wanted:
        return None
    try:
        return Channel(wanted)
    except ValueError:
        raise ConfigError(f'KIN_APPROVAL must be {", ".join(Channel)}; got "{wanted}".') from None
