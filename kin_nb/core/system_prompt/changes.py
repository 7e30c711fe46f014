"""What becomes of a session's system prompt when settings, instructions or the program around it change.

It stays as it is, so that each request begins as the one before (prompt caches), and the model gets a note. Only where
instructions were taken away or replaced is it built again: they must not be read any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kin_nb.core.system_prompt.builder import FACTS, REPLACEABLE, joined
from kin_nb.core.system_prompt.project_context import NOT_A_PROJECT, PROJECT_CONTEXT

_CHANGED = "This has changed since the system prompt was written, and replaces what it says about the same:"
_WITHDRAWN = "Instructions that earlier notes gave you no longer apply; the system prompt has all that do."
_GIVEN = re.compile(r"<changed>\n(.*?)\n</changed>", re.DOTALL)
_STATE = (PROJECT_CONTEXT, NOT_A_PROJECT)
_PROJECT_CONTEXT = re.compile(r"<project_context>\n.*?</project_context>", re.DOTALL)


class PromptUpdate(NamedTuple):
    """The system prompt from now on, and the note for the next request, "" for none."""

    prompt: str
    note: str


def update_prompt(prompt: str, notes: Iterable[str], sections: Sequence[str]) -> PromptUpdate:
    """Bring a session up to date. `notes`: of the conversation so far. `sections`: those of a new system prompt.

    What git and the files are like is left out: the prompt says that it is of the session's beginning.
    """
    given: list[str] = []
    for note in notes:
        given = [] if _WITHDRAWN in note else [*given, *_GIVEN.findall(note)]
    if any(_has_withdrawn(text, sections) for text in (prompt, *given)):
        return PromptUpdate(joined(sections), _WITHDRAWN if given else "")
    known = joined([prompt, *given])
    new = [_new_part(section, known) for section in sections if not section.startswith(_STATE)]
    texts = [text for text in new if text]
    return PromptUpdate(prompt, f"{_CHANGED}\n<changed>\n{joined(texts)}\n</changed>" if texts else "")


def _has_withdrawn(text: str, sections: Iterable[str]) -> bool:
    """Whether `text` has instructions that are in none of the sections."""
    rest = _PROJECT_CONTEXT.sub("", text)
    for section in sections:
        rest = rest.replace(section, "")
    blocks = filter(None, (block.strip() for block in rest.split("\n\n")))
    return any(not block.startswith((*REPLACEABLE, *_STATE)) for block in blocks)


def _new_part(section: str, known: str) -> str:
    """Return the section if it is not in `known`; of the facts, the new lines."""
    if section in known:
        return ""
    lines = section.split("\n")
    return "\n".join(line for line in lines if line not in known) if section.startswith(FACTS) else section
