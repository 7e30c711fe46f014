"""What playback has beyond a session notebook's recording: it went on live, and then only a front end saved it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kin_nb.core.session.records import TurnRecord, UndoRecord
from kin_nb.replay.cells.placing import asked_key
from kin_nb.replay.errors import NotRecorded, RecordingError
from kin_nb.replay.format.gone_on import GoneOn, Named, gone_on
from kin_nb.replay.format.in_outputs import claimed_sessions
from kin_nb.replay.recording import Recording

_AGAIN = "To ask the model again, where a person is there: `%%kin --redo`."


class Beyond:
    """`recording`: with what the outputs of `nb`, its notebook, add to it; as it is where they do not fit, or `nb` is None."""

    def __init__(self, recording: Recording, nb: Any = None) -> None:
        self.recording = recording
        self._carried: dict[Named, Mapping[str, Any]] = {}
        self._apart: Sequence[str] = ()
        self._problem = ""
        answered = [cell for cell in nb["cells"] if any(claimed_sessions(cell))] if nb is not None else []
        self._answered = [(cell.get("id"), asked_key(nb, cell), list(claimed_sessions(cell))) for cell in answered]
        try:
            if answered:
                found = gone_on(nb, recording)
                self._apart = found.apart
                self.take(found)
        except RecordingError as error:
            self._problem = f" It cannot be played: {error}"

    def __bool__(self) -> bool:
        return bool(self._carried)

    def take(self, found: GoneOn) -> None:
        """What follows was found."""
        self.recording = found.recording
        self._carried.update(found.carried)

    def metadata(self, record: TurnRecord | UndoRecord, number: int) -> Mapping[str, Any]:
        """What the last output of `record` carries: played, it must not be lost when the front end saves again."""
        return self._carried.get((record.type, number), {})

    def check_not_answered(self, key: str, cell_id: str | None) -> None:
        """Raises NotRecorded for a cell whose outputs hold an answer to its text: a model is asked again only when told to."""
        for where, each, sessions in self._answered:
            if each != key or (cell_id and where not in {None, cell_id}):
                continue
            save = "kin-nb save NOTEBOOK.ipynb OUT.ipynb --from-outputs"
            apart = next((session for session in sessions if session in self._apart), "")
            raise NotRecorded(
                f"This cell was answered in session {apart}, which is another than the one that plays here. To save that by "
                f"itself: {save} --session {apart[:8]}. {_AGAIN}"
                if apart
                else f"The answer to this cell is in its outputs alone, not in the recording. To have both in one: {save}. "
                f"{_AGAIN}{self._problem}"
            )
