"""/cost: what the session took, by turn and by model."""

from __future__ import annotations

from collections.abc import Sequence

from kin_nb.core.commands.values import CommandError, CommandHost, CommandResult, Table
from kin_nb.core.records import Sent, TurnRecord


def cost(host: CommandHost, words: list[str]) -> CommandResult:
    """Count what was undone or cleared too: it is paid for."""
    del words
    host.check_live("count the cost of")
    records = host.agent.records if host.agent is not None else []
    paid = [record for record in records if isinstance(record, Sent)]
    if not paid:
        raise CommandError("Nothing was spent yet: no prompt has run in this session.")
    rows = [
        (str(record.turn) if isinstance(record, TurnRecord) else "compaction", record.model, *_figures([record]))
        for record in paid
    ]
    tokens_in, tokens_out, usd = _figures(paid)
    table = Table(("turn", "model", "tokens in", "tokens out", "USD"), tuple(rows), frozenset({0, 2, 3, 4}))
    return CommandResult(f"{tokens_in} tokens in, {tokens_out} out, {usd}", table, tuple(_by_model(paid)))


def _by_model(paid: Sequence[Sent]) -> list[str]:
    lines = []
    for name in dict.fromkeys(record.model for record in paid):
        own = [record for record in paid if record.model == name]
        turns = sum(isinstance(record, TurnRecord) for record in own)
        tokens_in, tokens_out, usd = _figures(own)
        count = f"{turns} turn{'' if turns == 1 else 's'}"
        lines.append(f"{name or 'unknown model'}: {count}, {tokens_in} tokens in, {tokens_out} out, {usd}")
    return lines


def _figures(paid: Sequence[Sent]) -> tuple[str, str, str]:
    """Tokens in and out, and USD: an unknown price is not a price of nothing."""
    known = [float(record.cost) for record in paid if record.cost]
    unknown = sum(1 for record in paid if not record.cost and record.prompt_tokens + record.completion_tokens)
    usd = f"${sum(known):.4f}" if known or not unknown else ""
    if unknown:
        usd = f"{usd} and {unknown} turn{'' if unknown == 1 else 's'} of unknown price" if usd else "price unknown"
    tokens_in, tokens_out = (
        sum(getattr(record, name) for record in paid) for name in ("prompt_tokens", "completion_tokens")
    )
    return f"{tokens_in:,}", f"{tokens_out:,}", usd
