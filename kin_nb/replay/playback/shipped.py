"""Recordings that ship in the wheel: known by digest, never by where they lie."""

from __future__ import annotations

from pathlib import Path

from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.loading import load_notebook

SHIPPED: tuple[str, ...] = (
    "bb4c5b1102696e8babba8144c7b4bbfd23d96beb6f6295e7742b6fd5c2229ea6",  # data-analysis
    "91e93209f693cfdb52915ed8365e8ab534f0460a79b3f65632a8bf2a8986a821",  # investigate
    "79b2291ebeaf50dd7d9c2f910dbb1de26c9b4fcb2e6608e1a1d70c3800adb4bc",  # quickstart
    "4ad855834c8c7294dd7d97c5ffddbbbab0be68b9141af2a69e38e7375f425e2e",  # refactor
    "ab7e4e48411ed4ce68c66858a0bd4da2a36a9a1a11afb94033a305a505d98af9",  # second-thoughts
    "3c1c3d35db62f517cfe47e7bdd9d824e4adcf9a0d04bea9045a0cd5757f33329",  # subagents
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
