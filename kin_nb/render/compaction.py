"""A compaction as a card: the conversation gave way to a summary of itself."""

from __future__ import annotations

from kin_nb.core.session.records import RecordedCompaction
from kin_nb.render.markdown import markdown_html
from kin_nb.render.output import Output, frame
from kin_nb.render.text import clean


def render_compaction(compaction: RecordedCompaction, *, turn: int, step: int) -> Output:
    """The sizes in sight, the summary folded; text/plain has both."""
    fact = f"conversation compacted: {compaction.old_tokens:,} tokens became {compaction.new_tokens:,}"
    if compaction.summarised:
        messages = "message" if compaction.summarised == 1 else "messages"
        fact += f"; {compaction.summarised:,} {messages} summarised, {compaction.kept:,} kept"
    summary = clean(compaction.summary).strip()
    html = frame(f"<small>{fact}</small>", markdown_html(summary), label="compaction", unfolded=False)
    return Output.of(html, f"[{fact}]\n{summary}", kind="compaction", turn=turn, step=step)
