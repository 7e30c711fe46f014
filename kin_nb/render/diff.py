"""Unified diffs as text and as HTML, in one column or two: lines begin with a literal + or -, color is only added to that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, zip_longest
from typing import NamedTuple

from kin_nb.core.text import counted
from kin_nb.render.highlight import LARGEST, code_html, highlighted_lines, language_of, palette
from kin_nb.render.text import NOTHING, WRAPPED, Attribute, Html, escape, fill, join, reveal_hidden, styles

HUNK = re.compile(r"@@ -(?P<old>\d{1,20})(?:,(\d{1,20}))? \+(?P<new>\d{1,20})(?:,(\d{1,20}))? @@")
STYLES = {"+": Attribute("background:#2ea04333"), "-": Attribute("background:#f8514933")}


class DiffLine(NamedTuple):
    """`mark`: "+", "-", " " for lines of both sides, "" for other lines. `html` begins with the mark."""

    mark: str
    text: str
    html: Html


def render_diff(patch: str, *, path: str = "", limit: int | None = None, most: int | None = None) -> Html:
    """Return `patch` as one <pre>, cut to whole lines of at most `limit` characters and `most` lines, with a note if cut.

    `path`: the file, by whose name its lines are highlighted; for a patch without header lines.
    """
    shown, note = truncate_patch(patch, limit, most)
    pieces = []
    for style, lines in groupby(diff_lines(shown, path), key=lambda line: STYLES.get(line.mark)):
        html = join("\n", (line.html for line in lines))
        pieces.append(fill('<span style="{style}">{}</span>', html, style=style) if style else html)
    # Wrapped: blanks must not push the end of a line out of the user's sight.
    return code_html(fill("{}{}", join("\n", pieces), escape(note)))


def diff_text(patch: str, *, limit: int | None = None, most: int | None = None) -> str:
    """Return the diff for a terminal, without color."""
    shown, note = truncate_patch(patch, limit, most)
    return reveal_hidden(shown) + note


def diff_lines(patch: str, path: str = "") -> list[DiffLine]:
    """Return the lines of `patch`, highlighted if their file, by the patch or `path`, is in a known language."""
    files = [list(lines) for _, lines in groupby(_marked(patch), key=_FileNumber())]
    return [line for lines in files for line in _lines_of_a_file(lines, path, highlighted=len(patch) <= LARGEST)]


class _FileNumber:
    """The number of the file that a line of a patch belongs to: each header begins another one."""

    def __init__(self) -> None:
        self._number = 0

    def __call__(self, line: tuple[str, str]) -> int:
        self._number += not line[0] and line[1].startswith("--- ")
        return self._number


def _lines_of_a_file(marked: list[tuple[str, str]], path: str, *, highlighted: bool) -> list[DiffLine]:
    language = language_of(path or _path("\n".join(line for _, line in marked))) if highlighted else ""
    lines = []
    for in_file, group in groupby(marked, key=lambda pair: bool(pair[0])):
        texts = [(mark, reveal_hidden(line)) for mark, line in group]
        htmls = _highlighted(texts, language) if in_file and language else [escape(text) for _, text in texts]
        lines += [DiffLine(mark, text, html) for (mark, text), html in zip(texts, htmls, strict=True)]
    return lines


def changed_lines(patch: str) -> tuple[int, int]:
    """Count the lines that `patch` adds and removes."""
    marks = [mark for mark, _ in _marked(patch)]
    return marks.count("+"), marks.count("-")


def without_header(patch: str) -> str:
    """Return `patch` from its first hunk on, for cards that show the file name themselves."""
    start = 0 if patch.startswith("@@") else patch.find("\n@@") + 1
    return patch[start:]


def _highlighted(lines: list[tuple[str, str]], language: str) -> list[Html]:
    """Highlight each side of a hunk as one text; a line of both sides as in the new text."""
    htmls = [NOTHING] * len(lines)
    for side in ("- ", "+ "):
        numbers = [number for number, (mark, _) in enumerate(lines) if mark in side]
        code = "\n".join(lines[number][1][1:] for number in numbers)
        for number, html in zip(numbers, highlighted_lines(code, language), strict=False):  # no line is read as one
            htmls[number] = fill("{}{}", escape(lines[number][1][:1]), html)
    return htmls


def _path(patch: str) -> str:
    """Return the file's name from the patch's header; the old one for a deleted file."""
    header = patch.removesuffix(without_header(patch))
    names = re.findall(r"^(?:---|\+\+\+) ([^\t\n]+)", header, re.MULTILINE)
    return next((name for name in reversed(names) if name != "/dev/null"), "")


def truncate_patch(patch: str, limit: int | None, most: int | None = None) -> tuple[str, str]:
    """Return at most `most` whole lines of `limit` characters in total, and a line with the number of lines left out, or ""."""
    patch = shown = patch.removesuffix("\n")
    if most is not None:
        shown = "\n".join(shown.split("\n", most)[:most])
    if limit is not None and len(shown) > limit:
        shown = shown[: max(shown.rfind("\n", 0, limit), 0)] or shown[:limit]
    if len(shown) == len(patch):
        return patch, ""
    more = patch[len(shown) :].count("\n") or 1
    return shown, f"\n… {counted(more, 'more line')} of this change; the session log has all of it"


def _marked(patch: str) -> Iterator[tuple[str, str]]:
    """Yield each line with its mark (DiffLine), by hunk lengths, so that a removed "-- x" is not read as a file header."""
    old = new = 0
    for line in patch.removesuffix("\n").split("\n"):  # not splitlines: a form feed belongs to its line
        mark = ""
        if old <= 0 and new <= 0:
            if hunk := HUNK.match(line):
                old, new = (int(length) if length else 1 for length in hunk.group(2, 4))
        elif line.startswith("+"):
            mark, new = "+", new - 1
        elif line.startswith("-"):
            mark, old = "-", old - 1
        elif not line.startswith("\\"):  # "\ No newline at end of file" is not a line of either side
            mark, old, new = " ", old - 1, new - 1
        yield mark, line


_CELL = Attribute("text-align:left;vertical-align:top;padding:0 4px")
_HALF = Attribute("width:50%")
_TEXT = styles(WRAPPED, Attribute("margin:0;background:none"))
_LINE = fill('<th scope="col" style="{style}">Line</th>', style=_CELL)
_BEFORE = fill('<th scope="col" style="{style}">Before</th>', style=styles(_CELL, _HALF))
_AFTER = fill('<th scope="col" style="{style}">After</th>', style=styles(_CELL, _HALF))
_HEAD = join("", [_LINE, _BEFORE, _LINE, _AFTER])


def side_by_side(patch: str, path: str = "", limit: int | None = None, most: int | None = None) -> Html:
    """Return `patch` in two columns, with line numbers and literal + and -.

    `path`: the file, by whose name its lines are highlighted; for a patch without header lines. `limit`, `most`: as render_diff.
    """
    shown, note = truncate_patch(patch, limit, most)
    rows = join("\n", _rows(diff_lines(shown, path)))
    return fill(
        '<table style="table-layout:auto;width:100%{palette}">\n<thead><tr>{}</tr></thead>\n'
        "<tbody>\n{}\n</tbody>\n</table>{}\n",
        _HEAD,
        rows,
        escape(note),
        palette=palette(rows),
    )


def _rows(lines: list[DiffLine]) -> Iterator[Html]:
    """Pair consecutive changed lines in one row, the removed ones on the left."""
    old = new = 0
    for changed, group in groupby(lines, key=lambda line: line.mark in STYLES):
        if changed:
            run = list(group)
            removed, added = ([line for line in run if line.mark == mark] for mark in "-+")
            for number, (left, right) in enumerate(zip_longest(removed, added)):
                yield _row(_cells(left, old + number), _cells(right, new + number))
            old, new = old + len(removed), new + len(added)
            continue
        for line in group:
            if line.mark:
                yield _row(_cells(line, old), _cells(line, new))
                old, new = old + 1, new + 1
            else:
                if hunk := HUNK.match(line.text):
                    old, new = int(hunk["old"]), int(hunk["new"])
                yield _row(fill('<td colspan="4" style="{style}">{}</td>', _line(line), style=_CELL))


def _row(*cells: Html) -> Html:
    """Make a row with its own background: JupyterLab's stripes would be invisible among the colors."""
    return fill('<tr style="background:none">{}</tr>', join("", cells))


def _line(line: DiffLine) -> Html:
    return fill('<pre style="{style}"><code>{}</code></pre>', line.html, style=_TEXT)


def _cells(line: DiffLine | None, number: int) -> Html:
    """Return the cells for a line's number and text; both empty if the other side has more lines."""
    if line is None:
        return Html("<td></td><td></td>")
    changed = styles(_CELL, STYLES.get(line.mark, Attribute("")))
    return fill(
        '<td style="{cell}">{}</td><td style="{changed}">{}</td>', number, _line(line), cell=_CELL, changed=changed
    )
