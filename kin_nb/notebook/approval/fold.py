"""What a card shows on demand: a button, and an area that it shows and puts away."""

from __future__ import annotations

from typing import Any


class Fold:
    """`label`, `undo`: what the button says while the area is out of sight, and while it is shown."""

    def __init__(self, label: str, undo: str, tooltip: str, content: list[Any]) -> None:
        import ipywidgets as widgets  # noqa: PLC0415  (loaded by then)

        self._labels = (label, undo)
        self.button = widgets.Button(description=label, tooltip=tooltip, layout=widgets.Layout(width="auto"))
        # Hidden, not taken out of its parent: that would draw what follows anew, and take the focus from the button.
        self.area = widgets.VBox(content, layout=widgets.Layout(display="none"))
        self.widgets = [self.button, *content, self.area]

    @property
    def is_shown(self) -> bool:
        return bool(self.area.layout.display != "none")

    def toggle(self) -> None:
        shown = not self.is_shown
        show(self.area, shown=shown)
        self.button.description = self._labels[shown]


def show(area: Any, *, shown: bool) -> None:
    area.layout.display = None if shown else "none"
