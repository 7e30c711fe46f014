"""A result's text, made to fit: what the model gets of it, what the record has, and where all of it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kin_nb.core.session.whole_outputs import note
from kin_nb.core.tools.limits import MODEL_LIMIT, capped, closed

if TYPE_CHECKING:
    from kin_nb.core.session.recorder import TurnRecorder
    from kin_nb.core.tools.whole import Whole


class Fitted(NamedTuple):
    """`told`: to the model, without secrets. `recorded`: the same, redacted.

    `whole`: the file that has all of it, "" where there is none. `hint`: the last line of both, which says so then.
    """

    told: str
    recorded: str
    whole: str = ""
    hint: str = ""


def fits(text: str, whole: Whole | None) -> bool:
    """Whether nothing of it is cut: then `fitted` takes no time."""
    return whole is None and len(closed(text)) <= MODEL_LIMIT


def fitted(call_id: str, text: str, whole: Whole | None, recorder: TurnRecorder) -> Fitted:
    """`whole`: what the tool itself has cut; `text` is all there is when it is None.

    Takes seconds for 10 MB, on any thread: whoever calls it on the loop's asks `fits` first.
    """
    hidden, redacted = (
        recorder.without_secrets(text),
        recorder.redact(text),
    )  # before the cut: half a secret is not recognised
    told, recorded = capped(closed(hidden)), capped(closed(redacted))
    if (fits(text, whole) and fits(redacted, whole)) or not recorder.keeps:
        return Fitted(told, recorded)
    name = recorder.keep(redacted) if whole is None else recorder.keep(recorder.redact(whole.text), whole.more)
    if not name:
        return Fitted(told, recorded)
    said = note(recorder.session_id, call_id)
    return Fitted(f"{told}\n{said}", f"{recorded}\n{said}", name, said)
