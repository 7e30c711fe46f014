"""/context: what fills the model's window."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kin_nb.core.commands.toolbox import toolbox_of
from kin_nb.core.commands.values import CommandHost, CommandResult, Table
from kin_nb.core.config import KinConfig
from kin_nb.core.context.context_window import about_tokens
from kin_nb.core.messages import LLMMessage, Role

_LARGEST = 5
_LONGEST = 60
_PER_TOKEN = 4
"""Characters, about: as core.context.size has it."""
_PARTS = ((Role.user, "your prompts"), (Role.assistant, "replies"), (Role.tool, "tool results"))


def context(host: CommandHost, words: list[str]) -> CommandResult:
    """The parts are estimates; the whole is the server's own figure once there is one."""
    del words
    host.check_live("measure")
    agent, config = host.agent, host.config()
    toolbox = toolbox_of(host)
    messages = agent.messages if agent is not None else [LLMMessage(role=Role.system, content=toolbox.system_prompt())]
    schemas = toolbox.manager.schemas()
    offered = len(json.dumps([schema.model_dump(mode="json") for schema in schemas])) // _PER_TOKEN
    parts = [
        ("system prompt", 1, about_tokens(messages[:1])),
        ("tools", len(schemas), offered),
        *((name, len(own), about_tokens(own)) for role, name in _PARTS if (own := _of(messages, role))),
    ]
    measured = agent.context().tokens if agent is not None and agent.stats.context_tokens else 0
    used = measured or sum(tokens for _, _, tokens in parts)
    model = config.get_active_model()
    share = f" ({used * 100 // model.context_window} %)" if model.context_window > 0 else ""
    about = "" if measured else "about "
    return CommandResult(
        f"{about}{used:,} of {model.context_window:,} tokens{share} of {model.alias}'s window",
        Table(
            ("part", "how many", "tokens, about"),
            tuple((name, f"{count:,}", f"{tokens:,}") for name, count, tokens in parts),
            frozenset({1, 2}),
        ),
        (*_largest(messages, agent.redact if agent is not None else str), *_what_comes(config)),
    )


def _of(messages: Sequence[LLMMessage], role: Role) -> list[LLMMessage]:
    return [message for message in messages[1:] if message.role is role]


def _largest(messages: Sequence[LLMMessage], redact: object) -> list[str]:
    """A line each for the largest tool results."""
    calls = {call.id: call.function for message in messages for call in message.tool_calls or ()}
    results = sorted(_of(messages, Role.tool), key=lambda message: -about_tokens([message]))[:_LARGEST]
    lines = []
    for message in results:
        call = calls.get(message.tool_call_id)
        arguments = " ".join(redact(call.arguments or "").split()) if call is not None and callable(redact) else ""
        shown = arguments if len(arguments) <= _LONGEST else f"{arguments[:_LONGEST]}…"
        lines.append(
            f"  {message.name or (call.name if call else '') or 'tool'} {shown}: about {about_tokens([message]):,}"
        )
    return ["The largest tool results, in tokens:", *lines] if lines else []


def _what_comes(config: KinConfig) -> list[str]:
    model = config.get_active_model()
    at = config.prune_at * config.room_of(model) // 100
    pruning = f"Old tool results are shortened from {at:,} tokens on." if at else "Tool results are never shortened."
    return [pruning, f"The conversation is compacted from {config.compact_at(model):,} tokens on."]
