"""Going on with a stored session, in its own log, exactly where it stood: also after a clear or a compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kin_nb.core.accounting import count_summary
from kin_nb.core.config import KinConfig
from kin_nb.core.session.log import LOG_NAME, read_lines, session_log, sessions_root
from kin_nb.core.session.records import RecordedCompaction
from kin_nb.core.session.store import SessionStore, StoredSession
from kin_nb.core.types import AgentStats, LLMUsage

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent


def resumed(make: type[Agent], config: KinConfig, name: str, options: dict[str, Any]) -> Agent:
    """An agent that has taken up the session that `name` means. Raises SessionError, ConfigError; then no lock is left."""
    settings = config.session_logging
    store = SessionStore(sessions_root(settings.save_dir))
    warnings: list[str] = []
    if settings.enabled:
        stored, log = store.resume(name, config.effective_workdir, warnings.append)
    else:
        stored = store.find(name, config.effective_workdir)
        log = session_log(stored.id, settings)
    try:
        agent = make(config, session_id=stored.id, log=log, **options)
    except BaseException:
        log.close()
        raise
    agent.journal.warnings = warnings
    agent.journal.session_id = stored.session_id
    agent.header = stored.header
    agent.take_up(stored.turns)
    _take_up_what_no_turn_holds(agent, stored)
    return agent


def _take_up_what_no_turn_holds(agent: Agent, stored: StoredSession) -> None:
    """A clear or a compaction after the last reply: the next turn will record it."""
    last: dict[str, Any] = {}
    for line in read_lines(stored.folder / LOG_NAME):
        if line.get("type") == "renamed":
            last = line
        elif line.get("type") in {"turn", "reply", "continued"}:
            last = {}
    if last.get("why") == "clear":
        agent.history.restart()
        agent.stats = AgentStats()
        agent.fresh = True
    elif isinstance(last.get("compaction"), dict):
        compaction = RecordedCompaction.model_validate(last["compaction"])
        agent.history.compact(agent.here(compaction.summary))
        usage = LLMUsage(prompt_tokens=compaction.prompt_tokens, completion_tokens=compaction.completion_tokens)
        count_summary(agent.stats, usage, compaction.new_tokens)
        agent.compaction = compaction
