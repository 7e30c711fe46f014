"""/context and /cost: what fills the context window, and what the session has used."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kin_nb.core.commands.host import CommandError, CommandHost, CommandResult, Table
from kin_nb.core.commands.tools import toolset_of
from kin_nb.core.config import KinConfig
from kin_nb.core.context.context_window import estimate_text_tokens, estimate_tokens
from kin_nb.core.messages import LLMMessage, Role
from kin_nb.core.records import Sent, TurnRecord
from kin_nb.core.text import shorten

_LARGEST = 5
_LONGEST = 60
_PARTS = ((Role.user, "your prompts"), (Role.assistant, "replies"), (Role.tool, "tool results"))


def context(host: CommandHost, words: list[str]) -> CommandResult:
    """Show the parts as estimates; the total is the figure of the server as soon as it has reported one."""
    del words
    host.check_live("measure")
    agent, config = host.agent, host.config()
    toolset = toolset_of(host)
    messages = agent.messages if agent is not None else [LLMMessage(role=Role.system, content=toolset.system_prompt())]
    schemas = toolset.manager.schemas()
    offered = estimate_text_tokens(json.dumps([schema.model_dump(mode="json") for schema in schemas]))
    parts = [
        ("system prompt", 1, estimate_tokens(messages[:1])),
        ("tools", len(schemas), offered),
        *((name, len(own), estimate_tokens(own)) for role, name in _PARTS if (own := _of(messages, role))),
    ]
    measured = (
        agent.conversation.context(agent.config).tokens if agent is not None and agent.stats.context_tokens else 0
    )
    used = measured or sum(tokens for _, _, tokens in parts)
    model = config.get_active_model()
    share = f" ({used * 100 // model.context_window} %)" if model.context_window > 0 else ""
    about = "" if measured else "about "
    return CommandResult(
        f"{about}{used:,} of {model.context_window:,} tokens{share} of the context window of {model.alias}",
        Table(
            ("part", "count", "tokens (estimated)"),
            tuple((name, f"{count:,}", f"{tokens:,}") for name, count, tokens in parts),
            frozenset({1, 2}),
        ),
        (*_largest(messages, agent.redact if agent is not None else str), *_thresholds(config)),
    )


def _of(messages: Sequence[LLMMessage], role: Role) -> list[LLMMessage]:
    return [message for message in messages[1:] if message.role is role]


def _largest(messages: Sequence[LLMMessage], redact: object) -> list[str]:
    """Return a line for each of the largest tool results."""
    calls = {call.id: call.function for message in messages for call in message.tool_calls or ()}
    results = sorted(_of(messages, Role.tool), key=lambda message: -estimate_tokens([message]))[:_LARGEST]
    lines = []
    for message in results:
        call = calls.get(message.tool_call_id)
        arguments = " ".join(redact(call.arguments or "").split()) if call is not None and callable(redact) else ""
        shown = shorten(arguments, _LONGEST)
        lines.append(
            f"  {message.name or (call.name if call else '') or 'tool'} {shown}: about {estimate_tokens([message]):,}"
        )
    return ["The largest tool results, in tokens:", *lines] if lines else []


def _thresholds(config: KinConfig) -> list[str]:
    model = config.get_active_model()
    at = config.prune_at * config.room_of(model) // 100
    pruning = f"Old tool results are shortened from {at:,} tokens on." if at else "Tool results are never shortened."
    return [pruning, f"The conversation is summarized from {config.compact_at(model):,} tokens on."]


def cost(host: CommandHost, words: list[str]) -> CommandResult:
    """Count undone and cleared turns too: they were paid for."""
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
    """Return tokens in, tokens out, and USD. A turn without a known price is counted, not taken as free."""
    known = [float(record.cost) for record in paid if record.cost]
    unknown = sum(1 for record in paid if not record.cost and record.prompt_tokens + record.completion_tokens)
    usd = f"${sum(known):.4f}" if known or not unknown else ""
    if unknown:
        usd = f"{usd} and {unknown} turn{'' if unknown == 1 else 's'} of unknown price" if usd else "price unknown"
    tokens_in, tokens_out = (
        sum(getattr(record, name) for record in paid) for name in ("prompt_tokens", "completion_tokens")
    )
    return f"{tokens_in:,}", f"{tokens_out:,}", usd
