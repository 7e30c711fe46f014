"""Asking with `input()`: consoles, terminals, and front ends without widgets."""

from __future__ import annotations

from functools import partial

from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.notebook.approval.choices import choices
from kin_nb.notebook.pump import SubmitMain

_HOLDS = {"session": "allow for this session", "always": "allow always"}
_WORDS = {"session": "s", "always": "a", "s1": "s", "a1": "a"}
"""What is also understood, for the letter of the first scope."""


async def ask_by_stdin(request: ApprovalRequest, submit_main: SubmitMain) -> ApprovalDecision:
    """Show the whole request and read one line. End of input and Ctrl-C interrupt the turn.

    Raises IPython's StdinNotImplementedError (a NotImplementedError) where the client takes no input.
    """
    return read_answer(await submit_main(partial(read_line, prompt_text(request))), request)


def prompt_text(request: ApprovalRequest) -> str:
    from kin_nb.render.approval import approval_text  # noqa: PLC0415  (drawing is only needed when somebody is asked)

    preview = request.preview
    parts = [approval_text(preview.summary, request.reason, preview.body, preview.kind, request.risk), "y = allow"]
    parts += [f"{choice.key} = {_HOLDS[choice.decision.scope]}: {choice.covers}" for choice in choices(request)]
    return "\n".join([*parts, "n = refuse, other text = refuse and tell the agent: "])


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
