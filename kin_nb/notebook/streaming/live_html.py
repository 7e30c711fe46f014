"""The HTML of a reply while it is written: as it will look, in fewer bytes, since it is sent again and again."""

from __future__ import annotations

import re
from functools import cache

from kin_nb.render.text import WRAPPED, Attribute, Html, clean, escape, fill

_LOOK = Attribute("jp-RenderedHTMLCommon mathjax_ignore kin-live")
"""As JupyterLab and Notebook draw HTML outputs: nothing jumps when the reply settles into one."""
_MORE, _GOES_ON = "kin-more", "kin-on"
"""Of a piece that has another before it: that one's last block has made room. And of one whose last block goes on."""
_REASONING = 300
"""Characters of the reasoning, the newest, that are shown while there is no text yet."""
_STYLED = re.compile(r'<(pre|table|th|td)( scope="col")? style="([^"]*)"')
_COLORED = re.compile(r'<span style="([^"]*)">([^<]*)</span>')
_LEFT = "text-align:left"
_NEED_NO_END = re.compile(r"</(?:p|li|th|td|tr|thead|tbody)>\n?")
"""Tags that HTML lets one leave out."""


def live_html(text: str, *, more: bool = False, goes_on: bool = False) -> Html:
    """A piece of a reply, which is Markdown. What its tags say of themselves the style sheet says for all of them."""
    from kin_nb.render.markdown import markdown_html  # noqa: PLC0415  (the renderer is loaded with the first text)

    look = Attribute(" ".join([_LOOK, *[_MORE] * more, *[_GOES_ON] * goes_on]))
    html = Html(_NEED_NO_END.sub("", _COLORED.sub(_colored, _STYLED.sub(_styled, markdown_html(text)))))
    return fill('<div class="{look}"><div>{}</div></div>', html, look=look)


def thinking_html(reasoning: str) -> Html:
    newest = clean(reasoning[-_REASONING:]).strip()
    return fill('<div class="{look}"><small><i>Reasoning:</i> … {}</small></div>', escape(newest), look=_LOOK)


@cache
def style_sheet() -> Html:
    from kin_nb.render.highlight import STYLES, palette  # noqa: PLC0415  (loaded by then)

    live = ".kin-live.kin-live"  # twice: JupyterLab's own rules for tables are as specific
    rules = {
        f".{_MORE}>div>:first-child": "margin-top:0",
        f".{_GOES_ON}>div:last-child,.{_GOES_ON}>div>:last-child": "margin-bottom:0",
        f"{live} table": "margin-left:0",
        f"{live} th,{live} td": _LEFT,
        f"{live} pre": WRAPPED + palette("".join(STYLES.values())),
        f"{live} pre i": "font-style:normal",
        **{f"{live} .{name}": style for style, name in _names().items()},
    }
    return Html(f"<style>{''.join(f'{what}{{{how}}}' for what, how in rules.items())}</style>")


@cache
def _names() -> dict[str, str]:
    from kin_nb.render.highlight import STYLES  # noqa: PLC0415  (loaded by then)

    return {style: kind[:2] for kind, style in STYLES.items()}


def _styled(tag: re.Match[str]) -> str:
    known = tag[1] in {"pre", "table"} or tag[3] == _LEFT
    return f"<{tag[1]}{tag[2] or ''}" if known else tag[0]


def _colored(code: re.Match[str]) -> str:
    name = _names().get(code[1])
    return f"<i class={name}>{code[2]}</i>" if name else code[0]
