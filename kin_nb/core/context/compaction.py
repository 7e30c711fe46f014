"""Compaction: replace a conversation by a summary, the user's prompts and the last messages.

How the summary is made is a strategy (`CompactionStrategy`; `SimpleCompaction` is the built-in one). What replaces the summarised
messages is the same for all strategies, so that records are enough to rebuild it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kin_nb.core.context.context_window import TARGET_PERCENT, characters, estimate_text_tokens, estimate_tokens
from kin_nb.core.llm.errors import ContextTooLongError
from kin_nb.core.messages import LLMChunk, LLMMessage, LLMUsage, Role

MOST_WORDS = 20_000
"""Default limit, in characters, of the user's earlier prompts that are kept next to the last one."""
_FIRST_REMOVABLE = 2
"""Index of the first message that may be kept: the system message is always kept, the one after it is always replaced."""
_LEAST_PIECE = 200
"""Fewest characters of a shortened prompt: a shorter piece is not useful."""
_LAST_REQUEST = "The person's last request, in their words:"


class CompactionError(Exception):
    """The conversation could not be compacted, and was not changed. Two lines: what happened, what to do."""


@dataclass(frozen=True)
class CompactionResult:
    """`kept`: number of last messages that are kept; `summary` replaces all before them.

    `usage`: the tokens of the summary's requests. `words`: most characters of the user's prompts before the last one.
    """

    summary: str
    kept: int
    usage: LLMUsage
    words: int = MOST_WORDS


class Summarize(Protocol):
    """One request for a summary. `tools`: tokens of the tool schemas in each request of the conversation."""

    tools: int

    async def __call__(self, messages: list[LLMMessage]) -> LLMChunk:
        """Send one request. Raises ContextTooLongError for messages that do not fit the window, also without sending them."""
        ...


class CompactionStrategy(Protocol):
    """Set as `agent.compaction_strategy`."""

    async def compact(self, messages: list[LLMMessage], *, ask: Summarize, window: int) -> CompactionResult:
        """Summarize `messages`, which start with the system message. `window`: most tokens of the conversation.

        Called again, with the result and half the window, when the result is still too large.

        Raises CompactionError without a summary, BackendError without an answer. A tail that would start with a tool
        result is extended to start with its call.
        """
        ...


def tail_start(messages: Sequence[LLMMessage], kept: int) -> int:
    """Return the index of the last `kept` messages; a smaller one, if that is between a call and its results."""
    place = start = min(max(len(messages) - max(kept, 0), _FIRST_REMOVABLE), len(messages))
    while _FIRST_REMOVABLE <= place < len(messages) and messages[place].role is Role.tool:
        place -= 1
    if place >= _FIRST_REMOVABLE:
        return place
    return next((i for i in range(start, len(messages)) if messages[i].role is not Role.tool), len(messages))


def compacted(summary: str, words: Sequence[str], last_request: str) -> LLMMessage:
    """Return the message that replaces all before it. `last_request`: "" when that prompt is kept after it.

    The text is part of recorded fingerprints: do not change it.
    """
    parts = ["The conversation so far, summed up by you:", summary]
    if words:
        parts += ["The person's words so far, oldest first:", *(f"- {text}" for text in words)]
    if last_request:
        parts += [_LAST_REQUEST, last_request]
    return LLMMessage(role=Role.user, content="\n\n".join(parts))


def last_request(messages: Sequence[LLMMessage]) -> str:
    """Return the user's last prompt, which is always kept: for a message made by `compacted`, its last part."""
    said = next((message.content or "" for message in reversed(messages) if message.role is Role.user), "")
    return said.rpartition(_LAST_REQUEST)[2]


def truncate_user_text(
    said: Sequence[str], most: int, redact: Callable[[str], str], expand: Callable[[str], str] = str
) -> list[str]:
    """Return the newest texts of `said` with at most `most` characters, and a note that counts the omitted ones.

    They are measured and cut after redaction, so that a resume on another machine cuts at the same character.
    """
    said = [text for text in said if text.strip()]
    fit: list[str] = []
    for number, text in enumerate(reversed(said)):
        plain = redact(text)
        if len(plain) <= most:
            most -= len(plain)
            fit.append(text)
            continue
        left = len(said) - number
        if most >= _LEAST_PIECE:
            fit.append(f"{expand(plain[:most])} [… {len(plain) - most:,} characters left out]")
            left -= 1
        if left and fit:
            fit.append(f"[… {left} earlier request{'s' if left > 1 else ''} left out]")
        break
    return fit[::-1]


_SUMMARY_TOKENS = 1_000
"""Tokens reserved for the summary; in a small window, a quarter of the free tokens."""


@dataclass(frozen=True)
class SimpleCompaction:
    """Ask for the summary in one request that continues the conversation, so that caches hit; else in one per part.

    `keep`: number of last messages to keep; 0 when the conversation has no more than that. The kept messages never start
    with a result without its call. `part_tokens`: approximate size of a part, smaller in a small window. If the result
    would fill more than TARGET_PERCENT of the window, fewer messages and fewer of the user's prompts are kept: each gets
    at least half of the free tokens when both need them, and the oldest prompts are dropped first.
    """

    keep: int = 10
    part_tokens: int = 10_000

    async def compact(self, messages: list[LLMMessage], *, ask: Summarize, window: int) -> CompactionResult:
        most = _free_tokens(messages, ask, window)
        cut = self._cut(messages, most)
        try:
            summary, usage = await whole_summary(messages[:cut], ask)
        except ContextTooLongError:
            window = min(window, estimate_tokens(messages) + ask.tools)  # the server's may be smaller than ours says
            most = _free_tokens(messages, ask, window)
            cut = self._cut(messages, most)
            part = characters(max(1, min(self.part_tokens, window // 3)))
            summary, usage = await summary_of_parts(messages[1:cut], ask, part)
        left = characters(most - _tail_tokens(messages, cut)) - len(summary)
        return CompactionResult(summary, len(messages) - cut, usage, words=max(0, left))

    def _cut(self, messages: Sequence[LLMMessage], most: int) -> int:
        """Return the index of the first kept message. The user's prompts before it may need up to half of `most`."""
        if len(messages) - 1 <= self.keep:
            return len(messages)
        cut = tail_start(messages, self.keep)
        said = estimate_tokens(message for message in messages if message.role is Role.user)
        free = most - min(_SUMMARY_TOKENS, most // 4)
        free -= min(said, free // 2)
        while cut < len(messages) and _tail_tokens(messages, cut) > free:
            cut = next((i for i in range(cut + 1, len(messages)) if messages[i].role is not Role.tool), len(messages))
        return cut


def _free_tokens(messages: Sequence[LLMMessage], ask: Summarize, window: int) -> int:
    """Return the tokens for the summary, the kept messages and the user's prompts: the window without what always stays."""
    return (
        window * TARGET_PERCENT // 100
        - ask.tools
        - estimate_tokens(messages[:1])
        - estimate_text_tokens(last_request(messages))
    )


def _tail_tokens(messages: Sequence[LLMMessage], cut: int) -> int:
    """Return the tokens of the messages from `cut`, without the last prompt."""
    tail = messages[cut:]
    asked = any(message.role is Role.user for message in tail)
    return estimate_tokens(tail) - (estimate_text_tokens(last_request(messages)) if asked else 0)


_LONGEST_RESULT = 2_000
"""Most characters of a result, and of a call's arguments, when parts are summarized."""


async def whole_summary(messages: Sequence[LLMMessage], ask: Summarize) -> tuple[str, LLMUsage]:
    """Return the summary and its usage. The request starts with the messages that were sent before, so that caches hit.

    Raises CompactionError when the answer is not a summary, BackendError when the request fails.
    """
    reply = await ask([*messages, LLMMessage(role=Role.user, content=_prompt("compact"))])
    return _summary_of(reply), reply.usage or LLMUsage()


async def summary_of_parts(messages: Sequence[LLMMessage], ask: Summarize, most: int) -> tuple[str, LLMUsage]:
    """Summarize messages that do not fit in one request: parts of `most` characters, each with the summary so far."""
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
        "Try again, or choose another model (%kin model NAME, --model NAME)."
    )


def _written_out(messages: Sequence[LLMMessage]) -> Iterator[str]:
    """Yield each message as text; a tool result with the name and the arguments of its call."""
    arguments = {call.id: call.function.arguments or "" for m in messages for call in m.tool_calls or ()}
    for message in messages:
        content = message.content or ""
        if message.images:
            content += f"\n[with {len(message.images)} picture(s)]"
        if message.role is Role.tool:
            given = _shortened(arguments.get(message.tool_call_id, ""))
            yield f"The agent called {message.name or 'a tool'} {given}\nOutcome:\n{_shortened(content)}"
        elif message.role is Role.user:
            yield f"The user:\n{content}"
        elif message.role is Role.assistant and content.strip():
            yield f"The agent:\n{content}"


def _parts(texts: list[str], most: int) -> list[str]:
    """Join `texts` into parts of at most `most` characters; a longer text is split."""
    pieces = [text[start : start + most] for text in texts for start in range(0, len(text), most)]
    parts: list[str] = []
    for piece in pieces:
        if parts and len(parts[-1]) + len(piece) + 2 <= most:
            parts[-1] += f"\n\n{piece}"
        else:
            parts.append(piece)
    return parts


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST_RESULT:
        return text
    half = _LONGEST_RESULT // 2
    return f"{text[:half]}\n[… left out …]\n{text[-half:]}"


def _prompt(name: str) -> str:
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8").strip()
