"""The state of a notebook's widgets, as a front end saved it: a person's stays, that of our own buttons goes.

Cards are drawn anew without buttons, so nothing shows those any more; a person's view would be empty without its state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

WIDGETS = "widgets"
"""In the notebook's metadata."""
_STATE = "application/vnd.jupyter.widget-state+json"
_VIEW = "application/vnd.jupyter.widget-view+json"
_REFERENCE = "IPY_MODEL_"
"""What a widget's id begins with in the state of another."""
REFERENCE = re.compile(rf"{_REFERENCE}[0-9a-f-]{{8,36}}")


def keep_shown_widgets(nb: Any) -> None:
    """Leave in `nb` the widgets that an output shows, with those that refer to them and that they refer to.

    State that is not as ipywidgets or Colab write it stays.
    """
    held = nb["metadata"].get(WIDGETS)
    models = _models(held)
    if models is None:
        return
    near: dict[str, set[str]] = {name: set() for name in models}
    for name, model in models.items():
        for other in near.keys() & set(_referred(model)):
            near[name].add(other)
            near[other].add(name)
    reached: set[str] = set()
    found = near.keys() & {name for cell in nb["cells"] for name in _referred(cell.get("outputs"))}
    while found:
        reached |= found
        found = set().union(*(near[name] for name in found)) - reached
    for name in models.keys() - reached:
        del models[name]
    if not models:
        del nb["metadata"][WIDGETS]


def _models(held: Any) -> dict[str, Any] | None:
    """By their ids."""
    state = held.get(_STATE) if isinstance(held, dict) else None
    models = state.get("state", state) if isinstance(state, dict) else None  # Colab leaves a level out
    return models if isinstance(models, dict) else None


def _referred(value: Any) -> Iterator[str]:
    """Ids of the widgets that a JSON value names, in views or in the state of other widgets."""
    if isinstance(value, str) and value.startswith(_REFERENCE):
        yield value.removeprefix(_REFERENCE)
    elif isinstance(value, list):
        for item in value:
            yield from _referred(item)
    elif isinstance(value, dict):
        view = value.get(_VIEW)
        if isinstance(view, dict) and isinstance(view.get("model_id"), str):
            yield view["model_id"]
        for item in value.values():
            yield from _referred(item)
