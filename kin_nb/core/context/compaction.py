"""Compaction: replace a conversation by a summary of itself, the user's own words and its last messages.

How the summary is made is a strategy (`Compaction`; `SimpleCompaction` is the built-in one). What replaces the summarised
messages is the same for all strategies, so that records alone are enough to make it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kin_nb.core.context.context_window import AIM, about_tokens, characters, tokens_of
from kin_nb.core.llm.errors import ContextTooLongError
from kin_nb.core.messages import LLMChunk, LLMMessage, LLMUsage, Role

MOST_WORDS = 20_000
"""Characters of the person's words that stay beside the last request, where the strategy does not say how many."""
_FIRST_REMOVABLE = 2
"""The first message that may stay: the system message always does, the one after it always gives way."""
_LEAST_PIECE = 200
"""Characters below which a piece of a request says nothing."""
_LAST_REQUEST = "The person's last request, in their words:"


class CompactionError(Exception):
    """The conversation could not be compacted; it is as it was. Two lines: what happened, what to do."""


@dataclass(frozen=True)
class Compacted:
    """`kept`: so many messages at the end stay as they are; `summary` stands for all before them.

    `usage` is what the summary took. `words`: characters, at most, of what the person said before their last request.
    """

    summary: str
    kept: int
    usage: LLMUsage
    words: int = MOST_WORDS


class Ask(Protocol):
    """`tools`: tokens that the tools take in each request of the conversation, beside its messages."""

    tools: int

    async def __call__(self, messages: list[LLMMessage]) -> LLMChunk:
        """One request to the model. Raises ContextTooLongError, asked or not, for messages that do not fit its window."""
        ...


class Compaction(Protocol):
    """Set as `agent.compaction_strategy`."""

    async def compact(self, messages: list[LLMMessage], *, ask: Ask, window: int) -> Compacted:
        """`messages` begins with the system message. `window`: tokens that the conversation fills at most.

        It is called again, with what it left and half the window, when that is still too much.

        Raises CompactionError when there is no summary, BackendError when there is no answer. A tail that would begin
        with the answer to a call is made to begin with the call.
        """
        ...


def first_kept(messages: Sequence[LLMMessage], kept: int) -> int:
    """Where the last `kept` messages begin; earlier, should that be between a call and its answers."""
    place = start = min(max(len(messages) - max(kept, 0), _FIRST_REMOVABLE), len(messages))
    while _FIRST_REMOVABLE <= place < len(messages) and messages[place].role is Role.tool:
        place -= 1
    if place >= _FIRST_REMOVABLE:
        return place
    return next((i for i in range(start, len(messages)) if messages[i].role is not Role.tool), len(messages))


def compacted(summary: str, words: Sequence[str], last_request: str) -> LLMMessage:
    """The one message that stands for everything before it. `last_request`: "" when it stands after it."""
    parts = ["The conversation so far, summed up by you:", summary]
    if words:
        parts += ["The person's words so far, oldest first:", *(f"- {text}" for text in words)]
    if last_request:
        parts += [_LAST_REQUEST, last_request]
    return LLMMessage(role=Role.user, content="\n\n".join(parts))


def last_request(messages: Sequence[LLMMessage]) -> str:
    """What the person asked last, as it stays whatever gives way: of a summary's message (`compacted`), its end alone."""
    said = next((message.content or "" for message in reversed(messages) if message.role is Role.user), "")
    return said.rpartition(_LAST_REQUEST)[2]


def fitting(
    said: Sequence[str], most: int, redact: Callable[[str], str], expand: Callable[[str], str] = str
) -> list[str]:
    """The newest of `said` that take `most` characters together, and a note of what is left out.

    They are measured redacted, and cut so, so that a resume elsewhere cuts at the same place.
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
"""Tokens that are left for the summary, in a small window a quarter of what there is."""


@dataclass(frozen=True)
class SimpleCompaction:
    """One request that goes on from the conversation itself, so that caches hit. Does it not fit: one for each part.

    `keep`: messages that stay, none of a conversation that has no more; what stays begins with no answer without its
    call. `part_tokens`: about the size of a part, less in a small window. Where all that stays would fill more than AIM
    per cent of the window, fewer messages stay, and fewer of the person's words; neither pushes the other out: half of the
    room is for each where both want it, and the oldest words go first.
    """

    keep: int = 10
    part_tokens: int = 10_000

    async def compact(self, messages: list[LLMMessage], *, ask: Ask, window: int) -> Compacted:
        most = _free_tokens(messages, ask, window)
        cut = self._cut(messages, most)
        try:
            summary, usage = await whole_summary(messages[:cut], ask)
        except ContextTooLongError:
            window = min(window, about_tokens(messages) + ask.tools)  # the server's may be smaller than ours says
            most = _free_tokens(messages, ask, window)
            cut = self._cut(messages, most)
            part = characters(max(1, min(self.part_tokens, window // 3)))
            summary, usage = await summary_of_parts(messages[1:cut], ask, part)
        left = characters(most - _tail_tokens(messages, cut)) - len(summary)
        return Compacted(summary, len(messages) - cut, usage, words=max(0, left))

    def _cut(self, messages: Sequence[LLMMessage], most: int) -> int:
        """Where what stays begins. The person's words before it may need up to half of `most`."""
        if len(messages) - 1 <= self.keep:
            return len(messages)
        cut = first_kept(messages, self.keep)
        said = about_tokens(message for message in messages if message.role is Role.user)
        free = most - min(_SUMMARY_TOKENS, most // 4)
        free -= min(said, free // 2)
        while cut < len(messages) and _tail_tokens(messages, cut) > free:
            cut = next((i for i in range(cut + 1, len(messages)) if messages[i].role is not Role.tool), len(messages))
        return cut


def _free_tokens(messages: Sequence[LLMMessage], ask: Ask, window: int) -> int:
    """Tokens for the summary, the messages that stay and the person's words, beside what always stays."""
    return window * AIM // 100 - ask.tools - about_tokens(messages[:1]) - tokens_of(last_request(messages))


def _tail_tokens(messages: Sequence[LLMMessage], cut: int) -> int:
    """Tokens of the messages from `cut` on, without the last request."""
    tail = messages[cut:]
    asked = any(message.role is Role.user for message in tail)
    return about_tokens(tail) - (tokens_of(last_request(messages)) if asked else 0)


_LONGEST_RESULT = 2_000
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
    if len(text) <= _LONGEST_RESULT:
        return text
    half = _LONGEST_RESULT // 2
    return f"{text[:half]}\n[… left out …]\n{text[-half:]}"


def _prompt(name: str) -> str:
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8").strip()
