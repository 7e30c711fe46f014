"""Recordings that ship in the wheel: known by digest, never by where they lie."""

from __future__ import annotations

from pathlib import Path

from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.loading import load_notebook

SHIPPED: tuple[str, ...] = (
    "5be8b84d8c254e2a94bf6da920681b5e69ed1a26f246b67a6c534eb3bbeea4cc",  # data-analysis
    "cd12a3bfe9b8bb201a61489baeed07247bd2147e173272287b0db2a8bdd9574a",  # investigate
    "d47644b696f92e920df503ad4ab78fe13bf1bbfd7f34b7c820c02d58866dd712",  # quickstart
    "524fba7809338e50296f7e02e327691ac903b1d1b7ef7f011b31d2ac996e55e5",  # refactor
    "7d6bdbff319897466525abf4231a0691229000e654c8bb891a02571cfca44d15",  # second-thoughts
    "be0cd8f230155a773aae9f975dd75d53242ae79b15da78ed03a1c9cb5bd9f7f6",  # subagents
)
"""Digests of examples/*.ipynb; a test compares them."""


def examples_folder() -> Path:
    """The example notebooks: `kin_nb/_examples` in an installed wheel, `examples` in a checkout."""
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
