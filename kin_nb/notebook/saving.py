"""`%kin save`: the session of this kernel as a notebook that re-executes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.safety.secrets import Redactor, secret_values
from kin_nb.notebook.errors import KinError
from kin_nb.notebook.own_file import surroundings
from kin_nb.render import Output, render_notice
from kin_nb.replay.cells.placing import place_turns
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.loading import as_node, load_notebook
from kin_nb.replay.recording import Recording, SessionMeta
from kin_nb.replay.saving.live_cells import keep_what_plays
from kin_nb.replay.saving.making import Cell, session_notebook
from kin_nb.replay.saving.options import SaveOptions, large, parse_save
from kin_nb.replay.saving.privacy import Cleaner, clean_notebook, without_results
from kin_nb.replay.saving.writing import write_notebook

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def save_session(shell: InteractiveShell, agent: Agent, line: str, session: str = "") -> Output:
    """Write the session notebook; returns the notice to show. Raises KinError saying why it cannot be written.

    `line`: what follows `save`. Default: NAME.kin.ipynb beside the open notebook, `session.kin.ipynb` where the
    notebook's file is not known; with `session`, one of several in this notebook, NAME.SESSION.kin.ipynb. The prompts of
    the others stay out of it.
    """
    path, options = parse_save(line)
    own = next(surroundings(shell).own_files(), None)
    if options.in_place and options.plain:
        raise KinError("--plain makes a notebook of its own. Name it: %kin save PATH --plain")
    target = _own_file(own, path) if options.in_place else _target(path, own, session, plain=options.plain)
    source = as_node(load_notebook(own)) if own is not None else _run_cells(shell)
    recorded = recording_of(agent, target.resolve().parent)
    left_out = keep_what_plays(source, recorded, session)
    recording, removed = _clean(source, recorded, agent.config, options)
    if options.plain:
        return _plain(source if own is not None else None, recording, target, removed)
    late = len(recording.turns) - len(place_turns(source, recording.turns))
    if own is None:
        nb = session_notebook(recording, cells=[Cell(cell["source"]) for cell in source["cells"]], options=options)
    else:
        nb = session_notebook(recording, source_nb=source, options=options)
    try:
        write_notebook(nb, target, open_file=None if options.in_place else own, in_place=options.in_place)
    except OSError as error:
        raise KinError(f"{target} cannot be written: {error.strerror}.") from None
    said = [_late(late) if own is not None else "", *left_out, large(target, options), *removed]
    if options.in_place:
        said.insert(0, "Now reload it: File > Reload Notebook from Disk. Saving what is open here would erase it.")
    return _notice(read_recording(nb), target, list(filter(None, said)))


def _plain(source: Any, recording: Recording, target: Path, removed: list[str]) -> Output:
    from kin_nb.replay.plain.export import plain_notebook  # noqa: PLC0415  (rarely asked for)

    if target.exists():
        raise KinError(f"{target.name} exists: nothing was written. Choose another name, or remove that file.")
    write_notebook(plain_notebook(recording, source), target)
    said = ["It needs no kin_nb, and holds no recording: what the session did, as cells.", *removed]
    return render_notice(f"Saved {target}", said)


def recording_of(agent: Agent, folder: Path) -> Recording:
    """The agent's turns as a recording for a notebook in `folder`."""
    meta = SessionMeta.of_session(agent.header, folder.resolve())
    return Recording(agent.journal.root_id, tuple(agent.turns), meta, undos=tuple(agent.undone))


def _own_file(own: Path | None, path: str | None) -> Path:
    """For `--in-place`: the person knows that the front end holds another text than the file will. Raises KinError."""
    if own is None:
        raise KinError("Which file this notebook is in is not known here. Name another: %kin save PATH")
    if path is not None and Path(path).expanduser().absolute().resolve() != own.resolve():
        raise KinError(
            f"--in-place writes {own.name}, the notebook that is open. Leave out {path}, or leave out --in-place."
        )
    warning = (
        f"{own.name} is open here, and its front end's next save would erase the recording, unless you reload the file "
        "from disk first"
    )
    try:
        answer = input(f"{warning}. Write it now, and reload it then? [y/N] ")
    except (EOFError, NotImplementedError):
        raise KinError(
            f"{warning}. Nobody is here to do that: nothing was written. Without --in-place a copy is."
        ) from None
    if answer.strip().lower() not in {"y", "yes"}:
        raise KinError("Nothing was written.")
    return own


def _target(path: str | None, own: Path | None, session: str, *, plain: bool) -> Path:
    stem = own.stem if own is not None else "session"
    kind = "plain" if plain else "kin"
    name = f"{stem}.{session}.{kind}.ipynb" if session else f"{stem}.{kind}.ipynb"
    if path is None:
        return own.with_name(name) if own is not None else Path(name).absolute()
    target = Path(path).expanduser().absolute()
    if target.is_dir():
        return target / name
    return target if target.suffix == ".ipynb" else target.with_name(f"{target.name}.ipynb")


def _run_cells(shell: InteractiveShell) -> dict[str, Any]:
    """What this kernel has run, where no file says it."""
    history: list[str] = shell.history_manager.input_hist_raw
    as_cell = getattr(getattr(shell, "kernel", None), "as_cell", str)  # in the Kin kernel, what a prompt stands for
    cells = [{"cell_type": "code", "source": as_cell(source)} for source in history[1:] if source.strip()]
    return {"metadata": {}, "cells": cells}


def _clean(nb: Any, recording: Recording, config: KinConfig, options: SaveOptions) -> tuple[Recording, list[str]]:
    """(the recording without what does not belong in it, the report of that); `nb` is cleaned in place."""
    root = Path("/")  # a redactor without places: paths in a person's own cells must go on working
    cleaner = Cleaner(options.redact, Redactor(secret_values(config), root, home=root).text)
    clean = clean_notebook(nb, recording, cleaner)
    return (clean if options.results else without_results(clean)), cleaner.report()


def _late(turns: int) -> str:
    """`turns`, whose cells the file on disk does not have yet."""
    if not turns:
        return ""
    return (
        f"The open notebook's file did not hold {turns} of the prompts yet, so they stand at the end. "
        "To keep them in their place, save the notebook and run %kin save again."
    )


def _notice(recording: Recording, target: Path, said: list[str]) -> Output:
    count = len(recording.turns)
    lines = [
        f"{count} {'turn' if count == 1 else 'turns'}, recording {recording.name}.",
        f"Anyone can run it without a key: kin-nb replay {target.name}, jupyter execute, pytest --nbval, or open it and Run All.",
    ]
    return render_notice(f"Saved {target}", [*lines, *said])
