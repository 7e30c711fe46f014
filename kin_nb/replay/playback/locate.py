"""Find the recording that `%kin replay SESSION@DIGEST` names (docs/reference/playback.md).

A recording is known by its digest, so copied and renamed files are found, and so are the examples that ship in the wheel.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kin_nb.core.text import first_line
from kin_nb.replay.errors import MissingTextError, RecordingError, RecordingNotFoundError, UnreadableNotebookError
from kin_nb.replay.format.notebook_codec import claimed_identity, read_recording
from kin_nb.replay.format.notebook_reader import load_notebook, read_text
from kin_nb.replay.format.output_records import backed_up_records, raw_output_records
from kin_nb.replay.format.storage import parse_embedded
from kin_nb.replay.playback.process_context import ProcessContext
from kin_nb.replay.recording import SESSION_ID, Recording

SHIPPED: tuple[str, ...] = (
    "5be8b84d8c254e2a94bf6da920681b5e69ed1a26f246b67a6c534eb3bbeea4cc",  # data-analysis
    "cd12a3bfe9b8bb201a61489baeed07247bd2147e173272287b0db2a8bdd9574a",  # investigate
    "0083cbe1b29c3142ccbdddb2a41535636831c71914fc0e2f992e3ca0cfe06575",  # quickstart
    "524fba7809338e50296f7e02e327691ac903b1d1b7ef7f011b31d2ac996e55e5",  # refactor
    "3a6a77bb368ac7a5ac09651b96d47bbef044c1b87eb3b178355aefb90fe93b6a",  # second-thoughts
    "4f5eebbc378d1462e645abfe9ea49c803a57f88dc7af1c08864b372c30b8e734",  # subagents
)
"""Digests of examples/*.ipynb; a test compares them."""


def examples_folder() -> Path:
    """Return the folder of the examples: `kin_nb/_examples` in an installed wheel, `examples` in a checkout."""
    package = Path(__file__).resolve().parents[2]
    installed = package / "_examples"
    return installed if installed.is_dir() else package.parent / "examples"


def is_shipped(recording: Path | str) -> bool:
    """Whether a recording (a notebook's path, or a digest of 64 hex digits) came with this version of kin_nb.

    A file is read and verified: what it claims is not believed.
    """
    if isinstance(recording, str):
        return recording in SHIPPED
    try:
        return read_recording(load_notebook(recording)).digest in SHIPPED
    except RecordingError:
        return False


MAX_FILES = 200
_SHORTEST_DIGEST = 12
TRIES = 5
PAUSE_SECONDS = 0.05
"""Seconds between two looks at a file that is being rewritten."""

Store = Callable[[str, str], Path | None]
"""(session, digest prefix) -> a notebook of the local session store."""


@dataclass(frozen=True)
class FoundRecording:
    path: Path
    nb: Any
    recording: Recording


def find_recording(
    session: str,
    digest: str,
    *,
    context: ProcessContext,
    from_path: Path | None = None,
    store: Store | None = None,
) -> FoundRecording:
    """Find the recording of `session` whose digest starts with `digest` (12 to 64 hex digits), and verify it.

    First the notebook's own file, which must not differ; then files near it, where the digest alone decides; then
    `from_path`, KIN_RECORDING and `store`. Raises RecordingError when the own file (or one named outright) holds this
    session and fails, RecordingNotFoundError when nothing holds it.
    """
    if not re.fullmatch(SESSION_ID, session) or not re.fullmatch(r"[0-9a-f]{12,64}", digest):
        raise RecordingError(
            "`%kin replay` needs SESSION@DIGEST: run the first cell of a session notebook as it is.\n"
            "To replay a file from a terminal: kin-nb replay FILE"
        )
    seen: list[str] = []
    for path in context.own_files():
        try:
            found = _own(path, session, digest, context)
        except MissingTextError as error:  # a copy without its sidecar: the digest tells whether another file is it
            seen.append(_first_line(error))
            continue
        if found:
            return found
    near = [_near(path, session, digest, context, seen) for path in _bounded(context.near_files())]
    copies = [found for found in near if found is not None]
    if copies:
        return max(copies, key=_in_use)
    for path in _named(session, digest, context, from_path, store):
        found = _own(path, session, digest, context)
        if found:
            return found
        seen.append(f"{path.name} has no recording of this session")
    raise RecordingNotFoundError(
        f"Recording {session}@{digest[:12]} was not found in this notebook or its folder"
        f"{': ' if seen else ''}{'; '.join(seen)}.\n"
        f"Give its file: %kin replay {session}@{digest[:12]} --from PATH. "
        f"Or recreate it from the session log: kin-nb save {session}"
    )


def embedded_recording(name: str, body: str) -> tuple[Any, Recording]:
    """Parse the recording in a cell, named SESSION@DIGEST12; return its notebook and it. Raises RecordingError."""
    nb = parse_embedded(body)
    recording = read_recording(nb)
    session, _, digest = name.partition("@")
    if session != recording.session or len(digest) < _SHORTEST_DIGEST or not recording.digest.startswith(digest):
        raise RecordingError(
            f"This cell names {name}, but holds {recording.name}: one of the two was changed.\n"
            f"Restore the cell, or save the session again: kin-nb save {recording.session} PATH --portable"
        )
    return nb, recording


def _own(path: Path, session: str, digest: str, context: ProcessContext) -> FoundRecording | None:
    """Read the recording in `path`; None if it has no recording of this session. Raises RecordingError if that differs."""
    nb = _load(path, context.pause)
    claimed, _ = claimed_identity(nb)
    if claimed != session:
        return None
    try:
        recording = read_recording(nb)
    except RecordingError as error:
        raise type(error)(f"{path.name}, {error}") from error
    if not recording.digest.startswith(digest):
        cell = _replay_cell(nb, session)
        raise RecordingError(
            f"{path.name}{f', cell {cell}' if cell else ''}: `%kin replay` names {session}@{digest[:12]}, but the "
            f"recording of this file is {recording.name}.\nRestore the file, or save the session again: kin-nb save {session}"
        )
    return FoundRecording(path, nb, recording)


def _near(path: Path, session: str, digest: str, context: ProcessContext, seen: list[str]) -> FoundRecording | None:
    """Read the recording in `path` if it is the requested one. Near misses are added to `seen`."""
    try:
        # most notebooks never name the session: no need to parse them, unless they are being written
        text = read_text(path)
        if text.rstrip().endswith("}") and session not in text:
            return None
        nb = _load(path, context.pause)
        if claimed_identity(nb)[0] != session:
            return None
        recording = read_recording(nb)
    except UnreadableNotebookError:
        return None
    except RecordingError as error:
        seen.append(f"{path.name}, {_first_line(error)}")
        return None
    if recording.digest.startswith(digest):
        return FoundRecording(path, nb, recording)
    seen.append(f"{path.name} has another version of the session, {recording.name}")
    return None


def _named(
    session: str, digest: str, context: ProcessContext, from_path: Path | None, store: Store | None
) -> Iterator[Path]:
    """Yield the paths that the user named: a mistake in one is an error, not a reason to search further."""
    if from_path is not None:
        yield context.cwd / from_path.expanduser()
    named = context.environ.get("KIN_RECORDING")
    if named:
        yield context.cwd / Path(named).expanduser()
    stored = store(session, digest) if store else None
    if stored is not None:
        yield stored


def _first_line(error: RecordingError) -> str:
    return first_line(str(error)).rstrip(".")


def _in_use(found: FoundRecording) -> tuple[bool, float]:
    """Choose among copies the one in use: its outputs hold later records, or it was written last."""
    carries = any(map(any, map(raw_output_records, found.nb["cells"]))) or any(backed_up_records(found.nb))
    try:
        return carries, found.path.stat().st_mtime
    except OSError:
        return carries, 0.0


def _load(path: Path, pause: Callable[[float], None]) -> Any:
    """Load the notebook. Invalid text is read again a few times: a front end may be writing it."""
    for left in range(TRIES - 1, -1, -1):
        try:
            return load_notebook(path)
        except UnreadableNotebookError as error:
            if not error.again or not left:
                raise
        pause(PAUSE_SECONDS)
    raise AssertionError("unreachable")


def _bounded(paths: Iterator[Path]) -> Iterator[Path]:
    """Yield at most MAX_FILES files, each once, however its path is spelled."""
    seen: set[str] = set()
    for path in paths:
        real = os.path.realpath(path)
        if real not in seen:
            seen.add(real)
            yield path
        if len(seen) >= MAX_FILES:
            return


def _replay_cell(nb: Any, session: str) -> int | None:
    """Return the number, from 1, of the `%kin replay` cell."""
    for number, cell in enumerate(nb["cells"], 1):
        if f"%kin replay {session}@" in cell["source"]:
            return number
    return None
