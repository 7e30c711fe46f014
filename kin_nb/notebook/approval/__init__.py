"""Questions to the user: with widgets, with `input()`, or a refusal where no user can answer.

Owns: how a question is shown and its answer read. Never: decides by itself, stores grants, or records.
May import: `kin_nb.core`, `kin_nb.render`, `kin_nb.notebook`'s cell_io, tap, main_thread_loop; ipywidgets on first use.
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
