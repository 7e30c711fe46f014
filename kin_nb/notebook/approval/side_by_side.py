"""An edit as two columns, for who wants to compare before they answer."""

from __future__ import annotations

from kin_nb.core.tools.base import Preview
from kin_nb.notebook.approval.card import html_widget, show_html, text
from kin_nb.notebook.approval.fold import Fold
from kin_nb.render.text import NOTHING


class SideBySide(Fold):
    def __init__(self, preview: Preview) -> None:
        self._patch, self._html = preview.body, html_widget(NOTHING)
        super().__init__("Side by side", "Hide side by side", "Show before and after beside each other", [self._html])

    def toggle(self) -> None:
        """Drawn when somebody wants to see it: it is large."""
        from kin_nb.render.diff import side_by_side  # noqa: PLC0415  (likewise)

        if not self._html.value:
            show_html(self._html, text(side_by_side(self._patch)))
        super().toggle()
