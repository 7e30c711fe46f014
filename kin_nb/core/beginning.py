"""How a session, a conversation and a turn begin, and how a turn is told to have failed after all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kin_nb.core.config.secrets import key_names
from kin_nb.core.dmail import DenwaRenji
from kin_nb.core.environment import hide_secrets
from kin_nb.core.records import TURNS_BEFORE, ClearRecord, TurnRecord
from kin_nb.core.session.recorder import TurnRecorder

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent


def begin_log(agent: Agent) -> None:
    """The log's first line, once; after that, a look whether it is still ours. Raises SessionError."""
    prompt, auto = agent.messages[0].content or "", agent.mode.auto_approve
    agent.journal.begin(lambda: agent.header, agent.config, prompt, auto_approve=auto)


def begin_anew(agent: Agent, key: str = "", cell_id: str | None = None) -> None:
    """What `Agent.clear_history` promises."""
    agent.undos.check_between_turns()
    agent.conversation.clear()
    agent.journal.learn_secrets(agent.config)
    agent.history.set_system_prompt(agent.system_prompt())  # what was kept in memory since is in it
    agent.toolbox.reset()
    lineage = agent.conversation.lineage
    made = lineage.next()
    del made["ancestors"]
    record = ClearRecord(**made, key=key, cell_id=cell_id)
    agent.transcript.add(record)
    lineage.take(record)
    agent.journal.rename("clear")
    agent.journal.between_turns(record)


def begin_turn(agent: Agent, turn: TurnRecord) -> TurnRecorder:
    """What `Agent.begin_turn` promises."""
    if agent.journal.learn_secrets(agent.config):
        agent.history.set_system_prompt(agent.journal.without_secrets(agent.messages[0].content or ""))
    hide_secrets(key_names(agent.config))
    begin_log(agent)
    agent.turn_hooks.start(agent.journal.warnings.append)
    # turns that a notebook has elsewhere keep their numbers
    number = max(agent.turns[-1].turn if agent.turns else 0, agent.header.get(TURNS_BEFORE, 0)) + 1
    told = {"turn": number, "model": agent.config.get_active_model().alias, "mode": agent.mode.value}
    agent.undos.begin_turn()
    lineage = agent.conversation.lineage
    begun: dict[str, Any] = lineage.next()
    labels = {"attached": tuple(agent.redact(label) for label in turn.attached)}
    agent.usage.begin_turn()
    record = turn.model_copy(update={**told, **begun, **labels})
    recorder = TurnRecorder(
        agent.log, agent.redact, record, agent.journal.without_secrets, holds_secret=agent.journal.holds_secret
    )
    agent.transcript.add(recorder.record)
    lineage.take(recorder.record)
    agent.loop_guard.forget()
    agent.denwa_renji = DenwaRenji(agent.config.max_dmails_per_turn) if agent.config.dmail else None
    return recorder


def failed_after_all(agent: Agent, message: str) -> TurnRecord:
    """The last turn was done, and what it was part of (a flow) stopped with it: its record says so."""
    turn = agent.turns[-1]
    if turn.outcome == "done":
        message = agent.redact(message)
        turn = agent.turns[-1] = turn.model_copy(update={"outcome": "error", "message": message})
        agent.log.append("failed", message=message)
    return turn
