"""`%kin save`: the session of this kernel as a session notebook, next to its notebook."""

from __future__ import annotations

import re
import shlex
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kin_nb.core.config import KinConfig
from kin_nb.core.config.secrets import secret_values
from kin_nb.core.redaction import Redactor
from kin_nb.notebook.cell_io import cell_io
from kin_nb.notebook.notebook_file import notebook_folder
from kin_nb.notebook.options import KinError
from kin_nb.notebook.streaming.display import Display
from kin_nb.render import Output, render_notice
from kin_nb.render.card import render_progress
from kin_nb.replay.book import Book
from kin_nb.replay.cell_keys import map_records_to_cells, prompt_key
from kin_nb.replay.format.jupytext import pairing_warnings
from kin_nb.replay.format.notebook_codec import raw_records, read_saved
from kin_nb.replay.format.notebook_reader import as_node, load_notebook
from kin_nb.replay.format.output_records import raw_output_records
from kin_nb.replay.recording import Recording, SessionMeta
from kin_nb.replay.saving.build import ExecutedCell, is_generated, session_notebook
from kin_nb.replay.saving.options import SaveOptions, describe_files, parse_save
from kin_nb.replay.saving.preflight import check_cells
from kin_nb.replay.saving.privacy import NotebookRedactor, clean_notebook, without_results
from kin_nb.replay.saving.prompt_cells import describe_unanswered
from kin_nb.replay.saving.sources import combine_records, relocate
from kin_nb.replay.saving.user_cells import drop_unplayable, is_command_cell
from kin_nb.replay.saving.writing import write_notebook

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.notebook.live_agent import LiveAgent
    from kin_nb.notebook.notebook_file import NotebookFileWatch
    from kin_nb.notebook.recorded_answers import RecordedAnswers
    from kin_nb.replay.runner.confined import SaveCheck


_WENT_ON = re.compile(r"(?P<name>.+)\.(?P<number>\d{1,3})")


def save_notebook(
    recorded: RecordedAnswers, since: NotebookFileWatch, live: LiveAgent, line: str, display: Display
) -> Output:
    """Write the session notebook, and return the notice. Raises KinError if it cannot be written, ReplayError.

    It holds what the notebook's file records and what was made in this kernel, of all sessions. `line`: what follows `save`.
    Default: NAME.kin.ipynb next to the open notebook, NAME.2.kin.ipynb where that is open, `session.kin.ipynb` where the
    notebook's file is not known. `display` shows how far its play is.
    """
    path, options = parse_save(line)
    shell, config = recorded.shell, live.config()
    own = since.notebook_file()
    target = _target(path, own, plain=options.plain)
    typed = since.sources()  # before it is read: what is written from here on is not in `source`
    source = as_node(load_notebook(own)) if own is not None else _run_cells(shell, since.failed)
    whole = _recording(recorded, live, source if own is not None else None, target.resolve().parent)
    ran = _cells(source, typed)
    left_out = drop_unplayable(source, whole)
    behind = _behind(own.name, source, whole, ran, renamed=since.renamed) if own is not None else _unknown(shell)
    recording, removed = _clean(source, whole, config, options)
    cells = [ExecutedCell(cell["source"], failed=cell["failed"]) for cell in source["cells"]] if own is None else None
    source = source if own is not None else None
    if options.plain:
        return _plain(recording, source, cells, target, [behind, *removed])
    nb = session_notebook(recording, source_nb=source, cells=cells, options=options)
    try:
        write_notebook(nb, target, open_file=own)
    except OSError as error:
        raise KinError(
            f"Not saved: {target} cannot be written ({error.strerror}).\nGive another path: `%kin save PATH`"
        ) from None
    saved = read_saved(nb)
    found = _about_run(nb, saved.recording, target, config, options, display)
    stops = describe_unanswered(nb, saved.records_by_cell)
    about = [stops, *found.lines, *pairing_warnings(nb), describe_files(target, options)]
    said = [behind, *left_out, *about, *removed]
    said = list(filter(None, said))
    return _notice(saved.recording, target, said, stops=bool(stops) or found.stops, played=found.played)


def _recording(recorded: RecordedAnswers, live: LiveAgent, source: Any, folder: Path) -> Recording:
    """Combine the records of `source`, the notebook's file, and of this kernel, for a notebook in `folder`. Raises KinError.

    With the earlier answers of the cells that were asked again here, which have other outputs now.
    """
    file = Book.collect(source) if source is not None else recorded.book
    made, book = recorded.made, recorded.book
    again = (book.cell(each.record.cell_id) for each in made)
    ours = [record for cell in again if cell is not None for record in cell.records] + [each.record for each in made]
    records = combine_records(file.records.values(), ours)
    if not records:
        raise KinError("Nothing to save yet: no %%kin cell has an answer.")
    names = {record.id: book.sessions[record.id] for record in ours if book.sessions[record.id]}
    if file.records:
        names = {**file.recording.session_names, **names}
    agent = live.agent_or_none
    if agent is not None and agent.turns:
        meta = SessionMeta.from_header(agent.header, folder)
    elif made and made[-1].meta is not None:
        meta = relocate(Recording(made[-1].meta), notebook_folder(recorded.shell), folder).meta
    else:
        meta = relocate(file.recording, notebook_folder(recorded.shell), folder).meta
    return Recording(meta, records, file.unknown_records, session_names=names)


def _about_run(
    nb: Any, recording: Recording, target: Path, config: KinConfig, options: SaveOptions, display: Display
) -> SaveCheck:
    """Check the written notebook, and report what would stop it: play it and wait, or else only read it."""
    from kin_nb.replay.runner.confined import (  # noqa: PLC0415  (on first use)
        ConfinedPlay,
        play_and_report,
        report_without_play,
    )

    read, seconds = check_cells(nb, target.parent), config.save.check_seconds
    if not (seconds and options.play):
        return report_without_play(read, target.name)
    what = f"Saved {target.name}. Playing it once in a copy, {seconds} s at most; interrupt ends that"
    display.draw(render_progress(what, 0, ""))
    if not display.io.updates_in_place:
        display.io.stream(f"… {what}\n")
    play = ConfinedPlay(target.resolve(), nb, recording, config, seconds)
    return play_and_report(
        play,
        read,
        target.name,
        _cleaner(config, options).plain,
        lambda cell, cells: display.draw(render_progress(f"{what}: cell {cell} of {cells}", 0, "")),
    )


def _plain(
    recording: Recording, source: Any, cells: list[ExecutedCell] | None, target: Path, notes: list[str]
) -> Output:
    from kin_nb.replay.plain_export import plain_notebook  # noqa: PLC0415  (rarely asked for)

    if target.exists():
        raise KinError(f"{target.name} exists: nothing was written. Choose another name, or remove that file.")
    write_notebook(plain_notebook(recording, source, cells), target)
    said = ["It runs without kin_nb, as ordinary cells, and contains no recording.", *filter(None, notes)]
    return render_notice(f"Saved {target}", said)


def _target(path: str | None, own: Path | None, *, plain: bool) -> Path:
    name = _name(own, "plain" if plain else "kin")
    if path is None:
        return own.with_name(name) if own is not None else Path(name).absolute()
    target = Path(path).expanduser().absolute()
    if target.is_dir():
        return target / name
    return target if target.suffix == ".ipynb" else target.with_name(f"{target.name}.ipynb")


def _name(own: Path | None, kind: str) -> str:
    stem = own.stem.removesuffix(".kin") if own is not None else "session"
    before = _WENT_ON.fullmatch(stem)  # a session notebook that was continued, and is open
    name = f"{stem}.{kind}.ipynb"
    if own is None or name != own.name:
        return name
    number = int(before["number"]) + 1 if before else 2
    return f"{before['name'] if before else stem}.{number}.{kind}.ipynb"


def _cells(source: Any, sources: list[str]) -> list[Any]:
    """Return the cells that ran and that a session notebook keeps."""
    cells = [{"cell_type": "code", "source": text, "metadata": {}} for text in sources]
    return [cell for cell in cells if not (is_command_cell(source, cell) or is_generated(cell))]


def _run_cells(shell: InteractiveShell, failed: Container[int]) -> dict[str, Any]:
    """Return the cells that this kernel ran, if no file is known. `failed`: execution counts of cells with an error."""
    history: list[str] = shell.history_manager.input_hist_raw
    as_cell = getattr(getattr(shell, "kernel", None), "as_cell", str)  # in the Kin kernel, the %%kin cell of a prompt
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "source": as_cell(source), "metadata": {}, "outputs": [], "failed": count in failed}
        for count, source in enumerate(history)
        if count and source.strip()
    ]
    return {"metadata": {}, "cells": cells}


def _clean(nb: Any, recording: Recording, config: KinConfig, options: SaveOptions) -> tuple[Recording, list[str]]:
    """Redact: return the cleaned recording and the report. `nb` is cleaned in place."""
    cleaner = _cleaner(config, options)
    clean = clean_notebook(nb, recording, cleaner)
    return (clean if options.results else without_results(clean)), cleaner.report()


def _cleaner(config: KinConfig, options: SaveOptions) -> NotebookRedactor:
    root = Path("/")  # a redactor without folders: paths in the user's own cells must still work
    return NotebookRedactor(options.redact, Redactor(secret_values(config), root, home=root).text)


def _unknown(shell: InteractiveShell) -> str:
    """Return the note about missing parts if the file is not known; "" in a terminal, which has no notebook."""
    if not cell_io(shell).is_watched:
        return ""
    return (
        "The kernel does not know this notebook's file (was it moved?), so only the cells that ran were saved, without "
        "Markdown and outputs. To include those: save the notebook (Ctrl-S), then `kin-nb save NOTEBOOK.ipynb OUT.ipynb`."
    )


def _behind(name: str, source: Any, recording: Recording, ran: list[Any], *, renamed: bool) -> str:
    """Return the note about cells and prompts that the notebook's file does not have yet, and about its new name."""
    keys = {prompt_key(source, cell) for cell in source["cells"]} - {None}  # what these show is made of the recording
    count = sum(prompt_key(source, cell) not in keys for cell in ran)
    placed = map_records_to_cells(source, recording.records)
    held = {raw.get("id") for _, raw in raw_records(source) if isinstance(raw, dict)}
    carried = [each.get("record") for cell in source["cells"] for each in raw_output_records(cell)]
    held |= {raw.get("id") for raw in carried if isinstance(raw, dict)}
    late = sum(turn.id not in placed and turn.id not in held for turn in recording.turns)
    said = [f"This notebook is now {name}: that file has the cells that ran here."] if renamed else []
    if count:
        which, them, they = ("1 cell", "it", "it") if count == 1 else (f"{count} cells", "them", "they")
        said.append(
            f"{which} ran since {name} was last saved: the session notebook is made from that file, without {them} or with what "
            f"{they} showed before."
        )
    if late:
        said.append(f"{name} has no cell for {late} of the prompts, so they are at the end.")
    if count:
        said.append("To include everything in its place, save the notebook (Ctrl-S) and run `%kin save` again.")
    return " ".join(said)


def _notice(recording: Recording, target: Path, said: list[str], *, stops: bool, played: bool) -> Output:
    """Return the notice of a save. `stops`: something would stop a replay. `played`: a play reached the end."""
    count = len(recording.turns)
    who = "Run it" if played else "A check found nothing that stops a replay. Run it"
    who = "When that is fixed, anyone can run it" if stops else who
    lines = [
        f"{count} {'turn' if count == 1 else 'turns'}, recording {recording.name}.",
        f"{who} without a key: kin-nb replay {shlex.quote(target.name)}, jupyter execute, pytest --nbval, or open it and Run All.",
    ]
    return render_notice(f"Saved {target}", [*lines, *said])
