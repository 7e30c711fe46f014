"""What a request offers besides yes and no: the same choices, in the same order, as buttons and as letters to type."""

from __future__ import annotations

from typing import NamedTuple

from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest

_MOST_SCOPES = 2


class Choice(NamedTuple):
    """`key` is what is typed for it, `covers` the scope in words, safe to show."""

    key: str
    covers: str
    decision: ApprovalDecision


def choices(request: ApprovalRequest) -> list[Choice]:
    """For this session, then always: each of the first two scopes, and "always" for those that a rule can say."""
    offered = list(enumerate(request.scopes[:_MOST_SCOPES]))
    session = [ApprovalDecision(True, scope="session", grant=index) for index, _ in offered]
    always = [ApprovalDecision(True, scope="always", grant=index) for index, grant in offered if grant.may_last]
    return [_choice(request, decision) for decision in (*session, *always)]


def covered(request: ApprovalRequest, decision: ApprovalDecision) -> str:
    """The scope of a decision in words: "" for one that is about this call only."""
    from kin_nb.render.text import one_line  # noqa: PLC0415  (drawing is only needed when somebody is asked)

    return one_line(request.scopes[decision.grant].label) if decision.scope != "once" else ""


def _choice(request: ApprovalRequest, decision: ApprovalDecision) -> Choice:
    number = str(decision.grant + 1) if decision.grant else ""
    return Choice(decision.scope[0] + number, covered(request, decision), decision)
