"""What jupytext is told in a session notebook's metadata, for when it is paired with a text file."""

from __future__ import annotations

from typing import Any

_FILTER, _MAGICS = "cell_metadata_filter", "custom_cell_magics"


def keep_out_of_text(nb: Any) -> None:
    """Records stay out of the text, and prompts are comments in it. What somebody set there before goes on counting."""
    settings = nb["metadata"].setdefault("jupytext", {})
    if isinstance(settings, dict):
        _add(settings, _FILTER, "-kin", known={"kin", "-kin", "-all"})
        _add(settings, _MAGICS, "kin", known={"kin"})


def _add(settings: dict[str, Any], key: str, word: str, *, known: set[str]) -> None:
    words = [each.strip() for each in str(settings.get(key) or "").split(",") if each.strip()]
    if not known.intersection(words):
        settings[key] = ",".join([*words, word])
