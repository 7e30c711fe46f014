"""What happened to the conversation before a reply: results shortened, a D-Mail, a reminder. A quiet line for each."""

from __future__ import annotations

from kin_nb.core.session.records import RecordedDMail, RecordedStep
from kin_nb.render.output import AMBER, GREY, Output, frame
from kin_nb.render.text import clip, count, escape, indent, literal, one_line, pre

REMINDER = "You repeat yourself: "
"""How a reminder to a model that goes in circles begins (core/context/loops/wording.py)."""
_LONGEST = 1_000


def render_before_reply(step: RecordedStep, *, turn: int, number: int) -> list[Output]:
    """One card for each of the three that the step has, in this order. `metadata["kin"]["kind"]` tells them apart."""
    outputs = []
    if step.pruned:
        old = count(len(step.pruned), "old tool result")
        outputs.append(_quiet(f"{old} shortened, to make room", kind="pruned", turn=turn, step=number))
    if step.dmail is not None:
        outputs.append(_dmail(step.dmail, turn=turn, step=number))
    if reminder := _reminder(step.injected):
        outputs.append(_quiet(f"kin_nb told the model: {reminder}", kind="told", turn=turn, step=number))
    return outputs


def _reminder(injected: str) -> str:
    """What a person should see of the notes that went with a request; the others go with each (plan mode)."""
    return one_line(" ".join(note for note in injected.split("\n\n") if note.startswith(REMINDER)), _LONGEST)


def _quiet(line: str, *, kind: str, turn: int, step: int) -> Output:
    html = frame(f"<small>{escape(line)}</small>", label=kind, color=GREY)
    return Output.of(html, f"[{line}]", kind=kind, turn=turn, step=step)


def _dmail(mail: RecordedDMail, *, turn: int, step: int) -> Output:
    head = f"D-Mail: went back to before step {mail.step}, with this message"
    message = clip(literal(mail.message.strip()))
    html = frame(f"<b>{head}:</b>", pre(message), label="D-Mail", color=AMBER)
    return Output.of(html, f"[{head}]\n{indent(message)}", kind="dmail", turn=turn, step=step)
