"""Mermaid's flowcharts, as far as a flow needs them: nodes of any shape, arrows with labels, chains, comments.

Subgraphs, styles and classes are allowed and mean nothing; `&` and lines without an arrow are errors.
"""

from __future__ import annotations

import html
import re

from kin_nb.core.skills.flows.model import Source

_HEADER = re.compile(r"(?:flowchart|graph)(?:[ \t]+(?:TB|TD|BT|RL|LR))?[ \t]*(?=[;\n]|\Z)")
_FRONTMATTER = re.compile(r"\s*---[ \t]*\n(?:(?!---)[^\n]*\n)*---[ \t]*\n")
_NOTHING = re.compile(r"(?:[\s;]|%%[^\n]*)+")
_MEANS_NOTHING = re.compile(
    r"(?:classDef|class|style|linkStyle|click|direction|subgraph|accTitle|accDescr)[ \t:]+(?![-= \t:])[^\n;]*"
    r"|(?:subgraph|end)[ \t]*(?=[;\n]|%%|\Z)"
)
_BLANK = re.compile(r"[ \t]*")
_OVER = re.compile(r"[ \t]*(?=[;\n]|%%|\Z)")
_ID = re.compile(r"\w+(?:[-.]\w+)*")
_CLASS = re.compile(r":::\w+(?:-\w+)*")

_SHAPES = (
    *(("(((", ")))"), ("((", "))"), ("([", "])"), ("[[", "]]"), ("[(", ")]"), ("{{", "}}")),
    *(("[/", "/]"), ("[/", "\\]"), ("[\\", "/]"), ("[\\", "\\]"), ("(", ")"), ("[", "]"), ("{", "}"), (">", "]")),
)
_LABELS = [
    re.compile(
        rf'{re.escape(opening)}(?:[ \t]*"(?P<quoted>[^"]*)"[ \t]*|(?P<plain>(?:[^"\n{last}][^\n{last}]*)?)){re.escape(closing)}'
    )
    for opening, closing in _SHAPES
    for last in [re.escape(closing[-1])]
]
_ARROW = re.compile(r"(?:-{2,9}>|-\.{1,9}->|={2,9}>)(?:[ \t]*\|(?P<label>[^|\n]*)\|)?")
_WORDED_ARROWS = [
    re.compile(r"--(?![->])(?P<label>(?:(?!--)[^\n])*)-{2,9}>"),
    re.compile(r"-\.(?![-.])(?P<label>(?:(?!\.-)[^\n])*)\.{1,9}->"),
    re.compile(r"==(?![=>])(?P<label>(?:(?!==)[^\n])*)={2,9}>"),
]
_LINE = re.compile(r"<?(?:-{2,9}|={2,9}|-\.{1,9}-)[>ox]?")

_HINT = "Write one statement a line, such as: A[Do this] --> B{Is it done?}, B -->|yes| C."


def draw_mermaid(source: Source) -> None:
    """Read a mermaid flowchart into `source`. Raises FlowError."""
    source.take(_FRONTMATTER)
    source.take(_NOTHING)
    if not source.take(_HEADER):
        raise source.unreadable("A mermaid diagram of a flow begins with a line such as: flowchart TD.")
    while not source.over:
        if not (source.take(_NOTHING) or source.take(_MEANS_NOTHING)):
            _statement(source)


def _statement(source: Source) -> None:
    node = _node(source)
    if node is None:
        raise source.unreadable(_HINT)
    while not source.take(_OVER):
        source.take(_BLANK)
        label = _arrow(source)
        source.take(_BLANK)
        target = _node(source)
        if target is None:
            raise source.error(f"an edge of {node} leads nowhere; write the node that it leads to.")
        source.edge(node, target, label)
        node = target


def _node(source: Source) -> str | None:
    name = source.take(_ID)
    if name is None:
        return None
    for pattern in _LABELS:
        match = source.take(pattern)
        if match:
            quoted = match["quoted"]
            source.node(name[0], _text(match["plain"] if quoted is None else quoted))
            break
    else:
        source.node(name[0])
    source.take(_CLASS)
    return name[0]


def _arrow(source: Source) -> str:
    for pattern in (_ARROW, *_WORDED_ARROWS):
        match = source.take(pattern)
        if match:
            return _text((match["label"] or "").strip().removeprefix('"').removesuffix('"'))
    if _LINE.match(source.text, source.at):
        raise source.error("an edge needs one direction; write an arrow: -->.")
    raise source.unreadable(_HINT)


def _text(label: str) -> str:
    """Decode mermaid's escapes in a label: `<br/>`, `#quot;`, `#35;`, and backticks around Markdown."""
    label = label.strip()
    if len(label) > 1 and label[0] == label[-1] == "`":
        label = label[1:-1]
    label = re.sub(r"<br[ ]?/?>", "\n", label, flags=re.IGNORECASE)
    return re.sub(r"#(\d{1,7}|[a-z]{2,8});", _entity, label).strip()


def _entity(match: re.Match[str]) -> str:
    written = f"&#{match[1]};" if match[1].isdigit() else f"&{match[1]};"
    read = html.unescape(written)
    return match[0] if read == written else read
