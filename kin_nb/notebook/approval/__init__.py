"""Asking the person in front of the cell: by widget, by `input()`, or not at all, which is a refusal and says so.

Owns: how a question is shown and its answer read. Never: decides by itself, remembers grants, or records.
"""

from kin_nb.notebook.approval.channel import ApprovalChannel, can_answer, choose_channel, draws_widgets
from kin_nb.notebook.approval.question import choose_question_channel
from kin_nb.notebook.approval.widget import CardPlace

__all__ = [
    "ApprovalChannel",
    "CardPlace",
    "can_answer",
    "choose_channel",
    "choose_question_channel",
    "draws_widgets",
]
