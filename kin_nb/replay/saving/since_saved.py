"""A session notebook that was gone on with and only a front end saved: its outputs carry what came since."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.carrying import KEY
from kin_nb.replay.format.in_outputs import gone_on
from kin_nb.replay.recording import Recording, SessionMeta


def with_outputs(nb: Any, recording: Recording) -> Recording | None:
    """`recording`, which `nb` holds, with what the outputs of `nb` carry since: as the session that went on; None for nothing.

    Raises RecordingError when that was changed, or does not follow it: it is of another session, or a turn is missing.
    """
    whole, since = gone_on(nb, recording)
    if not since:
        return None
    numbers = [turn.turn for turn in whole.turns]
    if numbers != list(range(1, len(numbers) + 1)):
        raise RecordingError(f"The outputs carry turn {numbers[-1]}, and not all before it.")
    last = since.get(("turn", numbers[-1])) or list(since.values())[-1]
    meta = SessionMeta.model_validate(last[KEY]["session"])
    return replace(whole, session=meta.session, meta=meta)


def whole(nb: Any, recording: Recording) -> Recording:
    """`recording`, which `nb` holds, or what it went on to. Raises RecordingError naming the repair, as `with_outputs`."""
    try:
        return with_outputs(nb, recording) or recording
    except RecordingError as error:
        raise RecordingError(
            f"what its outputs carry does not follow its recording: {error} To have the recording alone: kin-nb save "
            "NOTEBOOK.ipynb OUT.ipynb"
        ) from error
