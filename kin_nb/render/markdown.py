"""The model's Markdown as HTML: CommonMark with tables, no raw HTML, no images, links to http(s) and mailto only.

JupyterLab trusts live outputs and sanitises neither text/html nor text/markdown, so this is where it happens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from typing import TYPE_CHECKING, Any

from kin_nb.render.highlight import STYLES, highlighted, palette
from kin_nb.render.text import WRAPPED, Attribute, Html, clean, escape, fill, reveal_hidden

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

MATH_CLASS = Attribute("mathjax_process")
"""MathJax's own name for what it processes inside of what it ignores."""
_SCHEMES = {"http", "https", "mailto"}
_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li"),
    *("strong", "em", "s", "code", "pre", "span", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {"a": {"href"}, "ol": {"start"}}
_ALIGNED = {"style": {f"text-align:{side}" for side in ("left", "center", "right")}}
_LEFT = Attribute("margin-left:0")
"""Of tables: JupyterLab centres those in widgets, and they would jump when the reply settles."""
_VALUES: dict[str, Mapping[str, AbstractSet[str]]] = {
    "span": {"style": set(STYLES.values()), "class": {MATH_CLASS}},
    "th": {"scope": {"col"}, **_ALIGNED},
    "td": _ALIGNED,
    "table": {"style": {_LEFT}},
}
"""Attributes that keep these values and no other: the colours of code are ours alone, and the marks of formulas."""
_FENCE = re.compile(r"<pre>(<code>.*?</code></pre>)", re.DOTALL)
_MOST_CODE = 20_000
"""Characters of the code in one text that are highlighted."""


def markdown_html(source: str) -> Html:
    """Convert Markdown to safe HTML. Raw HTML, images and other links stay as readable text."""
    import nh3  # noqa: PLC0415  (on first use: nothing heavy at %load_ext)

    rendered = parser().render(clean(source))
    safe = nh3.clean(rendered, tags=_TAGS, attributes=_ATTRIBUTES, tag_attribute_values=_VALUES, url_schemes=_SCHEMES)
    safe = _FENCE.sub(lambda fence: f'<pre style="{WRAPPED}{palette(fence[1])}">{fence[1]}', safe)
    return Html(reveal_hidden(safe))  # once more: &#x202E; is a character only after parsing


@cache
def parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415  (on first use)

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = _may_link  # type: ignore[method-assign]  # a refused link stays as text, address and all
    parser.add_render_rule("image", _image_as_text)
    parser.add_render_rule("fence", _code)
    parser.add_render_rule("table_open", lambda *_: fill('<table style="{style}">\n', style=_LEFT))
    for cell in ("th_open", "td_open"):
        parser.add_render_rule(cell, _table_cell)
    add_math(parser)
    return parser


def _may_link(url: str) -> bool:
    return url.partition(":")[0].lower() in _SCHEMES


def _image_as_text(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> Html:
    image = tokens[index]
    return escape(f"{image.content or 'image'} ({image.attrs['src']})")


def _code(_self: Any, tokens: Sequence[Token], index: int, _options: Any, env: Any) -> Html:
    fence = tokens[index]
    env["code"] = env.get("code", 0) + len(fence.content)
    language = next(iter(fence.info.split()), "") if env["code"] <= _MOST_CODE else ""
    return fill("<pre><code>{}</code></pre>\n", highlighted(fence.content, language))


def _table_cell(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    """Open a table cell with its alignment, or else left: JupyterLab's default is right. Sanitised later."""
    cell = tokens[index]
    scope = ' scope="col"' if cell.tag == "th" else ""
    return f'<{cell.tag}{scope} style="{cell.attrs.get("style", "text-align:left")}">'


_LONGEST_FORMULA = 2_000
_FORMULA = re.compile(
    rf"""\$\$(?P<display>[^$]{{1,{_LONGEST_FORMULA}}})\$\$
      | \$(?=[^\s$])(?P<inline>(?:\\.|[^\\$\n]){{1,{_LONGEST_FORMULA}}}?)(?<=[^\s\\])\$(?![\w$])
      | \\\[(?P<bracket>(?:(?!\\\]).){{1,{_LONGEST_FORMULA}}})\\\]
      | \\\((?P<paren>(?:(?!\\\)).){{1,{_LONGEST_FORMULA}}})\\\)""",
    re.VERBOSE | re.DOTALL,
)
_SHELL = re.compile(r"(?!\w_\w\b)[A-Za-z_]\w{2,}(?:[:/.,;\"'=-].*)?\Z", re.DOTALL)
"""`HOME:`, `MY_VAR/bin`: a variable of a shell, up to the `$` of the next one."""
_SAYS_MATHS = re.compile(r"[\\^_=+*/<>|(-]")
_REFUSED = re.compile(
    r"\\(?:href|url|require|class|cssId|style|data|html\w*|include\w*|bbox|mmlToken|unicode|def|newcommand|let)\b"
)


def add_math(parser: MarkdownIt) -> None:
    parser.inline.ruler.before("escape", "kin_maths", _formula)
    parser.add_render_rule("kin_maths", _drawn_formula)


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


def _drawn_formula(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> Html:
    token = tokens[index]
    left, right = (r"\[", r"\]") if token.markup in {"display", "bracket"} else (r"\(", r"\)")
    formula = (escape(left), escape(token.content), escape(right))
    return fill('<span class="{maths}">{}{}{}</span>', *formula, maths=MATH_CLASS)


_LINE = re.compile(r"\r\n?|\n")
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+|\s*\n\s*")
_OPEN = re.compile(r"[*`\[~$]|(?<!\w)_")
"""Marks that are plain text because their closing half is not there (yet)."""
_TRIES = 5
"""Ends of sentences that are looked at, the newest first."""


def complete_length(source: str) -> int:
    """Count the characters of `source` that are complete blocks: all but the last block, which may continue."""
    last, starts = _last_block(source), _starts(source)
    return starts[_line(last[0])] if last else 0


def split_point(source: str, enough: int) -> tuple[int, str]:
    """Return (position, prefix for the rest, so that both parts read the same); (0, "") if it is less than `enough`.

    Between blocks. In one that is long already, between lines of code (the line that opens it goes before the rest), rows of
    a table (its head does), items of a list, blocks of a quotation; as a last resort, after a sentence.
    """
    if len(source) < enough:  # on most draws: nothing is parsed
        return 0, ""
    last, starts = _last_block(source), _starts(source)
    begin = starts[_line(last[0])] if last else 0
    if begin >= enough or not last:
        return begin, ""
    end, opener = _inside(source, begin, last, starts)
    return (end, opener) if end >= max(enough, begin + len(opener) + 1) else (0, "")


def _inside(source: str, begin: int, block: list[Token], starts: list[int]) -> tuple[int, str]:
    first = block[0]
    if first.type == "paragraph_open":
        return _sentence(source, begin), ""
    if first.type == "fence":
        return (0, "") if _is_closed(source[begin:], first.markup) else (starts[-1], f"{first.markup}{first.info}\n")
    whole_lines = len(starts) - 1  # what the last line is, its end will say
    last = max((line for line in _parts(block) if line < whole_lines), default=None)
    opener = source[begin : starts[_line(first) + 2]] if first.type == "table_open" and last else ""
    return (starts[last], opener) if last else (0, "")


def _parts(block: list[Token]) -> list[int]:
    """Return the lines at which a table, a list or a quotation can be split."""
    first = block[0]
    if first.type == "table_open":
        rows = [token for token in block if token.type == "tr_open"]
        return [_line(row) for row in rows[2:]]  # its head and the first row stay together
    parts = [token for token in block if token.level == 1 and token.map and token.nesting >= 0]
    if first.type == "ordered_list_open":  # "1. 1. 1." would be renumbered
        begin = int(first.attrs.get("start", 1))
        parts = [item for number, item in enumerate(parts, begin) if item.info == str(number)]
    return [_line(part) for part in parts]


def _sentence(source: str, begin: int) -> int:
    """Return the end of a sentence where the text can be split: an emphasis may span several sentences."""
    kinds, whole, _ = _read(source[begin:])
    ends = [found.end() for found in _SENTENCE.finditer(source, begin)][-_TRIES:]
    for end in reversed(ends):
        (_, head, text), (kinds_of_rest, rest, _) = _read(source[begin:end]), _read(source[end:])
        if kinds_of_rest == kinds and head + rest == whole and not _OPEN.search(text):
            return end
    return 0


def _read(source: str) -> tuple[list[str], str, str]:
    """Parse Markdown: return the kinds of its tokens, the text without spaces, and the text outside of code."""
    tokens = parser().parse(source)
    inline = [part for token in tokens for part in token.children or []]
    words = "".join(part.content for part in inline if part.type in {"text", "code_inline"})
    return (
        [token.type for token in tokens],
        "".join(words.split()),
        " ".join(p.content for p in inline if p.type == "text"),
    )


def _last_block(source: str) -> list[Token]:
    """Return the tokens of the last block, the outermost first."""
    tokens = parser().parse(source)
    begins = [index for index, token in enumerate(tokens) if token.level == 0 and token.map and token.nesting >= 0]
    return tokens[begins[-1] :] if begins else []


def _line(token: Token) -> int:
    return token.map[0] if token.map else 0


def _starts(source: str) -> list[int]:
    """Return the position of each line."""
    return [0, *(found.end() for found in _LINE.finditer(source))]


def _is_closed(block: str, fence: str) -> bool:
    lines = _LINE.split(block.rstrip())
    return len(lines) > 1 and lines[-1].strip().startswith(fence)
