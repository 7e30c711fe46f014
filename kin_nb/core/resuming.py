"""Resume a stored session, in its own log, exactly where it was: also after a clear, a compaction or an undo."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kin_nb.core.config import KinConfig
from kin_nb.core.context.checkpoints import NoSuchCheckpointError
from kin_nb.core.cut_off import settle_cut_off_calls, settle_cut_off_undos
from kin_nb.core.known_files import When, know_again, noting
from kin_nb.core.records import SessionRecord, TurnRecord, UndoRecord
from kin_nb.core.session.errors import UnreadableSessionError
from kin_nb.core.session.log import LOG_NAME, session_log
from kin_nb.core.session.store import SessionStore, StoredSession, gc_paused
from kin_nb.core.undo import UndoError

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent


@gc_paused()
def resumed(make: type[Agent], config: KinConfig, name: str, options: dict[str, Any]) -> Agent:
    """An agent that has taken up the session that `name` means. Raises SessionError, ConfigError; then no lock is left."""
    settings = config.session_logging
    store = SessionStore.configured(settings)
    warnings: list[str] = []
    if settings.enabled:
        stored, log = store.resume(name, config.effective_workdir, warnings.append)
    else:
        stored = store.find(name, config.effective_workdir)
        log = session_log(stored.id, settings)
    try:
        agent = make(config, session_id=stored.id, log=log, **options)
        agent.journal.warnings = warnings
        agent.journal.session_id = stored.session_id
        agent.header = stored.header
        _take_up(agent, stored)
    except BaseException:
        log.close()
        raise
    return agent


def _take_up(agent: Agent, stored: StoredSession) -> None:
    """Raises UnreadableSessionError for records that lead to no conversation."""
    when: When = {}
    try:
        undoing = _cut_off_undos(noting(when, stored.lines))
        take_up(agent, stored.records)
        settle_cut_off_undos(agent, undoing)
        know_again(agent, when)
    except (NoSuchCheckpointError, UndoError, LookupError, TypeError, ValueError) as error:
        raise UnreadableSessionError(stored.folder / LOG_NAME, f"cannot be gone on with ({error})") from error
    agent.turns[:] = settle_cut_off_calls(agent, stored)
    agent.undos.lost_after = stored.lost_after
    last = stored.turns[-1].turn if stored.turns else 0
    if last in stored.lost_after:
        where = f"after turn {last}, or in it," if last else "from its beginning on"
        agent.journal.warnings.append(
            f"The log of this session could not be written to its end: what was done {where} may be missing, and undo cannot "
            "restore what that changed."
        )


def take_up(agent: Agent, records: Sequence[SessionRecord]) -> None:
    """Put `agent`, which is new, where these records of a session lead, the oldest first.

    The parents of turns say what came between them; only what came after the last turn is done again.
    Raises NoSuchCheckpointError, UndoError, and LookupError for an undo of turns that are not here.
    """
    last = max((n for n, record in enumerate(records, 1) if isinstance(record, TurnRecord)), default=0)
    before, since = records[:last], records[last:]
    for record in before:
        agent.transcript.add(record)
    agent.usage.replay(before, agent.config.prices_of)
    agent.conversation.replay(before, agent.here)
    for record in since:
        if isinstance(record, UndoRecord):
            agent.undos.take_up(record)
        elif not isinstance(record, TurnRecord):
            agent.transcript.add(record)
            agent.conversation.replay_move(record, agent.here)
    agent.usage.set_prices()


def _cut_off_undos(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines of undos that began, and that no record of them follows."""
    undoing: list[dict[str, Any]] = []
    for line in lines:
        if line.get("type") == "undoing":
            undoing.append(line)
        elif line.get("type") in {"undo", "turn", "reply", "continued"}:
            undoing.clear()
    return undoing
