"""Going on with a stored session, in its own log, exactly where it stood: also after a clear or a compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kin_nb.core.accounting import count_aside, count_summary, count_turn, drop
from kin_nb.core.beginning import set_fresh
from kin_nb.core.config import KinConfig
from kin_nb.core.context.checkpoints import NoSuchCheckpointError
from kin_nb.core.cut_off import settle_cut_off_calls, settle_cut_off_undos
from kin_nb.core.known_files import know_again, noting
from kin_nb.core.session.errors import UnreadableSessionError
from kin_nb.core.session.lineage import with_ids
from kin_nb.core.session.log import LOG_NAME, session_log
from kin_nb.core.session.records import END, Place, RecordedCompaction, TurnRecord, UndoRecord
from kin_nb.core.session.store import SessionStore, StoredSession
from kin_nb.core.session.without_collecting import without_collecting
from kin_nb.core.time_travel import UndoError
from kin_nb.core.types import LLMUsage

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent


@without_collecting()
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
    try:
        agent.moves += stored.moves
        agent.time.lineage.take_all([*with_ids(stored.turns, stored.id), *agent.moves])
        agent.take_up(stored.turns)
        _take_up_what_no_turn_holds(agent, stored)
    except (NoSuchCheckpointError, UndoError, LookupError, TypeError, ValueError) as error:
        raise UnreadableSessionError(stored.folder / LOG_NAME, f"cannot be gone on with ({error})") from error
    agent.turns[:] = settle_cut_off_calls(agent, stored)
    agent.time.lost_after = stored.lost_after
    last = stored.turns[-1].turn if stored.turns else 0
    if last in stored.lost_after:
        where = f"after turn {last}, or in it," if last else "from its beginning on"
        agent.journal.warnings.append(
            f"The log of this session could not be written to its end: what was done {where} may be missing, and undo cannot "
            "restore what that changed."
        )


def taken_up(agent: Agent, turns: list[TurnRecord]) -> None:
    """The agent stands where these turns lead."""
    agent.history.extend_from(turns, agent.here, agent.time.checkpoints)
    agent.turns.extend(turns)
    for turn in turns:
        agent.stats.set_prices(*agent.config.prices_of(turn.model))
        for compaction in turn.dropped:
            count_aside(agent.stats, compaction)
        if turn.fresh:
            agent.stats = agent.stats.anew()
            agent.stats.set_prices(*agent.config.prices_of(turn.model))
        count_turn(agent.stats, turn)
    if turns:
        agent.stats.context_tokens = agent.time.checkpoints.at(Place(turn=turns[-1].turn, step=END)).tokens
    agent.set_prices()


def _take_up_what_no_turn_holds(agent: Agent, stored: StoredSession) -> None:
    """What came after the last reply, clears, compactions, undos, in their order: the next turn will record it."""
    since: list[dict[str, Any] | UndoRecord] = []
    undoing: list[dict[str, Any]] = []
    when: dict[tuple[str, str], int] = {}
    for line in noting(when, stored.lines):
        if line.get("type") == "renamed":
            since.append(line)
        elif line.get("type") == "undoing":
            undoing.append(line)
        elif line.get("type") == "undo":
            undoing.clear()
            since.append(UndoRecord.model_validate(line["record"]))
        elif line.get("type") in {"turn", "reply", "continued"}:
            agent.time.take_up([what for what in since if isinstance(what, UndoRecord)])
            since.clear()
            undoing.clear()
    settle_cut_off_undos(agent, undoing)
    for what in since:
        if isinstance(what, UndoRecord):
            agent.time.take_up([what])
        elif what.get("why") == "clear":
            agent.history.restart()
            drop(agent.dropped, agent.take_compaction())
            set_fresh(agent, fresh=True)
            agent.time.lineage.head = None
        elif isinstance(what.get("compaction"), dict):
            take_up_compaction(agent, RecordedCompaction.model_validate(what["compaction"]))
    know_again(agent, when)


def take_up_compaction(agent: Agent, compaction: RecordedCompaction) -> None:
    """A compaction that no turn holds yet: the next one will."""
    agent.history.take_compaction(compaction, agent.here)
    counted = agent.compaction or RecordedCompaction(summary="")  # the one before it is in its figures
    usage = LLMUsage(
        prompt_tokens=compaction.prompt_tokens - counted.prompt_tokens,
        completion_tokens=compaction.completion_tokens - counted.completion_tokens,
    )
    count_summary(agent.stats, usage, compaction.new_tokens)
    agent.compaction = compaction
