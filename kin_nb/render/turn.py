"""A whole turn as the displays of its cell."""

from __future__ import annotations

from kin_nb.core.session.records import TurnRecord
from kin_nb.render.before_reply import render_before_reply
from kin_nb.render.call import render_call
from kin_nb.render.compaction import render_compaction
from kin_nb.render.output import Output
from kin_nb.render.receipt import render_receipt
from kin_nb.render.reply import render_reply


def render_turn(record: TurnRecord) -> list[Output]:
    """Per step its compaction, what came before its reply, and that, where there are such; its calls in order. The receipt last.

    nbval compares the order.
    """
    outputs = []
    for number, step in enumerate(record.steps, 1):
        if step.compaction is not None:
            outputs.append(render_compaction(step.compaction, turn=record.turn, step=number))
        outputs += render_before_reply(step, turn=record.turn, number=number)
        if step.content.strip() or step.reasoning.strip():
            outputs.append(render_reply(step, turn=record.turn, number=number))
        outputs += [render_call(call, turn=record.turn, step=number) for call in step.calls]
    return [*outputs, render_receipt(record)]
