"""Asking with `input()`: consoles, terminals, and front ends without widgets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.notebook.approval.choices import choices
from kin_nb.notebook.approval.editor import edited_args, original_text
from kin_nb.notebook.pump import SubmitMain

_HOLDS = {"session": "allow for this session", "always": "allow always"}
_WORDS = {"session": "s", "always": "a", "s1": "s", "a1": "a"}
"""What is also understood, for the letter of the first scope."""
_EDIT = ("e", "edit")
_TRIES = 3
_HOW = "n = refuse, other text = refuse and tell the agent: "
_NOT_HERE = "Editing this needs the notebook: here one line can be typed. y = allow it as it is"


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
            prompt = f"Nothing was changed. y = allow it as it is\n{_HOW}"
    return ApprovalDecision(approved=False, message="no answer")


def is_one_line(request: ApprovalRequest) -> bool:
    """Whether it may be typed anew here: a command, or code, of one line."""
    if not request.editable or request.preview.kind not in ("command", "code"):
        return False
    return "\n" not in original_text(request).strip()


def prompt_text(request: ApprovalRequest) -> str:
    from kin_nb.render.approval import approval_text  # noqa: PLC0415  (drawing is only needed when somebody is asked)

    preview = request.preview
    asked = (preview.summary, request.reason, preview.body, preview.kind, request.risk)
    parts = [approval_text(*asked, claim=preview.claim), "y = allow"]
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
