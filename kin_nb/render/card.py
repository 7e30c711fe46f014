"""One display of a notebook (Output), the frame and the parts of every card, and the simplest cards: a notice, progress."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from kin_nb.render.text import clean, escape, indent, one_line, pre

# Mid-tones that read on white and on black.
GREY, GREEN, RED, AMBER, BLUE = "#888", "#2ea043", "#f85149", "#bf8700", "#388bfd"
_THEMES = {
    GREY: "--jp-border-color1",
    GREEN: "--jp-success-color1",
    RED: "--jp-error-color1",
    AMBER: "--jp-warn-color1",
    BLUE: "--jp-brand-color1",
}
"""The front end's own colour for the same thing."""


@dataclass(frozen=True)
class Output:
    """A MIME bundle: text/html and text/plain, in that order, and what tools read in `metadata["kin"]`.

    Of a picture: base64 under its media type, and text/plain. nbval compares `data` exactly (pictures and `metadata` not
    at all), so durations live in the metadata.
    """

    data: dict[str, str]
    metadata: dict[str, Any]

    @classmethod
    def of(cls, html: str, text: str, **kin: Any) -> Output:
        """`kin` without the values that are None: an absent figure is not a figure."""
        known = {key: value for key, value in kin.items() if value is not None}
        return cls({"text/html": html, "text/plain": text}, {"kin": known})


def frame(head: str, body: str = "", *, label: str, color: str = GREY, unfolded: bool = True) -> str:
    """A card: `head` (HTML, the fact) always in sight, `body` (HTML) folded under it unless `unfolded`.

    `mathjax_ignore`: JupyterLab would typeset `$HOME and $PATH` in HTML outputs as a formula.
    """
    rest = f'class="mathjax_ignore" aria-label="{label}" style="{_edge(color)};padding-left:8px"'
    if not body:
        return f'<div role="group" {rest}>{head}</div>'
    return f"<details{' open' if unfolded else ''} {rest}><summary>{head}</summary>\n{body}</details>"


def _edge(color: str) -> str:
    """Two declarations: JupyterLab's sanitizer drops each that holds var(...), and that alone; then the first one holds."""
    return f"border-left:3px solid {color};border-left-color:var({_THEMES[color]},{color})"


class Part(NamedTuple):
    """HTML and text of the same thing."""

    html: str
    text: str

    @staticmethod
    def block(text: str) -> Part:
        """`text` has been through `clean` or `literal`."""
        return Part(pre(text), text)


def render_notice(title: str, lines: Iterable[str] = (), *, kind: Literal["info", "error"] = "info") -> Output:
    """`title` in bold, then `lines`; `metadata["kin"]["level"]` is `kind`."""
    title, rest = clean(title), [clean(line) for line in lines]
    html = "<br>\n".join([f"<b>{escape(title)}</b>", *map(escape, rest)])
    text = "\n".join([title, *map(indent, rest)])
    return Output.of(
        frame(html, label=kind, color=RED if kind == "error" else BLUE),
        text,
        kind="notice",
        level=kind,
    )


def render_progress(what: str, seconds: int, figures: str) -> Output:
    """`what`: the step and what it waits for. `figures`: tokens and cost so far, in words; may be ""."""
    line = " · ".join(filter(None, [one_line(what), f"{seconds} s" if seconds else "", figures]))
    return Output.of(frame(f"<small>{escape(line)}</small>", label="progress", color=GREY), line, kind="progress")
