r"""Formulas in the model's Markdown, left to the front end: `$x^2$`, `$$...$$`, `\(...\)`, `\[...\]`.

MathJax typesets what is marked for it and nothing else: a reply is full of `$HOME and $PATH`. What is no formula, or
would do more than be drawn (links, styles, scripts of TeX extensions), stays the text that it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kin_nb.render.text import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

CLASS = "mathjax_process"
"""MathJax's own name for what it processes inside of what it ignores."""
_LONGEST = 2_000
_FORMULA = re.compile(
    rf"""\$\$(?P<display>[^$]{{1,{_LONGEST}}})\$\$
      | \$(?=[^\s$])(?P<inline>(?:\\.|[^\\$\n]){{1,{_LONGEST}}}?)(?<=[^\s\\])\$(?![\w$])
      | \\\[(?P<bracket>(?:(?!\\\]).){{1,{_LONGEST}}})\\\]
      | \\\((?P<paren>(?:(?!\\\)).){{1,{_LONGEST}}})\\\)""",
    re.VERBOSE | re.DOTALL,
)
_SHELL = re.compile(r"(?!\w_\w\b)[A-Za-z_]\w{2,}(?:[:/.,;\"'=-].*)?\Z", re.DOTALL)
"""`HOME:`, `MY_VAR/bin`: a variable of a shell, up to the `$` of the next one."""
_SAYS_MATHS = re.compile(r"[\\^_=+*/<>|(-]")
_REFUSED = re.compile(
    r"\\(?:href|url|require|class|cssId|style|data|html\w*|include\w*|bbox|mmlToken|unicode|def|newcommand|let)\b"
)


def add_maths(parser: MarkdownIt) -> None:
    parser.inline.ruler.before("escape", "kin_maths", _formula)
    parser.add_render_rule("kin_maths", _drawn)


def _formula(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\" or (state.pos and re.match(r"[\w$\\]", state.src[state.pos - 1])):
        return False
    found = _FORMULA.match(state.src, state.pos, state.posMax)
    if found is None or not _is_formula(found):
        return False
    if not silent:
        token = state.push("kin_maths", "", 0)
        token.content, token.markup = found[found.lastgroup or 0].strip(), found.lastgroup or ""
    state.pos = found.end()
    return True


def _is_formula(found: re.Match[str]) -> bool:
    text = found[found.lastgroup or 0].strip()
    if not text or _REFUSED.search(text):
        return False
    if found.lastgroup != "inline":
        return True
    return (len(text) == 1 and text.isalpha()) or bool(_SAYS_MATHS.search(text) and not _SHELL.match(text))


def _drawn(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    token = tokens[index]
    left, right = (r"\[", r"\]") if token.markup in {"display", "bracket"} else (r"\(", r"\)")
    return f'<span class="{CLASS}">{left}{escape(token.content)}{right}</span>'
