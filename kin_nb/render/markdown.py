"""The model's Markdown as HTML: CommonMark with tables, no raw HTML, no images, links to http(s) and mailto only.

JupyterLab trusts live outputs and sanitises neither text/html nor text/markdown, so this is where it happens.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from kin_nb.render.highlight import STYLES, highlighted, palette
from kin_nb.render.maths import CLASS, add_maths
from kin_nb.render.text import WRAPPED, clean, escape, literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_SCHEMES = {"http", "https", "mailto"}
_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li"),
    *("strong", "em", "s", "code", "pre", "span", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {"a": {"href"}, "ol": {"start"}}
_ALIGNED = {"style": {f"text-align:{side}" for side in ("left", "center", "right")}}
_LEFT = "margin-left:0"
"""Of tables: JupyterLab centres those in widgets, and they would jump when the reply settles."""
_VALUES = {
    "span": {"style": set(STYLES.values()), "class": {CLASS}},
    "th": {"scope": {"col"}, **_ALIGNED},
    "td": _ALIGNED,
    "table": {"style": {_LEFT}},
}
"""Attributes that keep these values and no other: the colours of code are ours alone, and the marks of formulas."""
_FENCE = re.compile(r"<pre>(<code>.*?</code></pre>)", re.DOTALL)
_MOST_CODE = 20_000
"""Characters of the code in one text that are highlighted."""


def markdown_html(source: str) -> str:
    """HTML of `source`. What is refused (raw HTML, other links, images) stays readable as the text it was."""
    import nh3  # noqa: PLC0415  (on first use: nothing heavy at %load_ext)

    rendered = parser().render(clean(source))
    safe = nh3.clean(rendered, tags=_TAGS, attributes=_ATTRIBUTES, tag_attribute_values=_VALUES, url_schemes=_SCHEMES)
    safe = _FENCE.sub(lambda fence: f'<pre style="{WRAPPED}{palette(fence[1])}">{fence[1]}', safe)
    return literal(safe)  # once more: &#x202E; is a character only after parsing


@cache
def parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415  (on first use)

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = _may_link  # type: ignore[method-assign]  # a refused link stays as text, address and all
    parser.add_render_rule("image", _image_as_text)
    parser.add_render_rule("fence", _code)
    parser.add_render_rule("table_open", lambda *_: f'<table style="{_LEFT}">\n')
    for cell in ("th_open", "td_open"):
        parser.add_render_rule(cell, _table_cell)
    add_maths(parser)
    return parser


def _may_link(url: str) -> bool:
    return url.partition(":")[0].lower() in _SCHEMES


def _image_as_text(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    image = tokens[index]
    return escape(f"{image.content or 'image'} ({image.attrs['src']})")


def _code(_self: Any, tokens: Sequence[Token], index: int, _options: Any, env: Any) -> str:
    fence = tokens[index]
    env["code"] = env.get("code", 0) + len(fence.content)
    language = next(iter(fence.info.split()), "") if env["code"] <= _MOST_CODE else ""
    return f"<pre><code>{highlighted(fence.content, language)}</code></pre>\n"


def _table_cell(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    """As the text aligns it, else to the left: JupyterLab would draw words to the right."""
    cell = tokens[index]
    scope = ' scope="col"' if cell.tag == "th" else ""
    return f'<{cell.tag}{scope} style="{cell.attrs.get("style", "text-align:left")}">'
