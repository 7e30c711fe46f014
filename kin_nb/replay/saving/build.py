"""Build a session notebook: the records in the cells that asked, and the outputs that playback will show, nothing else.

Of the widget state that a front end saved, the user's widgets are kept, and those of our own buttons are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kin_nb.core.text import last_line
from kin_nb.render import Output, render_record
from kin_nb.replay.binding_cells import (
    BINDING_HEADER,
    BINDING_TAG,
    IGNORE_OUTPUT_TAG,
    RAISES_TAG,
    add_binding_cells,
    remove_binding_cells,
)
from kin_nb.replay.cell_keys import prompt_key, session_name
from kin_nb.replay.format.jupytext import exclude_from_text
from kin_nb.replay.format.notebook_codec import write_recording
from kin_nb.replay.format.notebook_reader import as_node, import_nbformat
from kin_nb.replay.format.output_records import BACKUP_KEY, RECORD_KEY
from kin_nb.replay.format.storage import SIDECAR_KEY as SIDECAR
from kin_nb.replay.format.storage import is_recording_cell
from kin_nb.replay.playback.player import playback_notice
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.prompt_cells import (
    PlacedRecords,
    assign_records,
    code_cell,
    ensure_ids,
    is_bootstrap,
    put_bootstrap_cell,
)

WIDGETS_KEY = "widgets"
"""In the notebook's metadata."""
_STATE = "application/vnd.jupyter.widget-state+json"
_VIEW = "application/vnd.jupyter.widget-view+json"
_REFERENCE = "IPY_MODEL_"
"""The prefix of a widget's id in the state of another widget."""
WIDGET_REFERENCE = re.compile(rf"{_REFERENCE}[0-9a-f-]{{8,36}}")


def prune_widget_state(nb: Any) -> None:
    """Keep in `nb` only the widgets that an output shows, and those linked to them in either direction.

    State in a format other than that of ipywidgets or Colab stays unchanged.
    """
    held = nb["metadata"].get(WIDGETS_KEY)
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
        del nb["metadata"][WIDGETS_KEY]


def _models(held: Any) -> dict[str, Any] | None:
    """By their ids."""
    state = held.get(_STATE) if isinstance(held, dict) else None
    models = state.get("state", state) if isinstance(state, dict) else None  # Colab leaves a level out
    return models if isinstance(models, dict) else None


def _referred(value: Any) -> Iterator[str]:
    """Yield the ids of the widgets that a JSON value names, in views or in the state of other widgets."""
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


FAILED_TAG = "kin-failed"
"""Marks an ordinary cell that saving tagged `raises-exception`: both tags are removed when the cell no longer fails."""
_GROUP = "Exception Group Traceback (most recent call last):"
_SAVE = re.compile(r"\s*%kin[ \t]+save\b[^\n]*(?:\n\s*)?")


@dataclass(frozen=True)
class ExecutedCell:
    """A code cell that ran in a notebook whose file is unknown. Its outputs are unknown too, except whether it `failed`."""

    source: str
    id: str | None = None
    failed: bool = False


def session_notebook(
    recording: Recording,
    *,
    source_nb: Any = None,
    cells: Sequence[ExecutedCell] | None = None,
    options: SaveOptions | None = None,
) -> Any:
    """The session as a notebook (NotebookNode, nbformat 4.5) that plays `recording`.

    From a copy of `source_nb`, the live notebook's file, when given; else from the `cells` that were run; else one cell for
    each record. Records that no cell made are appended; the agent's code that bound variables has cells of its own.
    `source_nb` itself is not changed. Of `options` only the form counts here.
    """
    options = options or SaveOptions()
    nb = as_node(source_nb) if source_nb is not None else _from_cells(cells or ())
    nb["cells"] = [
        cell for cell in nb["cells"] if not (cell["cell_type"] == "code" and _SAVE.fullmatch(cell["source"]))
    ]
    remove_binding_cells(nb)
    ensure_ids(nb)
    held = assign_records(nb, recording, rename=source_nb is None)
    _drop_carried(nb)
    _tag_failed(nb)
    add_binding_cells(nb, held.by_index(nb), recording.meta.workspace.path)
    head = put_bootstrap_cell(nb, held.recording, portable=options.portable)
    ensure_ids(nb)
    write_recording(nb, held.by_index(nb), held.recording)
    _put_outputs(nb, held, head)
    prune_widget_state(nb)
    if options.sidecar:
        nb["metadata"]["kin"][SIDECAR] = ""  # named when it is written
    exclude_from_text(nb)
    nb["nbformat"], nb["nbformat_minor"] = 4, max(5, nb["nbformat_minor"])
    return nb


def is_generated(cell: Any) -> bool:
    """Return whether saving replaces or removes this cell: it loads kin_nb, names or holds the recording, or saves."""
    if cell["cell_type"] != "code":
        return False
    ours = is_bootstrap(cell["source"]) or _SAVE.fullmatch(cell["source"]) is not None
    return ours or is_recording_cell(cell)


def empty_notebook() -> Any:
    import_nbformat()
    from nbformat.v4 import new_notebook  # noqa: PLC0415  (first use)

    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    return new_notebook(metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def _from_cells(cells: Sequence[ExecutedCell]) -> Any:
    nb = empty_notebook()
    for n, cell in enumerate(cells, 1):
        made = code_cell(cell.source, cell.id or f"cell-{n}")
        made["execution_count"] = n
        if prompt_key(nb, made) is None:
            # its outputs are unknown
            made["metadata"]["tags"] = [BINDING_TAG] if cell.source.startswith(BINDING_HEADER) else [IGNORE_OUTPUT_TAG]
            made["metadata"]["tags"] += [FAILED_TAG, RAISES_TAG] if cell.failed else []
        nb["cells"].append(made)
    return nb


def _drop_carried(nb: Any) -> None:
    """Remove the records from outputs, now that cells' metadata has them, and the notice that only held a backup."""
    for cell in nb["cells"]:
        if "outputs" in cell:
            cell["outputs"] = [each for each in cell["outputs"] if not _keeps_copy(each.get("metadata", {}))]
        for output in cell.get("outputs", []):
            for key in (BACKUP_KEY, RECORD_KEY):
                output.get("metadata", {}).pop(key, None)


def _keeps_copy(metadata: Any) -> bool:
    kin = metadata.get("kin")
    return BACKUP_KEY in metadata and isinstance(kin, dict) and kin.get("kind") == "notice"


def _tag_failed(nb: Any) -> None:
    """Tag ordinary cells that ended in an error, so that runners continue after them; without outputs the tags stay."""
    for cell in nb["cells"]:
        tags = cell["metadata"].get("tags", [])
        if cell["cell_type"] != "code" or not cell["outputs"] or not isinstance(tags, list) or is_generated(cell):
            continue
        new = [tag for tag in tags if tag not in (FAILED_TAG, RAISES_TAG)] if FAILED_TAG in tags else tags
        if ends_in_error(cell) and prompt_key(nb, cell) is None and RAISES_TAG not in new:
            new = [*new, FAILED_TAG, RAISES_TAG]
        if new != tags:
            cell["metadata"]["tags"] = new


def ends_in_error(cell: Any) -> bool:
    """Whether the saved outputs of `cell` have an error, or end on stderr with one that IPython prints there alone.

    Those are the UsageError of a magic, and an exception group.
    """
    outputs = cell["outputs"]
    printed = "".join("".join(output["text"]) for output in outputs if output.get("name") == "stderr")
    last = last_line(printed)
    is_group = last.endswith("---") and last.strip(" -") == "+" and _GROUP in printed
    return any(output["output_type"] == "error" for output in outputs) or is_group or last.startswith("UsageError: ")


def _put_outputs(nb: Any, held: PlacedRecords, head: Any) -> None:
    """Write the exact outputs of a playback of the cells in order, since nbval compares them; execution counts from 1."""
    count = 0
    for cell in nb["cells"]:
        if cell["cell_type"] != "code":
            continue
        shown = held.shown(nb, cell)
        if cell is head:
            cell["outputs"] = [_display_data(playback_notice(held.recording))]
        elif shown:
            session = session_name(cell) or ""
            cell["outputs"] = [_display_data(output) for record in shown for output in render_record(record, session)]
        elif cell["execution_count"] is None and not cell["outputs"]:
            continue
        count += 1
        cell["execution_count"] = count
        for output in cell["outputs"]:
            if output["output_type"] == "execute_result":
                output["execution_count"] = count


def _display_data(output: Output) -> Any:
    from nbformat import from_dict  # noqa: PLC0415  (first use)

    # validated when it is written, with all the others: one by one takes as long as all the rest of saving
    return from_dict({"output_type": "display_data", "data": output.data, "metadata": output.metadata})
