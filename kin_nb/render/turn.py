"""A whole turn as the displays of its cell."""

from __future__ import annotations

from kin_nb.core.session.records import TurnRecord
from kin_nb.render.attached import render_attached
from kin_nb.render.before_reply import render_before_reply
from kin_nb.render.call import render_call
from kin_nb.render.compaction import render_compaction
from kin_nb.render.images import render_images, render_prompt_images
from kin_nb.render.output import Output
from kin_nb.render.receipt import render_receipt
from kin_nb.render.reply import render_reply


def render_turn(record: TurnRecord) -> list[Output]:
    """What went with the prompt; per step its compaction, what came before its reply, that, its calls, the calls' pictures.

    Each where there is such, calls and pictures in call order. The receipt last. nbval compares the order.
    """
    outputs = [*render_attached(record), *render_prompt_images(record)]
    for number, step in enumerate(record.steps, 1):
        if step.compaction is not None:
            outputs.append(render_compaction(step.compaction, turn=record.turn, step=number))
        outputs += render_before_reply(step, turn=record.turn, number=number)
        if step.content.strip() or step.reasoning.strip():
            outputs.append(render_reply(step, turn=record.turn, number=number))
        outputs += [render_call(call, turn=record.turn, step=number) for call in step.calls]
        outputs += [image for call in step.calls for image in render_images(call, turn=record.turn, step=number)]
    return [*outputs, render_receipt(record)]
