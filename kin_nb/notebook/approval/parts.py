"""Where a person chooses which parts of an edit they approve."""

from __future__ import annotations

from kin_nb.core.safety.decision import ApprovalRequest
from kin_nb.core.tools.hunks import split_patch
from kin_nb.notebook.approval.card import html_widget, text
from kin_nb.notebook.approval.fold import show

_MOST = 50
"""Parts of an edit that can be chosen from: each is widgets on the wire. Of more, all or nothing."""


def parts_of(request: ApprovalRequest) -> Parts | None:
    """None for what is no edit of one file, or an edit in one place."""
    preview = request.preview
    if preview.kind != "diff" or preview.texts is None:
        return None
    header, hunks = split_patch(preview.body)
    return Parts(hunks, header.rstrip().rpartition("/")[2]) if 1 < len(hunks) <= _MOST else None


class Parts:
    """A box to tick for each hunk, above its lines. `name`: the file's, by which they are highlighted."""

    def __init__(self, hunks: list[str], name: str) -> None:
        import ipywidgets as widgets  # noqa: PLC0415  (loaded by then)

        from kin_nb.render.diff import render_diff  # noqa: PLC0415  (likewise)

        layout = widgets.Layout(width="auto")
        labels = [f"Part {number} of {len(hunks)}" for number in range(1, len(hunks) + 1)]
        self._boxes = [widgets.Checkbox(value=True, description=label, indent=False, layout=layout) for label in labels]
        lines = [html_widget(text(render_diff(hunk, path=name)), layout=layout) for hunk in hunks]
        shown = [widget for pair in zip(self._boxes, lines, strict=True) for widget in pair]
        self.area = widgets.VBox(shown, layout=widgets.Layout())
        self.widgets = [*shown, self.area]

    @property
    def chosen(self) -> tuple[int, ...] | None:
        """None for all."""
        ticked = tuple(number for number, box in enumerate(self._boxes) if box.value)
        return None if len(ticked) == len(self._boxes) else ticked

    def show(self, *, shown: bool) -> None:
        show(self.area, shown=shown)
