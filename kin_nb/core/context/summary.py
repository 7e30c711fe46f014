"""Summaries: asking the model for one, of a conversation that it can still read or of its parts, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kin_nb.core.context.compaction import Ask, CompactionError
from kin_nb.core.messages import LLMChunk, LLMMessage, LLMUsage, Role

_RESULT_LIMIT = 2_000
"""Characters that are left of a result, and of a call's arguments, when parts are summarised."""


async def whole_summary(messages: Sequence[LLMMessage], ask: Ask) -> tuple[str, LLMUsage]:
    """(summary, what it took). The request's prefix is the one that was sent before, so that caches hit.

    Raises CompactionError when the answer is no summary, BackendError when there is none.
    """
    reply = await ask([*messages, LLMMessage(role=Role.user, content=_prompt("compact"))])
    return _summary_of(reply), reply.usage or LLMUsage()


async def summary_of_parts(messages: Sequence[LLMMessage], ask: Ask, most: int) -> tuple[str, LLMUsage]:
    """As `whole_summary`, for what does not fit: parts of `most` characters, each summed up with the summary so far."""
    parts = _parts(list(_written_out(messages)), most)
    summary, prompt, completion = "(nothing yet)", 0, 0
    system = LLMMessage(role=Role.system, content=_prompt("compact_part"))
    for number, part in enumerate(parts, 1):
        text = f"The summary so far:\n\n{summary}\n\nPart {number} of {len(parts)} of the conversation:\n\n{part}"
        reply = await ask([system, LLMMessage(role=Role.user, content=text)])
        summary, usage = _summary_of(reply), reply.usage or LLMUsage()
        prompt, completion = prompt + usage.prompt_tokens, completion + usage.completion_tokens
    return summary, LLMUsage(prompt_tokens=prompt, completion_tokens=completion)


def _summary_of(reply: LLMChunk) -> str:
    text = (reply.message.content or "").strip()
    if text and not reply.message.tool_calls:
        return text
    what = "tool calls" if reply.message.tool_calls else "nothing"
    raise CompactionError(
        f"The conversation could not be compacted: the model answered with {what} instead of a summary.\n"
        "Try again, choose another model (%kin model NAME, --model NAME), or begin anew."
    )


def _written_out(messages: Sequence[LLMMessage]) -> Iterator[str]:
    """Each message as text; a tool's answer with the call's name and arguments, and how it came out."""
    arguments = {call.id: call.function.arguments or "" for m in messages for call in m.tool_calls or ()}
    for message in messages:
        content = message.content or ""
        if message.images:
            content += f"\n[with {len(message.images)} picture(s)]"
        if message.role is Role.tool:
            given = _shortened(arguments.get(message.tool_call_id, ""))
            yield f"The agent called {message.name or 'a tool'} {given}\nOutcome:\n{_shortened(content)}"
        elif message.role is Role.user:
            yield f"The person:\n{content}"
        elif message.role is Role.assistant and content.strip():
            yield f"The agent:\n{content}"


def _parts(texts: list[str], most: int) -> list[str]:
    """`texts` in order, joined into parts of at most `most` characters; one that is longer alone is split."""
    pieces = [text[start : start + most] for text in texts for start in range(0, len(text), most)]
    parts: list[str] = []
    for piece in pieces:
        if parts and len(parts[-1]) + len(piece) + 2 <= most:
            parts[-1] += f"\n\n{piece}"
        else:
            parts.append(piece)
    return parts


def _shortened(text: str) -> str:
    if len(text) <= _RESULT_LIMIT:
        return text
    half = _RESULT_LIMIT // 2
    return f"{text[:half]}\n[… left out …]\n{text[-half:]}"


def _prompt(name: str) -> str:
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8").strip()
