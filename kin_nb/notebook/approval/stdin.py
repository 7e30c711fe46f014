"""Asking with `input()`: consoles, terminals, and front ends without widgets."""

from __future__ import annotations

from functools import partial

from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.notebook.pump import SubmitMain


async def ask_by_stdin(request: ApprovalRequest, submit_main: SubmitMain) -> ApprovalDecision:
    """Show the whole request and read one line. End of input and Ctrl-C interrupt the turn.

    Raises IPython's StdinNotImplementedError (a NotImplementedError) where the client takes no input.
    """
    return read_answer(await submit_main(partial(_input, prompt_text(request))), request)


def prompt_text(request: ApprovalRequest) -> str:
    from kin_nb.render.approval import approval_text  # noqa: PLC0415  (drawing is only needed when somebody is asked)

    preview = request.preview
    text = approval_text(preview.summary, request.reason, preview.body, preview.kind, request.scopes[:1])
    session = ", s = allow for this session" if request.scopes else ""
    return f"{text}\ny = allow{session}, n = refuse, other text = refuse and tell the agent: "


def read_answer(answer: str, request: ApprovalRequest) -> ApprovalDecision:
    """`s` grants `request.scopes[0]`, the narrowest. Other text refuses with that note; nothing, without one."""
    text = answer.strip()
    match text.lower():
        case "y" | "yes":
            return ApprovalDecision(approved=True)
        case "s" | "session" if request.scopes:
            return ApprovalDecision(approved=True, scope="session")
        case "" | "n" | "no":
            return ApprovalDecision(approved=False)
    return ApprovalDecision(approved=False, message=text)


def _input(prompt: str) -> str:
    try:
        return input(prompt)
    except EOFError:
        raise KeyboardInterrupt from None
