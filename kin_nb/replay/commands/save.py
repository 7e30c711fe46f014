"""`kin-nb save`: a logged session, a session notebook, or a notebook that only a front end saved, written anew."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kin_nb.core.config import KinConfig
from kin_nb.core.interrupts import interruptible
from kin_nb.render import one_line
from kin_nb.replay.cells.placing import named_session
from kin_nb.replay.errors import DoesNotFollowError, NoRecordingError, RecordingError, ReplayError
from kin_nb.replay.format.gone_on import gone_on
from kin_nb.replay.format.gone_on import whole as gone_on_after
from kin_nb.replay.format.in_notebook import read_recording, session_of
from kin_nb.replay.format.in_outputs import (
    carried_records,
    claimed_sessions,
    recording_in_outputs,
    sessions_in_outputs,
)
from kin_nb.replay.format.jupytext import pairing_warnings
from kin_nb.replay.format.loading import as_node, load_notebook
from kin_nb.replay.plain.export import plain_notebook
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.live_cells import keep_what_plays, what_goes
from kin_nb.replay.saving.making import empty_notebook, session_notebook
from kin_nb.replay.saving.named_recording import in_folder, named_recording, notebook_of
from kin_nb.replay.saving.options import SaveOptions, about_files
from kin_nb.replay.saving.preflight import Preflight, about_run
from kin_nb.replay.saving.privacy import Cleaner, clean_notebook, without_results
from kin_nb.replay.saving.turn_order import about_stops
from kin_nb.replay.saving.writing import write_notebook

DONE, FAILED = 0, 1
_LONGEST = 400
_SUFFIX = ".kin.ipynb"


@dataclass(frozen=True)
class SaveCommand:
    """`source`: the beginning of a session's id, or a notebook. `path`: where it goes, None: where it belongs, in place too.

    `from_outputs`: the recording is what the outputs of the notebook carry; `session`: of those of several, the one whose
    id begins so. `secrets` takes known ones out of a text.
    """

    source: str
    path: Path | None = None
    options: SaveOptions = SaveOptions()  # noqa: RUF009  (frozen)
    from_outputs: bool = False
    session: str = ""
    check: bool = False
    """Whether what was saved is played once, unconfined, in a copy of the files around it."""
    config: KinConfig | None = None
    """With it, and unless `check`, it is played confined, as its settings have it."""
    secrets: Callable[[str], str] = str

    @property
    def target(self) -> Path:
        """A link's own file: the workspace's path is relative to where that is."""
        if self.path is not None:
            return Path(os.path.realpath(self.path))
        if not self._is_notebook:
            return Path(os.path.realpath(f"session{_SUFFIX}"))
        if self.options.in_place:
            return Path(os.path.realpath(self.source))
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
            raise ReplayError("--check plays the recording, and --plain writes none. Leave out one of them.")
        if self.check and not options.play:
            raise ReplayError("--check plays it, and --no-check does not. Leave out one of them.")
        if options.plain and target.exists():
            raise ReplayError(f"{target.name} exists: nothing was written. Choose another name, or remove that file.")
        nb, recording, told = self._read(target)
        cleaner = Cleaner(options.redact, self.secrets)
        recording = clean_notebook(nb, recording, cleaner)
        if not options.results:
            recording = without_results(recording)
        if options.plain:
            write_notebook(plain_notebook(recording, nb if nb["cells"] else None), target)
            return [f"Saved {self.shown}: it needs no kin_nb, and holds no recording.", *cleaner.report()]
        made = session_notebook(recording, source_nb=nb, options=options)
        cells_of = Path(self.source) if self._is_notebook else target
        write_notebook(made, target, made_from=cells_of, in_place=options.in_place)
        saved = read_recording(made)
        said = [f"Saved {self.shown}: recording {saved.name}."]
        said += [f"Run it again without a key: kin-nb replay {shlex.quote(self.shown)}", about_files(target, options)]
        said.append(about_stops(made, saved))
        said += self._about_run(made, saved, target)
        return [*filter(None, said), *pairing_warnings(made), *told, *cleaner.report()]

    def _about_run(self, made: Any, recording: Recording, target: Path) -> list[str]:
        """What stops the saved notebook: as far as a play of it tells, or reading it."""
        from kin_nb.replay.runner.confined import (  # noqa: PLC0415  (runs a kernel)
            ConfinedPlay,
            only_read,
            played_after_saving,
        )

        read, target = about_run(made, target.parent), target.resolve()
        if self.check:
            return self._checked(read, target)
        seconds = self.config.save.check_seconds if self.config and self.options.play else 0
        if self.config is None or not seconds:
            return only_read(read, self.shown).lines
        play = ConfinedPlay(target, made, recording, self.config, seconds)
        with interruptible(), _Playing(f"Saved {self.shown}. Playing it once; Ctrl-C ends that") as told:
            clean = Cleaner(self.options.redact, self.secrets).plain
            return played_after_saving(play, read, self.shown, clean, told).lines

    def _checked(self, read: Preflight, target: Path) -> list[str]:
        """The saved notebook is played unconfined, however long it takes."""
        from kin_nb.replay.runner.confined import is_there  # noqa: PLC0415  (runs a kernel)
        from kin_nb.replay.runner.run_notebook import play_once  # noqa: PLC0415  (as above)

        clean = Cleaner(self.options.redact, self.secrets).plain
        try:
            played = play_once(target)
        except (ReplayError, OSError) as wrong:
            return [f"Not checked: {wrong}", *read.lines()]
        if played.failure is None:
            return ["Checked: every cell ran, in a copy of these files.", *read.notes]
        missing = played.failure.missing_file
        if missing and is_there(target, missing):
            outside = clean(f"it reads {missing} outside of the copied folder")
            return [f"Cell {played.at} not checked: {one_line(outside, _LONGEST)}.", *read.lines(beyond=played.at - 1)]
        error = one_line(clean(str(played.failure)), _LONGEST)
        return [f"A replay stops at cell {played.at}: {error}", *read.lines(beyond=played.at)]

    def _read(self, target: Path) -> tuple[Any, Recording, list[str]]:
        """The notebook that the session goes into, an empty one where there is none; the recording; what to say of it."""
        if self.options.in_place:
            if self._is_notebook and Path(os.path.realpath(self.source)) != target:
                raise ReplayError(
                    f"--in-place writes {self.source} itself. Leave out {self.shown}, or leave out --in-place."
                )
            _check_nobody_has_it_open(target)
        if self.from_outputs:
            if not self._is_notebook:
                raise ReplayError("--from-outputs takes a notebook: kin-nb save NOTEBOOK.ipynb --from-outputs")
            return self._from_outputs(target)
        if self.session:
            raise ReplayError("--session chooses what --from-outputs takes. Without it the session is named first.")
        recording, found = named_recording(self.source, target.parent)
        if found is None:
            found = load_notebook(target) if self.options.in_place else notebook_of(recording, target)
        name = self.source if self._is_notebook else target.name
        nb = empty_notebook() if found is None else as_node(found, name)
        return self._gone_on(nb, recording, target) if self._is_notebook else (nb, recording, [])

    def _gone_on(self, nb: Any, recording: Recording, target: Path) -> tuple[Any, Recording, list[str]]:
        """With the turns that only outputs carry; or what to say of those that do not follow what `nb` holds.

        Raises RecordingError naming one that was changed.
        """
        said = "Left out: turns that only outputs carry, and that do not follow these."
        try:
            found = gone_on(nb, recording)
            apart = found.apart
        except DoesNotFollowError:  # a record that was changed is refused: without it turns would be missing
            found, apart = None, [*sessions_in_outputs(nb)]
        if found is not None and found.carried:
            return self._of_outputs(nb, found.recording, target)
        if target != Path(os.path.realpath(self.source)):
            nb["cells"] = [cell for cell in nb["cells"] if cell["metadata"].get("kin") or not _is_of(cell, apart)]
        save = f"kin-nb save {shlex.quote(self.source)} OUT.ipynb --from-outputs --session"
        return nb, recording, [f"{said} Save them: {save} {_short(name, apart)}" for name in apart]

    def _from_outputs(self, target: Path) -> tuple[Any, Recording, list[str]]:
        source = Path(self.source)
        nb = as_node(load_notebook(source), source.name)
        held = self._held(nb)
        with nullcontext() if not self.session else suppress(DoesNotFollowError):  # then it is asked for by itself
            whole = held if held is None else gone_on_after(nb, held)
            if whole is not None and whole is not held and whole.session.startswith(self.session):
                return self._of_outputs(nb, whole, target)
        if held is not None and not self.session:
            return self._gone_on(nb, in_folder(held, source.resolve().parent, target.parent), target)
        cells = sessions_in_outputs(nb)
        return self._of_outputs(nb, recording_in_outputs(nb, self._chosen(cells) if cells else "", held), target)

    def _held(self, nb: Any) -> Recording | None:
        """What the metadata of `nb` records. Raises RecordingError when it was changed, unless a session is asked for
        that did not go on from it.
        """
        try:
            return read_recording(nb)
        except NoRecordingError:
            return None
        except RecordingError as error:
            wanted = [
                each for each in carried_records(nb) if self.session and each.meta.session.startswith(self.session)
            ]
            if not wanted or any(session_of(nb)[0] in (each.meta.session, *(each.after or ())) for each in wanted):
                raise RecordingError(f"{Path(self.source).name}: {error}") from error
            return None

    def _of_outputs(self, nb: Any, recording: Recording, target: Path) -> tuple[Any, Recording, list[str]]:
        cells = sessions_in_outputs(nb).get(recording.session, [])  # none: another goes on from it
        name = next(filter(None, (named_session(nb["cells"][number - 1]) for number in cells)), "")
        recording = in_folder(recording, Path(self.source).resolve().parent, target.parent)
        commands = _only_commands_go(nb, recording, name) if self.options.in_place else []
        return nb, recording, commands + keep_what_plays(nb, recording, name)

    def _chosen(self, cells: dict[str, list[int]]) -> str:
        """The id that `session` begins, of those whose records are in `cells`. Raises RecordingError, listing them."""
        found = [each for each in cells if each.startswith(self.session)]
        if len(found) == 1:
            return found[0]
        many = "1 session" if len(cells) == 1 else f"{len(cells)} sessions"
        what = f"{len(found)} of them begin with {self.session}" if self.session else "a session notebook holds one"
        source = Path(self.source)
        lines = [f"{source.name} holds turns of {many}, and {what}. Save each by itself:"]
        for session, numbers in cells.items():
            name = _short(session, cells)
            path = source.with_name(f"{source.stem}.{name}{_SUFFIX}")
            command = shlex.join(["kin-nb", "save", str(source), str(path), "--from-outputs", "--session", name])
            lines.append(f"cell {', '.join(map(str, numbers))}: {command}")
        raise RecordingError("\n".join(lines))


def _is_of(cell: Any, sessions: Sequence[str]) -> bool:
    return not set(sessions).isdisjoint(claimed_sessions(cell))


class _Playing:
    """A line on stderr that says how far a play is, on a terminal only; it is gone afterwards."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> _Playing:
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


def _check_nobody_has_it_open(path: Path) -> None:
    from kin_nb.replay.saving.open_notebooks import open_in  # noqa: PLC0415  (asks servers)

    server = open_in(path)
    if server:
        raise RecordingError(
            f"{path.name} is open in {server}, whose next save would erase the recording: nothing was written. "
            "Close it there first, or leave out --in-place."
        )


def _only_commands_go(nb: Any, recording: Recording, session: str) -> list[str]:
    """What to say of the commands that go from the notebook's own file. Raises RecordingError when prompts would."""
    commands, prompts = what_goes(nb, recording, session)
    if prompts:
        raise RecordingError(
            "In a session notebook each prompt has a recorded answer of its session, and --in-place would delete "
            f"{', '.join(prompts)}: nothing was written. Move it elsewhere; or leave out --in-place, and name another file."
        )
    return [f"Left out: {', '.join(commands)}."] if commands else []


def _short(session: str, all_of_them: Iterable[str]) -> str:
    """The beginning of its id that tells it from the others."""
    short = session[:8]
    return short if sum(each.startswith(short) for each in all_of_them) == 1 else session
