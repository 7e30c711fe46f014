"""What went to the model with the prompt, in a quiet line."""

from __future__ import annotations

from kin_nb.core.session.records import TurnRecord
from kin_nb.render.output import Output, frame
from kin_nb.render.text import count, escape, one_line

_MOST = 20


def render_attached(record: TurnRecord) -> list[Output]:
    """One card, or none: `sent: df (3 columns, 1.2 KB), src/a.py`."""
    if not record.attached:
        return []
    labels = [one_line(label, 200) for label in record.attached[:_MOST]]
    more = len(record.attached) - _MOST
    others = f" and {count(more, 'other')}" if more > 0 else ""
    line = f"sent: {', '.join(labels)}{others}"
    html = frame(f"<small>{escape(line)}</small>", label="sent with the prompt")
    return [Output.of(html, line, kind="sent", turn=record.turn)]
