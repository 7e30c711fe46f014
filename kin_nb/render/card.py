"""One display of a notebook (Output), the frame and the parts of every card, and the simplest cards: a notice, progress."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from kin_nb.render.text import (
    NOTHING,
    Attribute,
    Html,
    clean,
    escape,
    fill,
    indent,
    inline_code_html,
    join,
    one_line,
    pre,
)

# Mid-tones that read on white and on black.
GREY = Attribute("#888")
GREEN = Attribute("#2ea043")
RED = Attribute("#f85149")
AMBER = Attribute("#bf8700")
BLUE = Attribute("#388bfd")
_THEMES = {
    GREY: Attribute("--jp-border-color1"),
    GREEN: Attribute("--jp-success-color1"),
    RED: Attribute("--jp-error-color1"),
    AMBER: Attribute("--jp-warn-color1"),
    BLUE: Attribute("--jp-brand-color1"),
}
"""The front end's own colour for the same thing."""
Label = Literal[
    "approval",
    "question",
    "tool call",
    "changes",
    "undo",
    "redo",
    "info",
    "error",
    "progress",
    "summary line",
    "sent with the prompt",
    "pruned",
    "told",
    "D-Mail",
    "compaction",
]
"""The card's role in words, for screen readers."""


@dataclass(frozen=True)
class Output:
    """A MIME bundle: text/html and text/plain, in that order, and what tools read in `metadata["kin"]`.

    Of a picture: base64 under its media type, and text/plain. nbval compares `data` exactly (pictures and `metadata` not
    at all), so durations live in the metadata.
    """

    data: dict[str, str]
    metadata: dict[str, Any]

    @classmethod
    def of(cls, html: Html, text: str, **kin: Any) -> Output:
        """Create an output; values of `kin` that are None are left out."""
        known = {key: value for key, value in kin.items() if value is not None}
        return cls({"text/html": html, "text/plain": text}, {"kin": known})

    @property
    def html(self) -> Html:
        """Return the HTML, for widgets that show the same."""
        return Html(self.data["text/html"])


def card(head: Html, body: Html = NOTHING, *, label: Label, color: Attribute = GREY, unfolded: bool = True) -> Html:
    """Return a card: `head` is always visible, `body` is collapsed below it unless `unfolded`.

    `mathjax_ignore`: JupyterLab would typeset `$HOME and $PATH` in HTML outputs as a formula.
    """
    said, edge = Attribute(label), _edge(color)
    if not body:
        return fill(
            '<div role="group" class="mathjax_ignore" aria-label="{label}" style="{edge};padding-left:8px">{}</div>',
            head,
            label=said,
            edge=edge,
        )
    return fill(
        '<details{opened} class="mathjax_ignore" aria-label="{label}" style="{edge};padding-left:8px">'
        "<summary>{}</summary>\n{}</details>",
        head,
        body,
        opened=Attribute(" open" if unfolded else ""),
        label=said,
        edge=edge,
    )


def _edge(color: Attribute) -> Attribute:
    """Return two declarations: if a sanitizer drops the one with var(...), the first one applies."""
    return Attribute(f"border-left:3px solid {color};border-left-color:var({_THEMES[color]},{color})")


class CardPart(NamedTuple):
    """A part of a card, as HTML and as text."""

    html: Html
    text: str

    @staticmethod
    def block(text: str) -> CardPart:
        """Return a block of text, which must come from `clean` or `reveal_hidden`."""
        return CardPart(pre(text), text)


def render_notice(title: str, lines: Iterable[str] = (), *, kind: Literal["info", "error"] = "info") -> Output:
    """Return a notice: a bold title, then lines; backticks mark code. `metadata["kin"]["level"]` is `kind`."""
    title, rest = clean(title), [clean(line) for line in lines]
    html = join("<br>\n", [fill("<b>{}</b>", inline_code_html(title)), *map(inline_code_html, rest)])
    text = "\n".join([title, *map(indent, rest)])
    return Output.of(
        card(html, label=kind, color=RED if kind == "error" else BLUE),
        text,
        kind="notice",
        level=kind,
    )


def render_progress(what: str, seconds: int, figures: str) -> Output:
    """Return the progress line. `what`: the step and what it waits for; `figures`: tokens and cost so far, may be ""."""
    line = " · ".join(filter(None, [one_line(what), f"{seconds} s" if seconds else "", figures]))
    return Output.of(card(fill("<small>{}</small>", escape(line)), label="progress", color=GREY), line, kind="progress")
