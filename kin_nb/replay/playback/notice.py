"""What playback says of a notebook besides what its cells show."""

from __future__ import annotations

from kin_nb.render import Output, render_notice
from kin_nb.render.text import count
from kin_nb.replay.recording import Recording


def playback_notice(recording: Recording) -> Output:
    """What `%kin replay` shows in playback, and what save writes as that cell's output: the same bytes."""
    model, version = recording.meta.model, recording.meta.kin_nb
    lines = [
        f"{count(_records_saved(recording), 'record')}"
        + (f", made with {model}" if model else "")
        + (f" by kin_nb {version}." if version else "."),
        "This notebook is in playback: no model is called, no tool runs, no file is written.",
        "To run the tools for real, in a copy of the workspace: kin-nb replay --tools. To ask a model again: %kin live",
    ]
    if recording.other_types:
        lines.append(f"Written by a later kin_nb, kept but not played: {', '.join(recording.other_types)}.")
    return render_notice(f"Session {recording.session}", lines)


def _records_saved(recording: Recording) -> int:
    """As the save counted them, whatever was deleted or pasted since: what a replay compares must not change with that."""
    return len(recording.shas if recording.listed is None else recording.listed)
