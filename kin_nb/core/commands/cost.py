"""/cost: what the session took, by turn and by model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kin_nb.core.accounting import turn_cost
from kin_nb.core.commands.values import CommandError, CommandHost, CommandResult, Table
from kin_nb.core.session.records import TurnRecord

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent


def cost(host: CommandHost, words: list[str]) -> CommandResult:
    """Turns that were undone or cleared are paid for all the same, and so are compactions."""
    del words
    host.check_live("count the cost of")
    turns = host.agent.turns if host.agent is not None else []
    since = _compactions_since(host.agent) if host.agent is not None else []
    if not turns and not since:
        raise CommandError("Nothing was spent yet: no prompt has run in this session.")
    rows = [(str(turn.turn), turn.model, *_figures([turn])) for turn in turns]
    rows += [("compaction", each.model, *_figures([each])) for each in since]
    tokens_in, tokens_out, usd = _figures([*turns, *since])
    table = Table(("turn", "model", "tokens in", "tokens out", "USD"), tuple(rows), frozenset({0, 2, 3, 4}))
    return CommandResult(f"{tokens_in} tokens in, {tokens_out} out, {usd}", table, tuple(_by_model(turns, since)))


def _compactions_since(agent: Agent) -> list[TurnRecord]:
    """What the compactions took that no turn holds yet, as a turn of its own; the next one will have it."""
    waiting = [*agent.dropped, *([agent.compaction] if agent.compaction is not None else [])]
    if not waiting:
        return []
    turn = TurnRecord(turn=0, prompt="", model=agent.config.get_active_model().alias, dropped=tuple(waiting))
    return [turn.model_copy(update={"cost": turn_cost(agent.stats, turn)})]


def _by_model(turns: Sequence[TurnRecord], since: Sequence[TurnRecord]) -> list[str]:
    lines = []
    for name in dict.fromkeys(turn.model for turn in (*turns, *since)):
        own = [turn for turn in turns if turn.model == name]
        tokens_in, tokens_out, usd = _figures([*own, *(each for each in since if each.model == name)])
        count = f"{len(own)} turn{'' if len(own) == 1 else 's'}"
        lines.append(f"{name or 'unknown model'}: {count}, {tokens_in} tokens in, {tokens_out} out, {usd}")
    return lines


def _figures(turns: Sequence[TurnRecord]) -> tuple[str, str, str]:
    """Tokens in and out, and USD: a price that is not known is no price of nothing."""
    known = [float(turn.cost) for turn in turns if turn.cost]
    unknown = sum(1 for turn in turns if not turn.cost and turn.prompt_tokens + turn.completion_tokens)
    usd = f"${sum(known):.4f}" if known or not unknown else ""
    if unknown:
        usd = f"{usd} and {unknown} turn{'' if unknown == 1 else 's'} of unknown price" if usd else "price unknown"
    tokens_in, tokens_out = (
        sum(getattr(turn, name) for turn in turns) for name in ("prompt_tokens", "completion_tokens")
    )
    return f"{tokens_in:,}", f"{tokens_out:,}", usd
