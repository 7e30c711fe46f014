"""jupytext: what a session notebook tells it, and what its text formats cannot hold.

docs/project/front-end-tests.md has the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from kin_nb.replay.cell_keys import is_kin_kernel

_FILTER = "cell_metadata_filter"
_MARKDOWN, _MYST, _PERCENT, _LIGHT, _RMD = "md", "md:myst", "py:percent", "py:light", "Rmd"
_TESTED = {
    "md": [_MARKDOWN],
    "md:markdown": [_MARKDOWN],
    "markdown": [_MARKDOWN],
    "md:myst": [_MYST],
    "myst": [_MYST],
    "py": [_PERCENT, _LIGHT],  # jupytext 1.17 changed which of the two it is
    "py:percent": [_PERCENT],
    "py:light": [_LIGHT],
    "Rmd": [_RMD],
    "Rmd:rmarkdown": [_RMD],
}
"""By their names in `formats`: the formats in which prompts and their records survive, except for what `_LOSSES` names."""
_CELL_MARKER = re.compile(r"^\s*#\s*(%%|In\[)", re.MULTILINE)
_LIGHT_MARKER = re.compile(r"^\s*#\s*([+-]|(end)?region\b)", re.MULTILINE)
_FENCE = re.compile(r"^```", re.MULTILINE)
_INDENTED_FENCE = re.compile(r"^ {1,3}(```|~~~)", re.MULTILINE)
_LINE_BREAK = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""What str.splitlines takes for the end of a line, as jupytext reads text, and a notebook does not."""
_PYTHON = re.compile(r"%%python[ \n]")


def exclude_from_text(nb: Any) -> None:
    """Keep records out of paired text files. What the user set there before still holds.

    `custom_cell_magics` is left alone: it makes prompts comments in scripts, and text without records in Markdown.
    """
    settings = nb["metadata"].setdefault("jupytext", {})
    if isinstance(settings, dict) and not {"kin", "-kin", "-all"}.intersection(words := _words(settings, _FILTER)):
        settings[_FILTER] = ",".join([*words, "-kin"])


def pairing_warnings(nb: Any) -> list[str]:
    """Return warnings about what reading the paired text file would lose, and what to do; empty if nothing is lost.

    A pairing that only a jupytext.toml names is not seen here.
    """
    settings, kin = nb["metadata"].get("jupytext"), is_kin_kernel(nb)
    if not isinstance(settings, dict):
        return []
    warnings: list[str] = []
    for name in _paired(settings.get("formats")):
        tested = _TESTED.get(name)
        if tested is None or (kin and _LIGHT in tested):
            others = "md, md:myst, py:percent or Rmd" if kin else "md, md:myst, py:percent, py:light or Rmd"
            warnings.append(
                f"jupytext pairs this notebook with {name}: reading that text back can lose prompts and recorded answers. "
                f"Pair it with {others} instead."
            )
            continue
        lost = {loss for each in tested for loss in _losses(nb, settings, each, kin=kin)}
        warnings += [
            f"jupytext's {name} cannot hold {cells} ({why}): reading that text back would lose prompts and recorded answers. "
            "Change that, or pair with another format."
            for cells, why in sorted(lost)
        ]
    return warnings


def _losses(nb: Any, settings: dict[str, Any], fmt: str, *, kin: bool) -> Iterator[tuple[str, str]]:
    """Yield (cells, reason), such as (`cells 3, 5`, `a triple quote is left open`)."""
    as_comments = set(_words(settings, "custom_cell_magics")) - set(_words(settings, "custom_language_magics"))
    if fmt == _MARKDOWN and not kin and "kin" in as_comments:
        yield "prompts", "custom_cell_magics names kin"
    for why, formats, is_lost in [*_LOSSES, *([_PYTHON_CELLS] if kin else [])]:
        cells = enumerate(nb["cells"], 1) if fmt in formats else ()
        lost = [str(number) for number, cell in cells if cell["cell_type"] == "code" and is_lost(cell["source"])]
        if lost:
            yield f"cell{'s' if len(lost) > 1 else ''} {', '.join(lost)}", why


def _leaves_quote_open(source: str) -> bool:
    """Whether a triple quote is not closed for jupytext, which then reads the cells below as part of the string."""
    triple = ""
    for line in source.split("\n"):
        single, last = "", -1
        for i, char in enumerate(line):
            if char == "#" and not (single or triple):
                break
            if char not in "\"'" or line[i - 1 : i] == "\\":
                continue
            if single:
                single = "" if single == char else single
            elif line[max(i - 2, 0) : i + 1] == 3 * char and i >= last + 3:
                if triple in {"", char}:
                    triple, last = "" if triple else char, i
            elif not triple:
                single = char
    return bool(triple)


_Loss = tuple[str, set[str], Callable[[str], object]]
_LOSSES: list[_Loss] = [
    ("a triple quote is left open", {_MARKDOWN, _PERCENT, _LIGHT, _RMD}, _leaves_quote_open),
    ("a line begins a cell there, as `# %%` does", {_PERCENT}, _CELL_MARKER.search),
    ("a line begins or ends a cell there, as `# -` does", {_LIGHT}, _LIGHT_MARKER.search),
    (
        "it has a character that ends a line in text alone, such as U+2028",
        {_MARKDOWN, _MYST, _PERCENT, _LIGHT, _RMD},
        _LINE_BREAK.search,
    ),
    ("a line begins with ```", {_RMD}, _FENCE.search),
    ("a line has ``` or ~~~ after blanks", {_MYST}, _INDENTED_FENCE.search),
]
_PYTHON_CELLS: _Loss = (
    "%%python is dropped, so its code would be a prompt",
    {_MARKDOWN, _PERCENT, _RMD},
    _PYTHON.match,
)


def _paired(formats: Any) -> Iterator[str]:
    """Return the text formats, such as `py:percent` in `ipynb,scripts///nb.py:percent`."""
    named = formats.replace(";", ",").split(",") if isinstance(formats, str) else []
    for each in dict.fromkeys(named):
        path, _, kind = each.strip().rpartition("/")[2].partition(":")
        extension = path.rpartition(".")[2]
        name = f"{'py' if extension == 'auto' else extension}{':' if kind else ''}{kind}"
        if extension and name != "ipynb":
            yield name


def _words(settings: dict[str, Any], key: str) -> list[str]:
    return [each.strip() for each in str(settings.get(key) or "").split(",") if each.strip()]
