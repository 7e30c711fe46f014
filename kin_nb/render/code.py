"""Calls that show code: what `python` runs in the notebook, and what read_file has read. HTML and text of each."""

from __future__ import annotations

import re
from itertools import groupby

from kin_nb.render.highlight import code_html, highlighted, highlighted_lines
from kin_nb.render.languages import language_of
from kin_nb.render.part import Part
from kin_nb.render.text import count, escape, line_count, one_line

READ_FILE = "read_file"
_OPEN_LINES = 10
_NUMBERED = re.compile(r" *\d+\t")
"""What read_file puts before each line of a file."""
_BOUND = re.compile(r"(?:^|; )variables: ([^;]+)$")
"""How `uncovered` ends when code has changed the notebook's variables (the `python` tool)."""
_NOTES = re.compile(r"(?:(?:^|\n)\[\d+ pictures? with this result\])?(?:(?:^|\n)\[new or changed: [^\n]*\])?\Z")
"""How its result ends: words to the model about what the person sees."""


def without_notes(output: str) -> str:
    """A result of `python` as a card shows it: pictures stand below it, and names that were bound are said in its last line."""
    return _NOTES.sub("", output)


def code_part(code: str, *, waiting: bool) -> Part:
    """All of it, folded when it is long and nobody is asked about it."""
    html = code_html(highlighted(code, "python"))
    lines = line_count(code)
    if lines > _OPEN_LINES and not waiting:
        html = f"<details><summary>The code, {count(lines, 'line')}</summary>\n{html}</details>\n"
    return Part(html, code)


def read_part(output: str, path: str) -> Part:
    """Lines of a file behind their numbers; what is not numbered was said about them."""
    if not language_of(path):
        return Part.block(output)
    html: list[str] = []
    for numbered, group in groupby(output.split("\n"), key=lambda line: bool(_NUMBERED.match(line))):
        lines = list(group)
        if not numbered:
            html += map(escape, lines)
            continue
        ends = [line.index("\t") + 1 for line in lines]
        code = "\n".join(line[end:] for line, end in zip(lines, ends, strict=True))
        drawn = highlighted_lines(code, path)
        html += [line[:end] + shown for line, end, shown in zip(lines, ends, drawn, strict=True)]
    return Part(code_html("\n".join(html)), output)


def uncovered_part(uncovered: str) -> Part:
    """What undo does not bring back: variables that were bound, and whatever else there is."""
    bound = _BOUND.search(uncovered)
    rest = uncovered[: bound.start()] if bound else uncovered
    lines = [f"bound: {one_line(bound[1], 400)} (undo does not bring variables back)"] if bound else []
    lines += [f"Not covered by undo: {one_line(rest.removeprefix('not covered: '), 400)}"] if rest else []
    return Part("".join(f"<small>{escape(line)}</small><br>\n" for line in lines), "\n".join(lines))
