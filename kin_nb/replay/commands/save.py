"""`kin-nb save`: a logged session, a session notebook, or a notebook that only a front end saved, as a session notebook."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kin_nb.core.config import KinConfig
from kin_nb.core.interrupts import interruptible
from kin_nb.render import one_line
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.jupytext import pairing_warnings
from kin_nb.replay.format.notebook_codec import read_saved
from kin_nb.replay.format.notebook_reader import as_node
from kin_nb.replay.plain_export import plain_notebook
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.build import empty_notebook, session_notebook
from kin_nb.replay.saving.options import SaveOptions, describe_files
from kin_nb.replay.saving.overwrite_guard import check_added_records
from kin_nb.replay.saving.preflight import Preflight, check_cells
from kin_nb.replay.saving.privacy import NotebookRedactor, clean_notebook, without_results
from kin_nb.replay.saving.prompt_cells import describe_unanswered
from kin_nb.replay.saving.sources import resolve_source
from kin_nb.replay.saving.user_cells import drop_unplayable
from kin_nb.replay.saving.writing import write_notebook

DONE, FAILED = 0, 1
_LONGEST = 400
_SUFFIX = ".kin.ipynb"


@dataclass(frozen=True)
class SaveCommand:
    """`source`: the beginning of a session's id, or a notebook. `path`: where it goes, None: where it belongs.

    `secrets` takes known ones out of a text.
    """

    source: str
    path: Path | None = None
    options: SaveOptions = SaveOptions()  # noqa: RUF009  (frozen)
    check: bool = False
    """Whether what was saved is played once, unconfined, in a copy of the files around it."""
    config: KinConfig | None = None
    """With it, and unless `check`, it is played confined, as its settings say."""
    secrets: Callable[[str], str] = str

    @property
    def target(self) -> Path:
        """A link's own file: the workspace's path is relative to where that is."""
        if self.path is not None:
            return Path(os.path.realpath(self.path))
        if not self._is_notebook:
            return Path(os.path.realpath(f"session{_SUFFIX}"))
        name = self.source.removesuffix(".ipynb").removesuffix(".kin")
        return Path(os.path.realpath(f"{name}{'.plain.ipynb' if self.options.plain else _SUFFIX}"))

    @property
    def shown(self) -> str:
        """As it was named."""
        return str(self.path or self.target.name)

    @property
    def _is_notebook(self) -> bool:
        return self.source.endswith(".ipynb")

    def run(self) -> list[str]:
        """What to say of it. Raises ReplayError, OSError; then nothing was written."""
        target, options = self.target, self.options
        if options.plain and self.check:
            raise ReplayError("Not saved: --check plays a recording, and --plain saves none.\nLeave out one of them.")
        if self.check and not options.play:
            raise ReplayError("Not saved: --check and --no-check contradict each other.\nLeave out one of them.")
        if options.plain and target.exists():
            raise ReplayError(f"Not saved: {target.name} exists.\nChoose another name, or remove that file.")
        nb, recording, removed = self._read(target)
        cleaner = NotebookRedactor(options.redact, self.secrets)
        recording = self._reduced(nb, recording, cleaner)
        if options.plain:
            write_notebook(plain_notebook(recording, nb if nb["cells"] else None), target)
            return [f"Saved {self.shown}: it needs no kin_nb, and has no recording.", *cleaner.report()]
        made = session_notebook(recording, source_nb=nb, options=options)
        cells_of = Path(self.source) if self._is_notebook else target
        write_notebook(made, target, made_from=cells_of)
        saved = read_saved(made)
        said = [f"Saved {self.shown}: recording {saved.recording.name}."]
        said += [
            f"Run it again without a key: kin-nb replay {shlex.quote(self.shown)}",
            describe_files(target, options),
        ]
        said.append(describe_unanswered(made, saved.records_by_cell))
        said += self._about_run(made, saved.recording, target)
        return [*filter(None, said), *pairing_warnings(made), *removed, *cleaner.report()]

    def _reduced(self, nb: Any, recording: Recording, cleaner: NotebookRedactor) -> Recording:
        """`recording` as it is written; `nb` is cleaned in place."""
        clean = clean_notebook(nb, recording, cleaner)
        return clean if self.options.results else without_results(clean)

    def _about_run(self, made: Any, recording: Recording, target: Path) -> list[str]:
        """What stops the saved notebook: as far as a play of it tells, or reading it."""
        from kin_nb.replay.runner.confined import (  # noqa: PLC0415  (runs a kernel)
            ConfinedPlay,
            play_and_report,
            report_without_play,
        )

        read, target = check_cells(made, target.parent), target.resolve()
        if self.check:
            return self._checked(read, target)
        seconds = self.config.save.check_seconds if self.config and self.options.play else 0
        if self.config is None or not seconds:
            return report_without_play(read, self.shown).lines
        play = ConfinedPlay(target, made, recording, self.config, seconds)
        with interruptible(), _PlayProgress(f"Saved {self.shown}. Playing it once; Ctrl-C ends that") as progress:
            clean = NotebookRedactor(self.options.redact, self.secrets).plain
            return play_and_report(play, read, self.shown, clean, progress).lines

    def _checked(self, read: Preflight, target: Path) -> list[str]:
        """The saved notebook is played unconfined, however long it takes."""
        from kin_nb.replay.runner.confined import file_exists  # noqa: PLC0415  (runs a kernel)
        from kin_nb.replay.runner.run_notebook import play_notebook  # noqa: PLC0415  (as above)

        clean = NotebookRedactor(self.options.redact, self.secrets).plain
        try:
            played = play_notebook(target)
        except (ReplayError, OSError) as wrong:
            return [f"Not checked: {wrong}", *read.lines()]
        if played.failure is None:
            return ["Checked: every cell ran, in a copy of these files.", *read.notes]
        missing = played.failure.missing_file
        if missing and file_exists(target, missing):
            outside = clean(f"it reads {missing} outside the copied folder")
            return [f"Cell {played.at} not checked: {one_line(outside, _LONGEST)}.", *read.lines(beyond=played.at - 1)]
        error = one_line(clean(str(played.failure)), _LONGEST)
        return [f"A replay stops at cell {played.at}: {error}", *read.lines(beyond=played.at)]

    def _read(self, target: Path) -> tuple[Any, Recording, list[str]]:
        """The notebook that the session goes into, an empty one where there is none; the recording; what to say of it."""
        named = resolve_source(self.source, target.parent)
        if named.nb is None and target.exists():
            log, named = named.recording, named.with_notebook(target)
            held = named.book.records if named.book is not None else {}
            if named.nb is not None and not log.shas.keys() <= held.keys():
                reduced = self._reduced(empty_notebook(), log, NotebookRedactor(self.options.redact, self.secrets))
                check_added_records(named.nb, reduced, target.name, redacts=bool(self.options.redact))
        if named.nb is None:
            return empty_notebook(), named.recording, []
        nb = as_node(named.nb, self.source if self._is_notebook else target.name)
        is_live = named.book is not None and bool(named.book.output_records)
        if not (self._is_notebook and is_live):
            return nb, named.recording, []
        return nb, named.recording, drop_unplayable(nb, named.recording)


class _PlayProgress:
    """A line on stderr that says how far a play is, on a terminal only; it is gone afterwards."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> _PlayProgress:
        self._show(self._what)
        return self

    def __call__(self, cell: int, cells: int) -> None:
        self._show(f"{self._what}: cell {cell} of {cells}")

    def __exit__(self, *_: object) -> None:
        self._show("")

    def _show(self, line: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()


def save(command: SaveCommand) -> int:
    """The exit code of `kin-nb save`."""
    try:
        said = command.run()
    except (ReplayError, OSError) as error:
        name = command.shown
        text = f"{name} cannot be written: {error.strerror}" if isinstance(error, OSError) else str(error)
        print(text, file=sys.stderr)  # noqa: T201
        return FAILED
    print("\n".join(said))  # noqa: T201
    return DONE
