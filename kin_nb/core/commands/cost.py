"""/cost: what the session took, by turn and by model."""

from __future__ import annotations

from collections.abc import Sequence

from kin_nb.core.commands.values import CommandError, CommandHost, CommandResult, Table
from kin_nb.core.session.records import TurnRecord


def cost(host: CommandHost, words: list[str]) -> CommandResult:
    """Turns that were undone or cleared are paid for all the same."""
    del words
    host.check_live("count the cost of")
    turns = host.agent.turns if host.agent is not None else []
    if not turns:
        raise CommandError("Nothing was spent yet: no prompt has run in this session.")
    rows = tuple((str(turn.turn), turn.model, *_figures([turn])) for turn in turns)
    tokens_in, tokens_out, usd = _figures(turns)
    table = Table(("turn", "model", "tokens in", "tokens out", "USD"), rows, frozenset({0, 2, 3, 4}))
    return CommandResult(f"{tokens_in} tokens in, {tokens_out} out, {usd}", table, tuple(_by_model(turns)))


def _by_model(turns: Sequence[TurnRecord]) -> list[str]:
    lines = []
    for name in dict.fromkeys(turn.model for turn in turns):
        own = [turn for turn in turns if turn.model == name]
        tokens_in, tokens_out, usd = _figures(own)
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
