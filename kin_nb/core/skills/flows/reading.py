"""From a SKILL.md to a Flow: the one diagram in its text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kin_nb.core.project_snapshot import MayUse, anything
from kin_nb.core.skills.flows.checks import checked
from kin_nb.core.skills.flows.d2 import draw_d2
from kin_nb.core.skills.flows.mermaid import draw_mermaid
from kin_nb.core.skills.flows.model import Flow, FlowError
from kin_nb.core.skills.flows.source import Source
from kin_nb.core.skills.parser import read_parts

_LANGUAGES = {"mermaid": draw_mermaid, "d2": draw_d2}
_FENCES = ("```", "~~~")


def read_flow(path: Path, may_use: MayUse = anything) -> Flow:
    """Raises SkillError, most often a FlowError, that names the file and the line; also when `may_use` refuses the file."""
    skill, body, first = read_parts(path, may_use)
    if not skill.is_flow:
        raise FlowError(f"{path}: it is no flow; for one, add the line `type: flow` to its frontmatter.")
    diagrams = [(language, line, text) for language, line, text in _blocks(body, first) if language in _LANGUAGES]
    if not diagrams:
        raise FlowError(f"{path}:{first}: a flow has a diagram in its text, between ```mermaid (or ```d2) and ```.")
    if len(diagrams) > 1:
        raise FlowError(f"{path}:{diagrams[1][1]}: a second diagram; a flow has exactly one (line {diagrams[0][1]}).")
    language, line, text = diagrams[0]
    source = Source(path, text, line + 1)
    _LANGUAGES[language](source)
    return checked(skill.name, source)


def _blocks(body: str, first: int) -> Iterator[tuple[str, int, str]]:
    """Language, line and text of each fenced block; one inside another is text of that."""
    opened, language, line, lines = "", "", first, list[str]()
    for number, text in enumerate(body.split("\n"), first):
        stripped = text.strip()
        if not opened:
            if stripped.startswith(_FENCES):
                rest = stripped.lstrip(stripped[0])
                opened = stripped[: len(stripped) - len(rest)]
                language, line, lines = (rest.split() or [""])[0].lower(), number, []
        elif stripped.startswith(opened) and not stripped.strip(opened[0]):
            yield language, line, "\n".join(lines)
            opened = ""
        else:
            lines.append(text)
