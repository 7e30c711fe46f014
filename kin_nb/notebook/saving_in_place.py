"""`%kin save --in-place`: what the person must know before the notebook's own file is another than the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kin_nb.notebook.errors import KinError
from kin_nb.render.text import count
from kin_nb.replay.format.loading import as_node, load_notebook
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.live_cells import what_goes


def agreed(own: Path, nb: Any, recording: Recording, *, ran: int) -> Any:
    """What `own` holds, once the person agreed that it is written; until then `nb`. Raises KinError, saying why it is not.

    `ran`: how many cells ran since it was written, which the reload would take from the page.
    """
    if ran:
        raise KinError(
            f"{count(ran, 'cell')} ran since {own.name} was written, and the reload would take away what it does not hold: nothing "
            "was written. Save the notebook (Ctrl-S), then run this again."
        )
    commands, prompts = goes = what_goes(nb, recording)
    if prompts:
        raise KinError(
            f"In a session notebook each prompt has a recorded answer, and --in-place would delete {', '.join(prompts)}: "
            "nothing was written. Run it or move it elsewhere, save the notebook (Ctrl-S), then run this again; or leave "
            "out --in-place: a copy is written, and it stays here."
        )
    warning = (
        f"{own.name} is open here, and its front end's next save would erase the recording, unless you reload the file "
        "from disk first"
    )
    lost = "What is on the page and was not saved (Ctrl-S) goes with the reload"
    if commands:
        lost += f"; commands go from the file: {', '.join(commands)}"
    try:
        answer = input(f"{warning}. {lost}. Write it now, and reload it then? [y/N] ")
    except (EOFError, NotImplementedError):
        raise KinError(
            f"{warning}. Nobody is here to do that: nothing was written. Without --in-place a copy is."
        ) from None
    if answer.strip().lower() not in {"y", "yes"}:
        raise KinError("Nothing was written.")
    now = as_node(load_notebook(own))  # some front ends save by themselves, after a second
    if what_goes(now, recording) != goes:
        raise KinError(f"{own.name} was changed while this was asked: nothing was written. Run it again.")
    return now
