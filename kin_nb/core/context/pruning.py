"""Pruning: old tool results give way to stubs that say what was there and how to get it again (seed 004).

Whoever resumes a session makes the same stubs from its records, in another folder and with other secrets: they are made
of redacted text. Their words are part of recorded fingerprints: to change them is to change the format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from kin_nb.core.context.size import share_of_each, size_of
from kin_nb.core.messages import FunctionCall, LLMMessage, Role
from kin_nb.core.records import without_hint
from kin_nb.core.redaction import redact_json

KEPT = 10
"""The last messages, which nothing is taken from (seed 004)."""
_WORTH_IT = 400
"""Characters below which a result stays: its stub would not be much shorter."""
_LEAST_GAIN = 20
"""Less than a 20th of the context is not worth a prompt that no cache knows."""
_READING = frozenset({"read_file", "list_dir", "grep", "glob", "web_fetch", "web_search", "skill"})
"""Tools of which a second call does no harm; how the others ended stays to be read."""
_MAIN = ("path", "file_path", "command", "pattern", "query", "url", "name")
_LONGEST = 80
"""Characters of the argument, and of each line that stays."""


def prunable(messages: Sequence[LLMMessage], tokens: int, target: int) -> tuple[str, ...]:
    """The calls whose results should go, oldest first, for `messages` of `tokens` to come below `target`.

    As many as there are when that is not enough, none when they are too small to be worth it.
    """
    share = share_of_each(messages, tokens)
    left, calls = float(tokens), []
    for message in messages[:-KEPT]:
        if left < target:
            break
        size = size_of(message)
        if message.role is Role.tool and message.tool_call_id and size >= _WORTH_IT and not message.is_stub:
            left -= share * (size - _LONGEST)
            calls.append(message.tool_call_id)
    return tuple(calls) if (tokens - left) * _LEAST_GAIN >= tokens else ()


def stub(
    message: LLMMessage, call: FunctionCall, redact: Callable[[str], str], expand: Callable[[str], str]
) -> LLMMessage:
    """What stays of a tool's answer to `call`: its hint, where all of it is, too. `expand` puts this machine's paths in."""
    hint = redact(message.hint)
    text = without_hint(redact(message.content or ""), hint)
    name = " ".join((message.name or call.name or "tool").split())
    head = " ".join(filter(None, [name, _main_argument(redact_json(call.arguments or "", redact))]))
    what = f"{len(text):,} characters"
    if pictures := len(message.images or ()):
        what += f" and {pictures} picture{'s' if pictures > 1 else ''}"
    todo = "to see them" if name in _READING else "only if that does no harm"
    lines = [f"[{head}: {what} were here; call it again {todo}]"]
    if name not in _READING:
        lines += _ends(text)
    lines += filter(None, [hint])
    return message.changed(content=expand("\n".join(lines)), images=None, is_stub=True)


def _ends(text: str) -> list[str]:
    """The first and the last line that say something: what failed says why in one of them."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ends = lines[:1] + lines[1:][-1:]
    return [_short(line) for line in ends]


def _main_argument(arguments: str) -> str:
    """Of the call's JSON: the argument that says what it was about, "" when there is none."""
    try:
        given: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        return _short(arguments)
    if not isinstance(given, dict):
        return ""
    texts = {name: value for name, value in given.items() if isinstance(value, str) and value.strip()}
    return _short(next((texts[name] for name in (*_MAIN, *texts) if name in texts), ""))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
