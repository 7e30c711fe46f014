"""The environment of a re-execution: the kernel's working directory and variables, and its copy of the workspace.

With `--scratch` the recorded changes of files are made in that copy as cells play.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kin_nb.core.file_history import BlobStore
from kin_nb.core.interrupts import interruptible
from kin_nb.core.records import FileChange, TurnRecord, UndoRecord
from kin_nb.render import Output, render_notice
from kin_nb.replay.environment import RECORD_VARIABLE, VARIABLE, ReplayEnvironment
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.playback.locate import FoundRecording
from kin_nb.replay.recording import Recording
from kin_nb.replay.rerun.stubs import apply_changes_with
from kin_nb.replay.rerun.virtual_environments import remove_links
from kin_nb.replay.rerun.workspace_copy import (
    DEFAULT_LIMIT,
    CopyLimit,
    TooLargeError,
    WorkspaceCopy,
    copy_root,
    copy_workspace,
    temporary_folder,
)
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.runner.results import SCRATCH_KIND

RECORDED_ENVIRONMENT: Mapping[str, str] = {
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    "COLUMNS": "80",
    "NO_COLOR": "1",
    "GIT_AUTHOR_DATE": "2000-01-01T00:00:00+00:00",
    "GIT_COMMITTER_DATE": "2000-01-01T00:00:00+00:00",
}
"""What tools see when they run again, so that what they print depends on the workspace alone."""

_NOT_INHERITED = (VARIABLE, RECORD_VARIABLE, "PYTEST_CURRENT_TEST", "KIN_APPROVAL")
_OF_A_REPOSITORY = frozenset(
    {
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_PREFIX"),
        *(
            "GIT_OBJECT_DIRECTORY",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            "GIT_QUARANTINE_PATH",
            "GIT_INTERNAL_SUPER_PREFIX",
        ),
        *("GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE"),
        *("GIT_REPLACE_REF_BASE", "GIT_NO_REPLACE_OBJECTS"),
    }
)
"""`git rev-parse --local-env-vars`, without the count of settings, which a person may have set for all of git."""
_OF_CI = frozenset({"CI", "BUILD_NUMBER"})
"""With these pytest and others print more than they did for the person."""


@dataclass(frozen=True)
class RunEnvironment:
    """`copy`: None in plain playback, which needs no workspace."""

    cwd: Path
    env: Mapping[str, str]
    copy: WorkspaceCopy | None = None


@contextmanager
def prepare(path: Path, recording: Recording, options: ReplayOptions) -> Iterator[RunEnvironment]:
    """For the notebook at `path` (resolved); what is made for it is gone afterwards. Raises ReplayError."""
    env = kernel_environment(path)
    if options.in_copy:
        with interruptible(), copy_surrounding_folder(path, recording) as (folder, files):
            yield RunEnvironment(files / path.parent.relative_to(folder), env)
        return
    if options.mode == "playback" and not options.scratch:
        yield RunEnvironment(path.parent, env)
        return
    workspace = workspace_of(path, recording, options.workspace)
    with interruptible(), temporary_folder("kin-replay-") as root:
        cwd, copied = copy_for_run(path, workspace, recording, root / "workspace")
        replayed = ReplayEnvironment(
            mode="scratch" if options.mode == "playback" else options.mode,
            notebook=path,
            workspace=copied.folder,
            temporary=root,
            approve_recorded=options.approve_recorded,
            sandbox=_sandbox() if options.mode == "tools" else {},
            rules=tuple(file.resolve() for file in options.rules),
        )
        env = _away_from_other_repositories(env, root)
        if options.mode == "live":
            env |= {"KIN_WORKDIR": str(copied.folder), RECORD_VARIABLE: "all"}
        else:
            env["KIN_HOME"] = str(root / "home")
        if options.mode == "tools":
            env = {name: value for name, value in env.items() if name not in _OF_CI}
            env |= RECORDED_ENVIRONMENT
        yield RunEnvironment(cwd, env | replayed.to_environ(), copied)


@contextmanager
def copy_surrounding_folder(
    path: Path, recording: Recording, most: CopyLimit = DEFAULT_LIMIT
) -> Iterator[tuple[Path, Path]]:
    """(the folder around the notebook at `path`, a copy of the files in it as they are), the copy gone afterwards.

    Raises ReplayError.
    """
    with temporary_folder("kin-check-") as temporary:
        folder = _folder_around(path, recording)
        copied = copy_workspace(folder, None, temporary / "files", most, linked=False)
        yield folder, copied.folder


def _folder_around(path: Path, recording: Recording) -> Path:
    """The recording's workspace where the notebook at `path` is in it, else the notebook's own folder."""
    try:
        workspace = workspace_of(path, recording)
    except ReplayError:
        return path.parent
    return workspace if path.parent.is_relative_to(workspace) and workspace.is_dir() else path.parent


def workspace_of(path: Path, recording: Recording, named: Path | None = None) -> Path:
    """Where the workspace of the notebook at `path` is now: `named`, else as recorded. Raises ReplayError."""
    if named is not None:
        return named.resolve()
    recorded = recording.meta.workspace.path
    if not recorded or Path(recorded).is_absolute():
        raise ReplayError("The recording does not name its workspace folder.\nGive it: kin-nb replay --workspace PATH")
    try:
        return (path.parent / recorded).resolve()
    except (OSError, ValueError):  # a NUL in it
        raise ReplayError(
            "The recording has an invalid workspace path.\nGive the folder: kin-nb replay --workspace PATH"
        ) from None


def copy_for_run(path: Path, workspace: Path, recording: Recording, top: Path) -> tuple[Path, WorkspaceCopy]:
    """(where in `top`, made here, the notebook's own folder is, the copy). A workspace below the notebook stays below it."""
    recorded = recording.meta.workspace
    original = copy_root(workspace, recorded.commit)
    below = original.is_relative_to(path.parent)  # then cells find it where it was
    folder = top / original.relative_to(path.parent) if below else top
    try:
        copied = copy_workspace(workspace, recorded.commit, folder, branch=recorded.branch)
    except TooLargeError as error:
        raise ReplayError(f"{error}\nGive a smaller folder: kin-nb replay --workspace PATH") from error
    if below:
        return top, copied
    inside = top / path.parent.relative_to(original) if path.parent.is_relative_to(original) else None
    return (inside if inside is not None and inside.is_dir() else copied.folder), copied


def _away_from_other_repositories(env: Mapping[str, str], root: Path) -> dict[str, str]:
    """Remove the variables that name a repository (git hooks set them), and stop git from searching above `root`, the copy."""
    return {name: value for name, value in env.items() if name not in _OF_A_REPOSITORY} | {
        "GIT_CEILING_DIRECTORIES": str(root)
    }


def _sandbox() -> dict[str, str | bool]:
    """How this person's own commands are confined (`[tools.bash]`): those that run again are too. Raises ReplayError."""
    from kin_nb.core.config import ConfigError, KinConfig  # noqa: PLC0415  (--tools only)

    try:
        bash = KinConfig.load().tools.get("bash")
    except ConfigError as error:
        raise ReplayError(f"The settings of the sandbox ([tools.bash]) cannot be read: {error}") from error
    settings = bash.model_dump() if bash is not None else {}
    return {name: settings[name] for name in ("sandbox", "sandbox_network") if name in settings}


def kernel_environment(path: Path) -> dict[str, str]:
    """This process's environment, in which the kernel finds the input as its own file, and this interpreter first."""
    env = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    env |= {"KIN_RECORDING": str(path), "JPY_SESSION_NAME": str(path)}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), *filter(None, [env.get("PATH")])])
    if env.get("PYTHONPATH"):  # the kernel starts elsewhere
        env["PYTHONPATH"] = os.pathsep.join(str(Path(entry).resolve()) for entry in env["PYTHONPATH"].split(os.pathsep))
    return env


class ScratchCopy:
    """`folder`: the copy. Nothing else is written, whatever a record says: every path is checked, and every hash."""

    def __init__(self, folder: Path, contents: Path) -> None:
        self._folder = folder
        self._store = BlobStore(contents)
        self._cwd: Path | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def from_environment(cls, environment: ReplayEnvironment | None) -> ScratchCopy | None:
        """The one that `kin-nb replay --scratch` made for this kernel and removes, None when it made none."""
        if environment is None or environment.mode != "scratch":
            return None
        return cls(environment.workspace, environment.temporary / "contents.sqlite")

    @classmethod
    def create(cls, found: FoundRecording) -> ScratchCopy:
        """Make a copy in which this kernel works until `close`. Raises ReplayError when the workspace does not exist."""
        path = found.path.resolve()
        workspace = workspace_of(path, found.recording)
        temporary = tempfile.TemporaryDirectory(prefix="kin-scratch-", ignore_cleanup_errors=True)
        root = Path(temporary.name).resolve()
        cwd, copied = copy_for_run(path, workspace, found.recording, root / "workspace")
        scratch = cls(copied.folder, root / "contents.sqlite")
        scratch._temporary, scratch._cwd = temporary, Path.cwd()
        os.chdir(cwd)
        return scratch

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Meanwhile the kernel is where it was before: what begins there outlives the copy."""
        inside = Path.cwd()
        if self._cwd is not None:
            os.chdir(self._cwd)
        try:
            yield
        finally:
            os.chdir(inside)

    def close(self) -> None:
        """The kernel is where it was before, and the copy is gone, if it was made here."""
        self._store.close()
        if self._temporary is not None and self._cwd is not None:
            os.chdir(self._cwd)
            remove_links(Path(self._temporary.name))
            self._temporary.cleanup()

    def play(self, record: TurnRecord | UndoRecord) -> list[Output]:
        """Change the files as `record` did; a notice when some of that cannot be."""
        if isinstance(record, TurnRecord):
            return self._changed(f"turn {record.turn}", [change for call in record.calls for change in call.files])
        return self._changed(f"{record.type} of turn {', '.join(map(str, record.turns))}", record.files)

    def _changed(self, place: str, changes: Sequence[FileChange]) -> list[Output]:
        missing = apply_changes_with(self._folder, changes, self._store) if changes else {}
        lines = [f"{path}: {why}" for path, why in sorted(missing.items())]
        return [scratch_notice("Not in the scratch copy", lines, place=place, missing=lines)] if lines else []


def scratch_notice(title: str, lines: Iterable[str], **more: object) -> Output:
    """Never compared: `metadata.kin.kind` says what it is."""
    notice = render_notice(title, lines)
    return Output(notice.data, {**notice.metadata, "kin": {**notice.metadata["kin"], "kind": SCRATCH_KIND, **more}})
