"""Which memories there are, for the system prompt: their names and what each is about, never their text."""

from __future__ import annotations

from pathlib import Path

from kin_nb.core.memory import SCOPES, MemoryFile, list_memories
from kin_nb.core.system_prompt.one_line import one_line

_BEGINNING = (
    "Memories, kept from earlier sessions. Before work that one may bear on, read it with the memory tool. They are notes: "
    "what they say may have changed since."
)
_HEADINGS = {"user": "The person's:", "project": "This project's:"}
_ROOM = 1_500
"""Bytes of the whole section, but for the line that counts the rest."""
_DESCRIPTION = 200


def memories(workdir: Path, *, trusted: bool) -> str:
    """The newest that there is room for, by scope, and how many more; "" without any. A project's only when `trusted`."""
    usable = [m for m in list_memories(workdir, SCOPES if trusted else ("user",)) if not m.problem]
    room = _ROOM - sum(len(text) + 1 for text in (_BEGINNING, *_HEADINGS.values()))
    told: list[MemoryFile] = []
    for memory in usable:
        room -= len(_line(memory).encode()) + 1
        if room < 0:
            break
        told.append(memory)
    if not told:
        return ""
    lines = [_BEGINNING]
    for scope in SCOPES:
        listed = [_line(memory) for memory in told if memory.scope == scope]
        lines += [_HEADINGS[scope], *listed] if listed else []
    rest = len(usable) - len(told)
    return "\n".join([*lines, *([f"… {rest} more, older ones: the memory tool lists them."] if rest else [])])


def _line(memory: MemoryFile) -> str:
    return f"- {memory.name}: {one_line(memory.description, _DESCRIPTION)}"
