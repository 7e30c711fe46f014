"""Resume a stored session exactly where it was: also after a clear, a compaction or an undo, or when the program was killed.

Calls and undos that were cut off then were seen by nobody to end. What is different in the files since they began counts as
theirs, so that undo restores it; some of it may be the user's own, which the record and a warning say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from kin_nb.core.config import KinConfig
from kin_nb.core.context.checkpoints import NoSuchCheckpointError
from kin_nb.core.file_history import StoreError
from kin_nb.core.records import FileChange, RecordedCall, SessionRecord, TurnRecord, UndoRecord
from kin_nb.core.session.errors import UnreadableSessionError
from kin_nb.core.session.log import LOG_NAME, session_log
from kin_nb.core.session.store import SessionStore, StoredSession, gc_paused
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.builtins.text_file import READER, seen_by
from kin_nb.core.tools.file_tracker import Changed
from kin_nb.core.turn_context import TurnContext
from kin_nb.core.undo import UndoError, UndoManager

_NOT_COVERED = "not covered: "
UNSURE = (
    f"{_NOT_COVERED}what it did after the session was resumed (it was cut off; what changed until then counts as its "
    "doing, yours too)"
)
_NAMED = 5
"""Files in a warning; the others are counted."""
_WRITER = "write_file"
_EDITORS = frozenset({"edit_file", "search_replace"})


class Resumed(Protocol):
    """A new agent, as far as a resume needs it."""

    parts: TurnContext
    undos: UndoManager


A = TypeVar("A", bound=Resumed)


@gc_paused()
def resumed(make: Callable[..., A], config: KinConfig, name: str) -> A:
    """Return an agent that has taken up the session that `name` means. `make` takes its id and its log.

    Raises SessionError, ConfigError; then no lock is left.
    """
    warnings: list[str] = []
    settings = config.session_logging
    store = SessionStore.configured(settings)
    if settings.enabled:
        stored, log = store.resume(name, config.effective_workdir, warnings.append)
    else:
        stored = store.find(name, config.effective_workdir)
        log = session_log(stored.id, settings)
    try:
        agent = make(session_id=stored.id, log=log)
        journal = agent.parts.journal
        journal.warnings, journal.session_id, journal.header = warnings, stored.session_id, stored.header
        Resumption(agent.parts, agent.undos).take_up_stored(stored)
    except BaseException:
        log.close()
        raise
    return agent


class Resumption:
    """Takes up what was recorded, with the parts of an agent, which is new."""

    def __init__(self, parts: TurnContext, undos: UndoManager) -> None:
        self._settings, self._journal, self._conversation = parts.settings, parts.journal, parts.conversation
        self._files, self._tools = parts.services.files, parts.toolset.manager
        self._undos = undos

    def take_up(self, records: Sequence[SessionRecord]) -> None:
        """Go to where these records of a session lead, the oldest first.

        The parents of turns say what came between them; only what came after the last turn is done again.
        Raises NoSuchCheckpointError, UndoError, and LookupError for an undo of turns that are not here.
        """
        last = max((n for n, record in enumerate(records, 1) if isinstance(record, TurnRecord)), default=0)
        before, since = records[:last], records[last:]
        usage, here = self._conversation.usage, self._settings.here
        usage.replay(before, self._settings.config.prices_of)
        self._conversation.replay(before, here)
        for record in since:
            if isinstance(record, UndoRecord):
                self._undos.take_up(record)
            elif not isinstance(record, TurnRecord):
                self._conversation.replay_move(record, here)
        usage.set_prices()

    def take_up_stored(self, stored: StoredSession) -> None:
        """Take up a session of the log. Raises UnreadableSessionError for records that lead to no conversation."""
        state = stored.state
        try:
            self.take_up(state.records)
            self._settle_cut_off_undos(state.unfinished_undos)
            self._know_files_again(state.call_times)
        except (NoSuchCheckpointError, UndoError, LookupError, TypeError, ValueError) as error:
            raise UnreadableSessionError(stored.folder / LOG_NAME, f"cannot be gone on with ({error})") from error
        self._conversation.transcript.turns[:] = self._settle_cut_off_calls(stored)
        self._undos.lost_after = stored.lost_after
        last = stored.turns[-1].turn if stored.turns else 0
        if last in stored.lost_after:
            where = f"after turn {last}, or in it," if last else "from its beginning on"
            self._journal.warnings.append(
                f"The log of this session could not be written to its end: what was done {where} may be missing, and undo cannot "
                "restore what that changed."
            )

    # What was cut off when the program ended.

    def _settle_cut_off_calls(self, stored: StoredSession) -> list[TurnRecord]:
        """The stored turns, what the last one's cut-off calls changed included: in the log, too."""
        turns = list(stored.turns)
        open_ids = stored.state.open_calls(turns[-1]) if turns else set()
        if open_ids:
            try:
                changed = self._files.interrupted(open_ids)
            except StoreError as error:
                changed = dict.fromkeys(open_ids, ((), f"what it changed until then is not known: {error}"))
            turns[-1] = self._settled(turns[-1], changed)
        self._files.forget()
        return turns

    def _settle_cut_off_undos(self, begun: Sequence[Mapping[str, Any]]) -> None:
        """`begun`: the log's lines of undos that no record of them follows. No file is changed: the next undo finishes it."""
        recorded = [FileChange.model_validate(change) for line in begun for change in line["files"]]
        planned = self._files.real_names(recorded, self._journal.redact)
        self._undos.put_back = self._files.made(planned)
        if not self._undos.put_back:
            return
        done = sorted({self._journal.redact(change.path) for change in self._undos.put_back})
        many = len(begun[-1]["turns"])
        happened = (
            f"An undo was cut off when the program ended: {len(done)} of {len({change.path for change in planned})} files are "
            f"put back ({_names(done)})."
        )
        count = f" {many}" if many > 1 else ""
        self._undos.cut_off = (
            f"{happened} Before the next prompt, /undo{count} finishes it, and /redo then gives back all that it took.",
            f"{happened}\nThis prompt continues with the files as they are: /undo {many + 1} takes back the rest.",
        )
        self._journal.warn(self._undos.cut_off[0])

    def _settled(self, turn: TurnRecord, changed: Mapping[str, Changed]) -> TurnRecord:
        last = turn.steps[-1]
        calls = tuple(self._with(call, changed[call.id]) if call.id in changed else call for call in last.calls)
        turn = turn.model_copy(update={"steps": (*turn.steps[:-1], last.model_copy(update={"calls": calls}))})
        changes = [change for call in turn.calls for change in call.files]
        real = self._files.real_names(changes, self._journal.redact)
        whys = self._files.kept_by_undo(real)
        kept = {
            change.path: why for change, named in zip(changes, real, strict=True) if (why := whys.get(_shown(named)))
        }
        for call in calls:
            if call.id in changed:
                if call.files:
                    self._journal.warn(_warning(turn.turn, call, kept))
                fields = {"id", "status", "output", "files", "uncovered"}
                self._journal.log.append("result", call=call.model_dump(mode="json", include=fields))
        return turn

    def _with(self, call: RecordedCall, changed: Changed) -> RecordedCall:
        redact = self._journal.redact
        files = tuple(
            change.model_copy(update={"path": redact(change.path), "patch": change.patch and redact(change.patch)})
            for change in changed[0]
        )
        sentence = "; ".join(filter(None, (UNSURE, changed[1].removeprefix(_NOT_COVERED))))
        return call.model_copy(update={"files": files, "uncovered": redact(sentence)})

    # Which files the model knows: those that it read or wrote, and that are still as they were then.

    def _know_files_again(self, when: Mapping[tuple[str, str], int]) -> None:
        """Tell the tools which files the model knows. `when`: SessionState.call_times.

        What was changed since, by whomever, counts as changed since the model read it: it is not overwritten as a whole.
        An edit tells what is in the file only where it followed the model's own writing: what came between a read and an edit
        is in no record.
        """
        seen = seen_by(self._tools)
        if seen is None:
            return
        left_so: dict[Path, str | None] = {}
        for call in self._file_calls():
            path = self._path(call)
            if path is None:
                continue
            before, after = next(((change.before, change.after) for change in call.files if change.after), (None, None))
            if call.name == READER and ("run", call.id) in when:
                left_so[path] = None
                seen.note_as_of(path, when["run", call.id])
            elif ("result", call.id) in when and (call.name == _WRITER or path in left_so):
                known = call.name == _WRITER or (before is not None and left_so[path] == before)
                left_so[path] = after if known else None
                seen.note_as_of(path, when["result", call.id] if known else 0)

    def _file_calls(self) -> Iterator[RecordedCall]:
        """Those of the conversation that read or wrote a file."""
        for turn in self._undos.conversation:
            yield from (c for c in turn.calls if c.status == "ok" and c.name in {READER, _WRITER, *_EDITORS})

    def _path(self, call: RecordedCall) -> Path | None:
        try:
            given = json.loads(call.edited_arguments or call.arguments)
            return self._settings.workspace.resolve(self._settings.here(given.get("path") or given["file_path"]))
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError, ToolError):
            return None


def _shown(change: FileChange) -> str:
    """Its path as `kept_by_undo` has it."""
    return change.path.removesuffix("/")


def _warning(turn: int, call: RecordedCall, kept: Mapping[str, str]) -> str:
    """`kept`: what undo would leave as it is, and why. Nothing is promised that it would refuse."""
    back = [change.path for change in call.files if change.path not in kept]
    left = [f"{change.path} ({kept[change.path]})" for change in call.files if change.path in kept]
    restores = f"restores, unless they change again: {_names(back)}" if back else ""
    leaves = f"does not restore: {_names(left)}" if left else ""
    return (
        f"{call.name} was cut off when the program ended. What changed since it began counts as its doing, yours too.\n"
        f"Undo of turn {turn} {'; it '.join(filter(None, (restores, leaves)))}."
    )


def _names(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f"{', '.join(paths[:_NAMED])}{more}"
