"""One display of a notebook, and the frame that every card shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Mid-tones that read on white and on black: JupyterLab's sanitizer drops var(--jp-...), a theme's own colours.
GREY, GREEN, RED, AMBER, BLUE = "#888", "#2ea043", "#f85149", "#bf8700", "#388bfd"


@dataclass(frozen=True)
class Output:
    """A MIME bundle: text/html and text/plain, in that order, and what tools read in `metadata["kin"]`.

    nbval compares `data` exactly and `metadata` not at all, so durations live in the metadata.
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
    rest = f'class="mathjax_ignore" aria-label="{label}" style="border-left:3px solid {color};padding-left:8px"'
    if not body:
        return f'<div role="group" {rest}>{head}</div>'
    return f"<details{' open' if unfolded else ''} {rest}><summary>{head}</summary>\n{body}</details>"
