"""One display of a notebook, and the frame that every card shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
