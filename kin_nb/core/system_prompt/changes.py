"""What becomes of a session's system prompt when settings, instructions or the program around it change.

It stays as it is, so that each request begins as the one before (prompt caches), and the model gets a note. Only where
instructions were taken away or replaced is it built again: they must not be read any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kin_nb.core.system_prompt.builder import REPLACEABLE, joined

_CHANGED = "This has changed since the system prompt was written, and replaces what it says about the same:"
_WITHDRAWN = "Instructions that earlier notes gave you no longer apply; the system prompt has all that do."
_GIVEN = re.compile(r"<changed>\n(.*?)\n</changed>", re.DOTALL)
_PROJECT_CONTEXT = re.compile(r"<project_context>\n.*?</project_context>", re.DOTALL)


class PromptChange(NamedTuple):
    """Whether the system prompt must be built again, and the note for the next request, "" for none."""

    rebuild: bool
    note: str


def compare_prompt(prompt: str, notes: Iterable[str], sections: Sequence[str]) -> PromptChange:
    """Compare a session's prompt and notes with the `sections` that a new prompt would have, without the project's state."""
    given: list[str] = []
    for note in notes:
        given = [] if _WITHDRAWN in note else [*given, *_GIVEN.findall(note)]
    if any(_has_withdrawn(text, sections) for text in (prompt, *given)):
        return PromptChange(rebuild=True, note=_WITHDRAWN if given else "")
    known = joined([prompt, *given])
    new = [section for section in sections if section not in known]
    return PromptChange(rebuild=False, note=f"{_CHANGED}\n<changed>\n{joined(new)}\n</changed>" if new else "")


def _has_withdrawn(text: str, sections: Iterable[str]) -> bool:
    """Whether `text` has instructions that are in none of the sections."""
    rest = _PROJECT_CONTEXT.sub("", text)
    for section in sections:
        rest = rest.replace(section, "")
    blocks = filter(None, (block.strip() for block in rest.split("\n\n")))
    return any(not block.startswith(REPLACEABLE) for block in blocks)
