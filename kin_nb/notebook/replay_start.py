"""`%kin replay`: the recording is found, and what the notebook's outputs carry besides is kept, also where it is not found."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kin_nb.notebook.cell_io import cell_io
from kin_nb.notebook.own_file import own_file, surroundings
from kin_nb.notebook.replaying import Replaying
from kin_nb.render import Output, render_notice
from kin_nb.replay.environment import ReplayEnvironment
from kin_nb.replay.errors import ReplayError, UnreadableNotebookError
from kin_nb.replay.format.kept import keeping, restored
from kin_nb.replay.format.loading import load_notebook
from kin_nb.replay.playback.finding import embedded_recording, find_recording
from kin_nb.replay.playback.player import playback_notice
from kin_nb.replay.runner.scratch import Scratch, scratch_notice

if TYPE_CHECKING:
    from kin_nb.notebook.session import KinSession


def start_replaying(
    session: KinSession, name: str, source: Path | None, body: str | None, *, scratch: bool, before: Any
) -> Replaying:
    """Find the recording `name` (SESSION@DIGEST) and say what this notebook does now; `body`: of a cell that embeds it.

    `scratch`: in a temporary copy of the workspace. `before`: the notebook as it was read when this was played last. Raises
    ReplayError naming what is wrong; then the output keeps what cells below lose when a front end saves.
    """
    environment = ReplayEnvironment.from_environ(os.environ)
    here, nb = None, None
    try:
        if body is not None:
            recording, nb = embedded_recording(name, body), _own_notebook(session)
        else:
            session_id, _, digest = name.partition("@")
            found = find_recording(session_id, digest, surroundings=surroundings(session.shell), from_path=source)
            here = Scratch.here(found) if scratch and not Scratch.given(environment) else None
            recording, nb = found.recording, _own_notebook(session) or found.nb
    except ReplayError:
        notice = render_notice(
            "The answers of the cells below are kept here", ["They play once the recording is there."]
        )
        _show_keeping(session, notice, _restored(_own_notebook(session), before))
        raise
    nb = _restored(nb, before)
    replaying = Replaying(recording, environment, here, nb)
    notice = playback_notice(recording)
    if not _show_keeping(session, notice, nb):
        session.show(notice)
    if here is not None:
        session.show(scratch_notice("Files change in a temporary copy of the workspace", [f"Now in {Path.cwd()}"]))
    return replaying


def _restored(nb: Any, before: Any) -> Any:
    return restored(nb, before) if nb is not None else None


def _own_notebook(session: KinSession) -> Any:
    """As its file is; None where that is not known."""
    own = own_file(session.shell)
    with suppress(UnreadableNotebookError):  # it may be being written
        return load_notebook(own) if own is not None else None
    return None


def _show_keeping(session: KinSession, notice: Output, nb: Any) -> bool:
    """Show `notice` with what the outputs of `nb` carry; False, and nothing is shown, where they carry nothing."""
    io = cell_io(session.shell)
    kept = keeping(nb) if nb is not None and (io.cell_id or io.allow_stdin) else {}
    if kept:
        notice.metadata.update(kept)
        session.show(notice)
    return bool(kept)
