"""Resume a stored session exactly where it ended: also after a clear, a compaction or an undo, or a killed program.

The end of calls and undos that were interrupted by a kill is unknown. All changes of the files since they started count as
theirs, so that undo restores them; some may be the user's own, and the record and a warning say so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from kin_nb.core.config import KinConfig
from kin_nb.core.context.checkpoints import NoSuchCheckpointError
from kin_nb.core.file_history import StoreError
from kin_nb.core.records import FileChange, RecordedCall, SessionRecord, TurnRecord, UndoRecord
from kin_nb.core.session.errors import UnreadableSessionError
from kin_nb.core.session.log import LOG_NAME, session_log
from kin_nb.core.session.store import SessionStore, StoredSession, gc_paused
from kin_nb.core.text import listed
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.builtins.patch_format import FilePart, parse_patch
from kin_nb.core.tools.builtins.text_file import READER, seen_by
from kin_nb.core.tools.file_tracker import Changed
from kin_nb.core.turn_context import TurnContext
from kin_nb.core.undo import UndoError, UndoManager

_NOT_COVERED = "not covered: "
UNSURE = (
    f"{_NOT_COVERED}what it did after the session was resumed (it was interrupted; all changes until then count as its "
    "own, also yours)"
)
_NAMED = 5
"""Files in a warning; the others are counted."""
_WRITER = "write_file"
_EDITORS = frozenset({"edit_file", "search_replace"})
_PATCHER = "apply_patch"


class Resumed(Protocol):
    """The parts of a new agent that a resume uses."""

    parts: TurnContext
    undos: UndoManager


A = TypeVar("A", bound=Resumed)


@gc_paused()
def resumed(make: Callable[..., A], config: KinConfig, name: str) -> A:
    """Return an agent that continues the session `name`. `make` creates it from an id and a log.

    Raises SessionError, ConfigError; then the log is unlocked.
    """
    warnings: list[str] = []
    settings = config.session_logging
    store = SessionStore.from_config(settings)
    if settings.enabled:
        stored, log = store.resume(name, config.effective_workdir, warnings.append)
    else:
        stored = store.find(name, config.effective_workdir)
        log = session_log(stored.id, settings)
    try:
        agent = make(session_id=stored.id, log=log)
        journal = agent.parts.journal
        journal.warnings, journal.session_id, journal.header = warnings, stored.session_id, stored.header
        SessionReplay(agent.parts, agent.undos).replay_stored(stored)
    except BaseException:
        log.close()
        raise
    return agent


class SessionReplay:
    """Replays stored records into a new agent."""

    def __init__(self, parts: TurnContext, undos: UndoManager) -> None:
        self._settings, self._journal, self._conversation = parts.settings, parts.journal, parts.conversation
        self._files, self._tools = parts.services.files, parts.toolset.manager
        self._undos = undos

    def replay(self, records: Sequence[SessionRecord]) -> None:
        """Replay the records of a session, the oldest first.

        Moves between turns follow from the turns' parents; only those after the last turn are replayed.
        Raises NoSuchCheckpointError, UndoError, and LookupError for an undo of unknown turns.
        """
        last = max((n for n, record in enumerate(records, 1) if isinstance(record, TurnRecord)), default=0)
        before, since = records[:last], records[last:]
        usage, here = self._conversation.usage, self._settings.expand_paths
        usage.replay(before, self._settings.config.prices_of)
        self._conversation.replay(before, here)
        for record in since:
            if isinstance(record, UndoRecord):
                self._undos.replay_record(record)
            elif not isinstance(record, TurnRecord):
                self._conversation.replay_move(record, here)
        usage.set_prices()

    def replay_stored(self, stored: StoredSession) -> None:
        """Replay a stored session, and settle its interrupted calls and undos. Raises UnreadableSessionError."""
        state = stored.state
        try:
            self.replay(state.records)
            self._settle_cut_off_undos(state.unfinished_undos)
            self._restore_seen_files(state.call_times)
        except (NoSuchCheckpointError, UndoError, LookupError, TypeError, ValueError) as error:
            raise UnreadableSessionError(stored.folder / LOG_NAME, f"cannot be continued ({error})") from error
        self._conversation.transcript.turns[:] = self._settle_cut_off_calls(stored)
        self._undos.lost_after = stored.lost_after
        last = stored.turns[-1].turn if stored.turns else 0
        if last in stored.lost_after:
            where = f"in or after turn {last}" if last else "since its start"
            self._journal.warnings.append(
                f"The log of this session is incomplete, because it could not be written: changes {where} may be missing.\n"
                "Undo cannot restore those."
            )

    # Calls and undos that were interrupted when the program ended.

    def _settle_cut_off_calls(self, stored: StoredSession) -> list[TurnRecord]:
        """Return the stored turns, with the changes of the last turn's interrupted calls, which are logged too."""
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
        """Prepare interrupted undos, so that the next undo finishes them. Changes no file. `begun`: their log lines."""
        recorded = [FileChange.model_validate(change) for line in begun for change in line["files"]]
        planned = self._files.real_names(recorded, self._journal.redact)
        self._undos.pending_restore = self._files.made(planned)
        if not self._undos.pending_restore:
            return
        done = sorted({self._journal.redact(change.path) for change in self._undos.pending_restore})
        many = len(begun[-1]["turns"])
        happened = (
            f"An undo was interrupted when the program ended: {len(done)} of {len({change.path for change in planned})} files "
            f"are restored ({_names(done)})."
        )
        count = f" {many}" if many > 1 else ""
        self._undos.interrupted_warnings = (
            f"{happened}\nBefore the next prompt, /undo{count} finishes it; /redo then restores everything.",
            f"{happened}\nThis prompt continues with the files as they are: /undo {many + 1} undoes the rest.",
        )
        self._journal.warn(self._undos.interrupted_warnings[0])

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
        files = tuple(change.redacted(redact) for change in changed[0])
        sentence = "; ".join(filter(None, (UNSURE, changed[1].removeprefix(_NOT_COVERED))))
        return call.model_copy(update={"files": files, "uncovered": redact(sentence)})

    # Files that the model knows: those that it read or wrote and that were not changed since.

    def _restore_seen_files(self, when: Mapping[tuple[str, str], int]) -> None:
        """Restore the tools' list of files that the model has seen. `when`: SessionState.call_times.

        A file that was changed since counts as changed after the model read it, and is not overwritten as a whole. After an
        edit, the content is known only when the model had written the file before: no record has changes between a read
        and an edit.
        """
        seen = seen_by(self._tools)
        if seen is None:
            return
        left_so: dict[Path, str | None] = {}
        for call in self._file_calls():
            if call.name == READER:
                for path in self._resolved(_path_argument(call)):
                    if ("run", call.id) in when:
                        left_so[path] = None
                        seen.note_as_of(path, when["run", call.id])
            elif ("result", call.id) in when:
                sides = self._sides(call)
                known_before = dict(left_so)
                for written in self._written(call):
                    before = sides.get(written.source, (None, None))[0]
                    known = before is not None and known_before.get(written.source) == before
                    if written.is_whole or written.source in known_before:
                        known = known or written.is_whole
                        left_so[written.path] = sides.get(written.path, (None, None))[1] if known else None
                        seen.note_as_of(written.path, when["result", call.id] if known else 0)

    def _file_calls(self) -> Iterator[RecordedCall]:
        """Yield the calls of the conversation that read or wrote a file."""
        for turn in self._undos.conversation:
            yield from (c for c in turn.calls if c.status == "ok" and c.name in {READER, _WRITER, *_EDITORS, _PATCHER})

    def _sides(self, call: RecordedCall) -> dict[Path, tuple[str | None, str | None]]:
        """The hashes of each changed file before and after the call."""
        if call.name == _PATCHER:
            paths = self._files.paths(self._files.real_names(call.files, self._journal.redact))
            return {path: (file.before, file.after) for path, file in zip(paths, call.files, strict=True)}
        sides = [(change.before, change.after) for change in call.files if change.after]
        return {path: sides[0] for path in self._resolved(_path_argument(call)) if sides}

    def _written(self, call: RecordedCall) -> Iterator[_Written]:
        """Yield the files that a call wrote and left."""
        if call.name != _PATCHER:
            for path in self._resolved(_path_argument(call)):
                yield _Written(path, path, is_whole=call.name == _WRITER)
            return
        written: dict[Path, _Written] = {}
        for part in _parts(call, self._settings.expand_paths):
            for path in self._resolved(part.path):
                old = written.pop(path, _Written(path, path))
                if part.kind == "Add":
                    written[path] = _Written(path, path, is_whole=True)
                elif part.kind == "Update":
                    target = next(iter(self._resolved(part.move_to)), path)
                    written[target] = replace(old, path=target)
        yield from written.values()

    def _resolved(self, path: str) -> list[Path]:
        """The resolved path, as a list; empty if it is not usable."""
        try:
            return [self._settings.workspace.resolve(self._settings.expand_paths(path))]
        except (ToolError, ValueError):
            return []


@dataclass(frozen=True)
class _Written:
    """A file that a call left. `source`: where its text was before. `is_whole`: the call has all of its text."""

    path: Path
    source: Path
    is_whole: bool = False


def _path_argument(call: RecordedCall) -> str:
    """The path of a call with one file; "" if its arguments have none."""
    try:
        given = json.loads(call.edited_arguments or call.arguments)
        return str(given.get("path") or given["file_path"])
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return ""


def _parts(call: RecordedCall, expand: Callable[[str], str]) -> Sequence[FilePart]:
    """The files of a patch; none if the recorded arguments hold none."""
    try:
        given = json.loads(call.edited_arguments or call.arguments)
        return parse_patch(expand(given.get("patch") or given["input"]))
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError, ToolError):
        return ()


def _shown(change: FileChange) -> str:
    """Return the path as a key of `kept_by_undo`."""
    return change.path.removesuffix("/")


def _warning(turn: int, call: RecordedCall, kept: Mapping[str, str]) -> str:
    """Describe an interrupted call and its undo. `kept`: the files that undo would not restore, and why."""
    back = [change.path for change in call.files if change.path not in kept]
    left = [f"{change.path} ({kept[change.path]})" for change in call.files if change.path in kept]
    restores = f"restores, unless they change again: {_names(back)}" if back else ""
    leaves = f"does not restore: {_names(left)}" if left else ""
    return (
        f"{call.name} was interrupted when the program ended. All changes since it started count as its own, also yours.\n"
        f"Undo of turn {turn} {'; it '.join(filter(None, (restores, leaves)))}."
    )


def _names(paths: Sequence[str]) -> str:
    return listed(paths, _NAMED)
