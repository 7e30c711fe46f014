"""A message from kin_nb itself: what happened, then what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from kin_nb.render.output import BLUE, RED, Output, frame
from kin_nb.render.text import clean, escape, indent


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
