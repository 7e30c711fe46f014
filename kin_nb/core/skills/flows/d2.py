"""D2 diagrams, as far as a flow needs them: nodes and labels, arrows with labels, chains, maps with attributes.

Styles, classes and variables are allowed and mean nothing; containers and lines without an arrow are errors.
"""

from __future__ import annotations

import re
import textwrap

from kin_nb.core.skills.flows.model import Source

_NOTHING = re.compile(r'(?:[\s;]|#[^\n]*|"""(?:(?!""")[\s\S])*""")+')
_REFERENCE = re.compile(r"\([^\n]*")
_BLANK = re.compile(r"[ \t]*")
_OVER = re.compile(r"[ \t]*(?=[;\n}]|#|\Z)")
_QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\'([^\'\n]*)\'')
_KEY = re.compile(r"(?:(?!-{1,9}>|<-|--)[^\n:;{}#\"'|])+")
_ARROW = re.compile(r"-{1,9}>")
_BACK = re.compile(r"<-{1,9}(?![->])")
_LINE = re.compile(r"<?-{2,9}>?|<-{1,9}>")
_COLON = re.compile(r"[ \t]*:[ \t]*")
_BLOCK = re.compile(r"\|(?P<fence>[|`]{0,5})(?:(?:md|markdown|txt|text)(?=\s))?")
_PLAIN = re.compile(r"(?:(?![ \t]#)[^\n;{}])*")
_OPEN = re.compile(r"[ \t]*\{")
_CLOSE = re.compile(r"\}")
_INSIDE = re.compile(r'(?:[^{}"\']|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|["\'])+')

_ATTRIBUTES = {
    *("label", "shape", "style", "icon", "tooltip", "link", "near", "width", "height", "top", "left", "class"),
    *("constraint", "direction", "grid-rows", "grid-columns", "grid-gap", "vertical-gap", "horizontal-gap"),
    *("source-arrowhead", "target-arrowhead"),
}
_OF_THE_DIAGRAM = _ATTRIBUTES | {"vars", "classes", "layers", "scenarios", "steps"}
_CONTAINERS = "Containers are not part of a flow: give each node a name of its own, and draw it at the top level."
_HINT = "Write one statement a line, such as: check: Is it done?, or: check -> end: yes."


def draw_d2(source: Source) -> None:
    """Read a D2 diagram into `source`. Raises FlowError."""
    while not source.over:
        if not (source.take(_NOTHING) or source.take(_REFERENCE)):
            _statement(source)


def _statement(source: Source) -> None:
    first = _key(source)
    if first[0] in _OF_THE_DIAGRAM:
        _value(source)
        _map(source, skip=True)
        return
    if len(first) > 1:
        _attribute(source, first)
        return
    edges: list[tuple[str, str]] = []
    name = source.node(first[0])
    while (forward := _direction(source)) is not None:
        other = _key(source)
        if len(other) > 1:
            raise source.error(_CONTAINERS)
        source.node(other[0])
        edges.append((name, other[0]) if forward else (other[0], name))
        name = other[0]
    said = _value(source)
    inside = _map(source)
    label = said if inside is None else inside
    if not source.take(_OVER):
        raise source.unreadable(_HINT)
    for start, end in edges:
        source.edge(start, end, label or "")
    if not edges:
        source.node(name, label)


def _attribute(source: Source, key: list[str]) -> None:
    """Read an attribute, such as `node.label: text` or `node.style.fill: red`."""
    if key[1] not in _ATTRIBUTES:
        raise source.error(_CONTAINERS)
    value = _value(source)
    _map(source, skip=True)
    source.node(key[0], value if key[1:] == ["label"] else None)


def _key(source: Source) -> list[str]:
    """Read a key, and return its parts between dots."""
    source.take(_BLANK)
    quoted = source.take(_QUOTED)
    if quoted:
        name = _unescaped(quoted[1]) if quoted[1] is not None else quoted[2]
        parts = [name.strip()]
    else:
        plain = source.take(_KEY)
        parts = [part.strip() for part in plain[0].split(".")] if plain else [""]
    source.take(_BLANK)
    if not all(parts):
        raise source.unreadable(f"A node's name is missing. {_HINT}")
    return parts


def _direction(source: Source) -> bool | None:
    """Read an arrow: True for `->`, False for `<-`, None if the text here is not an arrow."""
    if source.take(_ARROW):
        return True
    if source.take(_BACK):
        return False
    if _LINE.match(source.text, source.at):
        raise source.error("an edge needs one direction; write an arrow: ->.")
    return None


def _value(source: Source) -> str | None:
    """Read the value after a colon; None without a colon, or if a map follows it directly."""
    if not source.take(_COLON):
        return None
    quoted = source.take(_QUOTED)
    if quoted:
        return (_unescaped(quoted[1]) if quoted[1] is not None else quoted[2]).strip()
    block = source.take(_BLOCK)
    if block:
        end = source.text.find(f"{block['fence'][::-1]}|", source.at)
        if end < 0:
            raise source.error("a block of text begins here and has no end; close it as it was opened.")
        text = source.text[source.at : end]
        source.at = end + len(block["fence"]) + 1
        return textwrap.dedent(text).strip()
    plain = source.take(_PLAIN)
    text = plain[0].strip() if plain else ""
    return None if not text and _OPEN.match(source.text, source.at) else _unescaped(text)


def _map(source: Source, *, skip: bool = False) -> str | None:
    """Read a map in braces, if there is one, and return its label."""
    if not source.take(_OPEN):
        return None
    if skip:
        _skip(source)
        return None
    label: str | None = None
    while not source.take(_CLOSE):
        if source.take(_NOTHING):
            continue
        key = _key(source)
        if key[0] not in _ATTRIBUTES:
            raise source.error(_CONTAINERS)
        value = _value(source)
        _map(source, skip=True)
        label = value if key == ["label"] else label
    return label


def _skip(source: Source) -> None:
    """Move to the closing brace that matches the one just opened."""
    depth = 1
    while depth:
        source.take(_INSIDE)
        if source.over:
            raise source.error("a brace is not closed.")
        depth += 1 if source.text[source.at] == "{" else -1
        source.at += 1


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], text)
