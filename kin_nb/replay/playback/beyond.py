"""What playback has beyond a session notebook's recording: it went on live, and then only a front end saved it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kin_nb.core.session.records import TurnRecord, UndoRecord
from kin_nb.replay.cells.placing import asked_key
from kin_nb.replay.errors import NotRecorded, RecordingError
from kin_nb.replay.format.gone_on import GoneOn, Named, gone_on
from kin_nb.replay.format.in_outputs import claimed_sessions
from kin_nb.replay.recording import Recording


class Beyond:
    """`recording`: with what the outputs of `nb`, its notebook, add to it; as it is where they do not fit, or `nb` is None."""

    def __init__(self, recording: Recording, nb: Any = None) -> None:
        self.recording = recording
        self._carried: dict[Named, Mapping[str, Any]] = {}
        self._problem = ""
        answered = [cell for cell in nb["cells"] if any(claimed_sessions(cell))] if nb is not None else []
        self._answered = [(cell.get("id"), asked_key(nb, cell)) for cell in answered]
        try:
            if answered:
                self.take(gone_on(nb, recording))
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
        if any(each == key and (not cell_id or where in {None, cell_id}) for where, each in self._answered):
            raise NotRecorded(
                "The answer to this cell is in its outputs alone, not in the recording. To have both in one: kin-nb save "
                "NOTEBOOK.ipynb OUT.ipynb --from-outputs. To ask the model again, where a person is there: `%%kin --redo`."
                f"{self._problem}"
            )
