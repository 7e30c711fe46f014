"""What a project folder brings that acts for the user, as it is now: a digest of each file, and how two states differ.

A project's config.toml, agents, prompts, skills and tools act, and so do what its settings name: all in folders of
`tool_paths`, skills of `skill_paths`, files on the command line of an MCP server, and a folder that it runs. AGENTS.md
and memories are text for the model that changes with the work, and approves nothing: they are not part of a snapshot.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kin_nb.core.config.errors import ConfigError
from kin_nb.core.paths import LARGEST, real_path
from kin_nb.core.text import listed

SETTINGS = ".kin-code/config.toml"
ACTING = (SETTINGS, *(f".kin-code/{name}" for name in ("agents", "prompts", "skills", "tools")), ".agents/skills")
"""What of a project acts, wherever its settings lead: files, and folders with all that is in them."""

MOST_FILES, MOST_BYTES = 1_000, 50_000_000
"""A project with more than that cannot be compared at each start, and is not trusted."""
_KEPT_TEXT, _KEPT_TEXTS = 32_000, 300_000
"""Characters of one file, and of all files as JSON, that are kept to show a difference later."""
_MOST_LINES = 400
"""Of a difference that is shown."""
_MOST_NAMES = 5
_CACHE = "__pycache__"
"""Where Python leaves its own files. Those of its kind that it checks against time and size of the source are skipped."""
_PYC_HEADER = 16
_NOT_READ = "not read"
"""In the place of a digest: the file cannot be read, or is not a regular file."""

MayUse = Callable[[Path, bytes], bool]
"""Whether a file may act as it was read: KinConfig.is_as_trusted, or `anything`."""


@dataclass(frozen=True)
class Changes:
    """How a snapshot differs from an older one. Names are relative to the project's folder; `diff` is for a terminal."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    """The top-level keys of config.toml whose values differ."""
    diff: tuple[str, ...] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def summary(self) -> str:
        """One line: `changed .kin-code/config.toml (policy); added .kin-code/tools/x.py`."""
        return "; ".join(
            f"{what} {self._names(names)}"
            for what, names in (("changed", self.changed), ("added", self.added), ("removed", self.removed))
            if names
        )

    def _names(self, names: tuple[str, ...]) -> str:
        return listed([f"{_visible(name)}{self._with_keys(name)}" for name in names], _MOST_NAMES)

    def _with_keys(self, name: str) -> str:
        keys = ", ".join(map(_visible, self.keys[:_MOST_NAMES]))
        return f" ({keys})" if name == SETTINGS and keys else ""


@dataclass(frozen=True)
class ProjectSnapshot:
    """What acts in `folder`, a resolved path. `digests`: file name, relative to it -> sha256 of the file's bytes. `texts`:
    those of short text files, by the same names. `places`: the folders that its settings name for tools and skills.
    `not_compared`: the servers that run nothing of the project that is compared, by name.
    """

    folder: Path
    digests: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    places: tuple[Path, ...] = field(default=(), compare=False)
    not_compared: tuple[str, ...] = field(default=(), compare=False)

    @property
    def limit(self) -> str:
        """A sentence about what acts and is not compared; "" when there is nothing to say."""
        if not self.not_compared:
            return ""
        names = ", ".join(self.not_compared)
        return f"What these MCP servers run is not compared, their command lines name no file of this folder: {names}."

    @cached_property
    def code(self) -> str:
        """Eight characters that name this state."""
        return hashlib.sha256(json.dumps(self.digests, sort_keys=True).encode()).hexdigest()[:8]

    @classmethod
    def take(cls, folder: Path) -> ProjectSnapshot:
        """`folder` is resolved. Raises ConfigError when there is too much in it to be compared."""
        digests, texts, size, room = dict[str, str](), dict[str, str](), 0, _KEPT_TEXTS
        settings = _settings(folder)
        for path in _acting_files(folder, settings.values()):
            name = os.path.relpath(path, folder)
            if name in digests:
                continue
            content = settings[path] if path in settings else _content(path, MOST_BYTES - size)
            size += len(content or b"")
            if size > MOST_BYTES or len(digests) >= MOST_FILES:
                raise ConfigError(
                    f"{folder} cannot be trusted: its settings, tools and skills are more than {MOST_FILES:,} files or "
                    f"{MOST_BYTES // 1_000_000} MB. To be compared at each start, keep data out of .kin-code, .agents/skills, "
                    "folders of tool_paths and a server's folder, or name the server's file and not its folder."
                )
            digests[name] = _NOT_READ if content is None else digest(content)
            text = _text(content)
            needed = 0 if text is None else len(json.dumps(text))
            if text is not None and needed <= room:
                texts[name], room = text, room - needed
        read = [_toml_of(content) for content in settings.values()]
        places = (place for values in read for place in _folders_named(values, folder))
        unknown = (name for values in read for name in _not_compared(values, folder))
        return cls(folder, digests, texts, tuple(dict.fromkeys(places)), tuple(dict.fromkeys(unknown)))

    @classmethod
    def from_json(cls, text: str) -> ProjectSnapshot:
        """Raises ValueError."""
        try:
            values = json.loads(text)
            return cls(Path(values["folder"]), dict(values["digests"]), dict(values["texts"]))
        except (TypeError, KeyError, RecursionError) as error:
            raise ValueError(str(error)) from error

    def to_json(self) -> str:
        return json.dumps({"folder": str(self.folder), "digests": self.digests, "texts": self.texts}, indent=1)

    def changes_since(self, before: ProjectSnapshot) -> Changes:
        names = sorted({*self.digests, *before.digests})
        different = [name for name in names if self.digests.get(name) != before.digests.get(name)]
        return Changes(
            added=tuple(name for name in different if name not in before.digests),
            changed=tuple(name for name in different if name in before.digests and name in self.digests),
            removed=tuple(name for name in different if name not in self.digests),
            keys=_different_keys(before.texts.get(SETTINGS, ""), self.texts.get(SETTINGS, "")),
            diff=tuple(_shortened([line for name in different for line in self._diff(before, name)])),
        )

    def _diff(self, before: ProjectSnapshot, name: str) -> Iterator[str]:
        from difflib import unified_diff  # noqa: PLC0415  (only where something differs)

        old, new = (_lines(snapshot, name) for snapshot in (before, self))
        if old is None or new is None:
            yield f"{_visible(name)}: its text is not shown (it is long, not text, or cannot be read)"
            return
        for line in unified_diff(old, new, f"trusted/{name}", f"now/{name}", lineterm=""):
            yield _visible(line)

    def has(self, path: Path, content: bytes) -> bool:
        """Whether this very file was compared, and held this.

        `path` as the project names it, no link resolved: a file that came since, or by a link that came since, is refused.
        """
        return self.digests.get(os.path.relpath(os.path.normpath(path), self.folder)) == digest(content)

    def covers(self, path: Path) -> bool:
        """Whether a file lies where all files are compared, by its name or by where its links lead."""
        acting = (*(self.folder / each for each in ACTING), *self.places)
        compared = [form for place in acting for form in (place, real_path(place))]
        named = Path(os.path.normpath(path))
        return any(form.is_relative_to(place) for form in (named, real_path(named)) for place in compared)


def anything(path: Path, content: bytes) -> bool:  # noqa: ARG001  (a MayUse)
    """Where nothing was compared."""
    return True


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _settings(folder: Path) -> dict[Path, bytes | None]:
    """The project's settings files, each read once: what is compared is what tells of further files."""
    paths = (folder / SETTINGS, *sorted((folder / ".kin-code" / "agents").glob("*.toml")))
    return {path: _content(path, LARGEST) for path in paths}


def _acting_files(folder: Path, settings: Iterable[bytes | None]) -> Iterator[Path]:
    for name in ACTING:
        path = folder / name
        yield from _files_below(path) if path.is_dir() else [path] if os.path.lexists(path) else []
    for content in settings:
        yield from _named_by(_toml_of(content), folder)


def _toml_of(content: bytes | None) -> dict[str, Any]:
    return _toml((content or b"").decode("utf-8-sig", errors="replace"))


def _folders_named(values: Mapping[str, Any], folder: Path) -> Iterator[Path]:
    for key in ("tool_paths", "skill_paths"):
        yield from _paths(values.get(key), folder)


def _named_by(values: Mapping[str, Any], folder: Path) -> Iterator[Path]:
    """The files that a settings file makes act. Nothing of one that is not valid: loading it is an error."""
    for place in _paths(values.get("tool_paths"), folder):
        yield from _files_below(place)
    for place in _paths(values.get("skill_paths"), folder):
        for skill in sorted(place.glob("*/SKILL.md")):
            yield from _files_below(skill.parent)
    for server in _programs(values):
        yield from _of_a_server(server, folder)


def _not_compared(values: Mapping[str, Any], folder: Path) -> Iterator[str]:
    for server in _programs(values):
        if not any(True for _ in _of_a_server(server, folder)):
            yield _visible(str(server.get("name", "")))[:64]


def _programs(values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The servers that are programs."""
    servers = values.get("mcp_servers")
    return (
        [each for each in servers if isinstance(each, dict) and "command" in each] if isinstance(servers, list) else []
    )


def _of_a_server(server: Mapping[str, Any], folder: Path) -> Iterator[Path]:
    """The project's files on the command line that starts a server: `python tools/server.py`, `sh -c "./server"`,
    and those that its environment names.

    Of a folder inside the project that is run, all files; the project's own folder holds too much else.
    """
    from kin_nb.core.safety.shell.named_scripts import named_files, named_folders  # noqa: PLC0415  (only for servers)

    command, arguments, env = server.get("command", ""), server.get("args", []), server.get("env")
    given = env.values() if isinstance(env, Mapping) else ()  # BASH_ENV, NODE_OPTIONS and such name files that run
    try:
        words = [*(shlex.split(command) if isinstance(command, str) else command), *arguments]
        begin = folder / Path(server.get("cwd", "")).expanduser()
        for line in (words, *(str(value).split() for value in given)):
            yield from (path for path in named_files(line, begin) if path.is_relative_to(folder))
        for place in named_folders(words, begin):
            yield from _files_below(place) if folder in place.parents else ()
    except (OSError, RuntimeError, TypeError, ValueError):
        return  # not a command that could be run


def _paths(entries: Any, folder: Path) -> Iterator[Path]:
    for entry in entries if isinstance(entries, list) else []:
        try:
            yield Path(os.path.normpath(folder / Path(entry).expanduser()))
        except (RuntimeError, TypeError, ValueError):
            continue


def _files_below(folder: Path) -> Iterator[Path]:
    """All of them, links followed, each folder once."""
    seen = set[tuple[str, bool]]()
    for place, folders, names in os.walk(folder, followlinks=True):
        cache = os.path.basename(place) == _CACHE  # noqa: PTH119
        if (real := (os.path.realpath(place), cache)) in seen:
            folders.clear()
            continue
        seen.add(real)
        folders.sort()
        paths = (Path(place, name) for name in sorted(names))
        yield from (path for path in paths if not (cache and _is_checked_by_time(path)))


def _is_checked_by_time(path: Path) -> bool:
    """Whether Python uses this file of its cache only while it has the time and the size of the source.

    Such a file comes and goes with each import. Nothing that git brings can be one that is used: git does not store
    times, so its author would have to guess the second in which the source was written here. Not covered is a copy that
    keeps the times (rsync, tar). A file checked by the source's hash, or not at all, runs wherever it is put: it acts.
    """
    return path.suffix == ".pyc" and (_content(path, _PYC_HEADER) or b"")[4:8] == bytes(4)


def _content(path: Path, most: int) -> bytes | None:
    """At most `most` bytes and one; None when it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(most + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except (OSError, ValueError):
        return None


def _text(content: bytes | None) -> str | None:
    if content is None or len(content) > _KEPT_TEXT or b"\0" in content:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _lines(snapshot: ProjectSnapshot, name: str) -> list[str] | None:
    if name not in snapshot.digests:
        return []
    return snapshot.texts[name].splitlines() if name in snapshot.texts else None


def _shortened(lines: list[str]) -> list[str]:
    more = len(lines) - _MOST_LINES
    return lines if more <= 0 else [*lines[:_MOST_LINES], f"[… {more:,} more lines …]"]


def _toml(text: str) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415  (only where a project has settings)

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _different_keys(before: str, now: str) -> tuple[str, ...]:
    old, new = _toml(before), _toml(now)
    return tuple(sorted(key for key in {*old, *new} if old.get(key) != new.get(key)))


def _visible(text: str) -> str:
    """Without anything that a terminal would obey or not show."""
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape", "replace").decode() for c in text)
