"""Where a person edits a call before they approve it."""

from __future__ import annotations

from typing import Any

from kin_nb.core.safety.decision import ApprovalRequest
from kin_nb.notebook.approval.card import html_widget
from kin_nb.notebook.approval.fold import Fold
from kin_nb.render.text import NOTHING, Html, fill, line_count, literal

_FEWEST_ROWS, _MOST_ROWS = 3, 20
_STYLE = Html("<style>.kin-edit textarea{font-family:var(--jp-code-font-family,monospace)}</style>")
_HIDDEN = Html(
    "Some of its characters cannot be seen, or change the order of others. Here they are as they are; above, each is "
    "written like ⟨U+202E⟩.<br>\n"
)


def edited_args(request: ApprovalRequest, text: str) -> dict[str, Any] | None:
    """The request's arguments with `text` in place of what may be edited; None when it is the same.

    Fields know one line ending: text that had CRLF throughout has it again.
    """
    original = original_text(request)
    if _lf(text) == _lf(original):
        return None
    if original.count("\r\n") == original.count("\n") > 0:
        text = _lf(text).replace("\n", "\r\n")
    return {**request.args.model_dump(mode="json", exclude_none=True), request.editable: text}


def original_text(request: ApprovalRequest) -> str:
    return str(getattr(request.args, request.editable))


class Editor(Fold):
    """A text area with the argument that may be edited, all of it and raw. It counts while it is shown."""

    def __init__(self, request: ApprovalRequest) -> None:
        import ipywidgets as widgets  # noqa: PLC0415  (loaded by then)

        self._request = request
        text, name = _lf(original_text(request)), request.editable.replace("_", " ")
        hidden = _HIDDEN if literal(text) != text else NOTHING
        about = html_widget(fill("{}{}What you edit is approved as a whole, for this call only.", _STYLE, hidden))
        # Sent when the field is left, as the note is.
        self._text = widgets.Textarea(
            value=text,
            description=name.capitalize(),  # its label, for who cannot see it too
            rows=min(max(line_count(text), _FEWEST_ROWS), _MOST_ROWS),
            continuous_update=False,
            layout=widgets.Layout(width="auto"),
            style={"description_width": "initial"},
        ).add_class("kin-edit")
        super().__init__("Edit", "Cancel edit", f"Change the {name} before it runs", [about, self._text])

    @property
    def args(self) -> dict[str, Any] | None:
        return edited_args(self._request, self._text.value) if self.is_shown else None

    def toggle(self) -> None:
        super().toggle()
        if self.is_shown:
            self._text.focus()


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n")
