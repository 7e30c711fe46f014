"""Cards: recorded values in, MIME bundles out; the same bytes live, in playback and in a saved notebook.

Owns: how a turn looks, as HTML that is readable without CSS, and as plain text. Pure: no clock, random id or global state.
Never: touches files, widgets or the kernel; trusts a text (all text is escaped, control characters are made visible).
What varies between runs goes to `Output.metadata`, not to `data`.
May import: kin_nb.core; markdown_it, nh3 and pygments on first use.
"""

from kin_nb.render.approval import approval_html, approval_text, render_run_question
from kin_nb.render.call import render_call
from kin_nb.render.card import Output, render_notice
from kin_nb.render.changes import render_undo
from kin_nb.render.command import render_record, render_result
from kin_nb.render.diff import diff_text, render_diff, side_by_side
from kin_nb.render.images import render_images, render_prompt_images
from kin_nb.render.text import CARD_LIMIT, clean, one_line, reveal_hidden
from kin_nb.render.turn import (
    render_attachments,
    render_compaction,
    render_reply,
    render_step_notes,
    render_summary_line,
    render_turn,
)

__all__ = [
    "CARD_LIMIT",
    "Output",
    "approval_html",
    "approval_text",
    "clean",
    "diff_text",
    "one_line",
    "render_attachments",
    "render_call",
    "render_compaction",
    "render_diff",
    "render_images",
    "render_notice",
    "render_prompt_images",
    "render_record",
    "render_reply",
    "render_result",
    "render_run_question",
    "render_step_notes",
    "render_summary_line",
    "render_turn",
    "render_undo",
    "reveal_hidden",
    "side_by_side",
]
