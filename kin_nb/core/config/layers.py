"""Layers of settings: one per source, how they are merged, and where a value was written."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from kin_nb.core.config.entries import usable_name
from kin_nb.core.config.errors import ConfigError
from kin_nb.core.config.toml_file import KeyPath, key_lines, read_toml
from kin_nb.core.paths import kin_home, shown
from kin_nb.core.project_snapshot import MayUse, ProjectSnapshot

NAMED: dict[str, tuple[str, str]] = {
    "providers": ("name", "provider"),
    "models": ("alias", "model"),
    "mcp_servers": ("name", "MCP server"),
}
"""Lists of tables that are merged by the name of an entry: field -> (key that names an entry, what an entry is)."""

OTHER_NAMES = {"providers": {"custom_headers": "extra_headers"}}
"""Aliases of an entry's keys. They are resolved when a layer is read, so that each setting has one name afterwards."""

ADD_UP: tuple[KeyPath, ...] = (("disabled_tools",), ("disabled_skills",), ("mcp_servers", "*", "disabled_tools"))
"""Lists of a project that are added to the user's, and do not replace them. `*`: of each entry."""

PATHS = ("tool_paths", "skill_paths")
"""Lists of paths, relative to the layer's folder. They are made absolute when the layer is read."""


class Layer:
    """The values of one source. `values`: tables as dicts; each list of NAMED as a dict, name of the entry -> entry.

    `project`: the folder of the project that the values belong to; None for the user's. Raises ConfigError for two entries with
    the same name, an entry without a name, and an invalid path.
    """

    def __init__(self, values: Mapping[str, Any], project: Path | None = None) -> None:
        self.project = project
        self.values = {
            key: self._by_name(key, value) if key in NAMED else self._anchored(key, value) if key in PATHS else value
            for key, value in values.items()
        }

    def settings(self) -> dict[str, Any]:
        """Return the values in the form that KinConfig takes."""
        return as_lists(self.values)

    @property
    def folder(self) -> Path:
        """The folder that relative paths in this layer start from."""
        return Path.cwd()

    def where(self, path: KeyPath) -> str:
        """Return the place for an error, FILE:LINE; "" for values without a file. `path` as in `values`."""
        del path
        return ""

    def source(self, path: KeyPath) -> str:
        """Return the source of the value, for `kin-nb config --origin`."""
        del path
        return "given at run time"

    def place(self, path: KeyPath) -> str:
        """Return the start of an error message: `FILE:LINE: `, or "" for values without a file."""
        return f"{where}: " if (where := self.where(path)) else ""

    def has(self, path: KeyPath) -> bool:
        value: Any = self.values
        for part in path:
            if not isinstance(value, Mapping) or part not in value:
                return False
            value = value[part]
        return True

    def _anchored(self, key: str, entries: Any) -> Any:
        if not isinstance(entries, list) or not all(isinstance(entry, str | Path) for entry in entries):
            return entries  # reported later, with its place
        try:
            return [str(self.folder / Path(entry).expanduser()) for entry in entries]
        except RuntimeError as error:
            raise ConfigError(f"{self.place((key,))}{key}: invalid path: {error}.") from error

    def _by_name(self, key: str, entries: Any) -> dict[str, Any]:
        if not isinstance(entries, list):
            raise ConfigError(f"{self.place((key,))}{key}: must be a list of tables, each written as [[{key}]].")
        named: dict[str, Any] = {}
        for number, entry in enumerate(entries):
            name = entry_name(key, entry)
            kind = NAMED[key][1]
            if name is None:
                where = self.place((key, str(number)))
                raise ConfigError(f"{where}{key}: entry {number + 1} must be a table with the name of the {kind}.")
            if name in named:
                self._refuse_twins(key, named, name, number)
            named[name] = self._renamed(key, number, entry)
        return named

    def _renamed(self, key: str, number: int, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        for other, name in OTHER_NAMES.get(key, {}).items():
            if other in entry and name in entry:
                where = self.place((key, str(number), other))
                raise ConfigError(f"{where}{key}: {name} and {other} are the same setting; keep only one.")
            entry = {name if given == other else given: value for given, value in entry.items()}
        return entry

    def _refuse_twins(self, key: str, named: Mapping[str, Any], name: str, number: int) -> None:
        identity, kind = NAMED[key]
        first, second = ((key, str(n), identity) for n in (list(named).index(name), number))
        again = self.where(second).rpartition(":")[2]
        twins = f" (again on line {again})" if again.isdecimal() else ""
        rule = "aliases" if key == "models" else f"names of {kind}s"
        if key == "mcp_servers":
            rule += " (in letters, digits, _ and -)"
        raise ConfigError(
            f'{self.place(first)}{identity} = "{name}" is used for two {kind}s{twins}; {rule} must be unique.'
        )


class FileLayer(Layer):
    """The values of a TOML file. A file that does not exist has none. `project`: the folder of its project."""

    def __init__(self, path: Path, text: str, values: Mapping[str, Any], project: Path | None = None) -> None:
        self.path, self.text, self.project = path, text, project  # set before the values: their paths depend on it
        super().__init__(values, project)

    @classmethod
    def read(cls, path: Path, project: Path | None = None) -> FileLayer:
        return cls(path, *read_toml(path), project)

    @property
    def folder(self) -> Path:
        return self.project or self.path.parent

    @cached_property
    def _lines(self) -> dict[KeyPath, int]:
        return key_lines(self.text)

    def line(self, path: KeyPath) -> int | None:
        """Return the line of the value, or of the table that contains it."""
        path = self._with_index(path)
        found = (self._lines.get(path[:length]) for length in range(len(path), 0, -1))
        return next((line for line in found if line is not None), None)

    def is_accepted(self, may_use: MayUse) -> bool:
        """Whether `may_use` accepts the content that was read, with or without a byte order mark."""
        content = self.text.encode()
        return not content or any(may_use(self.path, each) for each in (content, codecs.BOM_UTF8 + content))

    def where(self, path: KeyPath) -> str:
        return f"{self.path}:{line}" if (line := self.line(path)) else str(self.path)

    def source(self, path: KeyPath) -> str:
        return f"{shown(self.path)}:{line}" if (line := self.line(path)) else shown(self.path)

    def _with_index(self, path: KeyPath) -> KeyPath:
        entries = getattr(self, "values", {}).get(path[0]) if len(path) > 1 and path[0] in NAMED else None
        if not isinstance(entries, dict) or path[1] not in entries:
            return path
        entry = (path[0], str(list(entries).index(path[1])))
        for other, name in OTHER_NAMES.get(path[0], {}).items():
            if path[2:3] == (name,) and (*entry, other) in self._lines:
                return (*entry, other, *path[3:])
        return (*entry, *path[2:])


class VariableLayer(Layer):
    """Values of variables. `names`: setting -> the variable (or the secrets file) that has it."""

    def __init__(self, values: Mapping[str, Any], names: Mapping[str, str]) -> None:
        self.names = names
        super().__init__(values)

    def where(self, path: KeyPath) -> str:
        return self.names.get(path[0], "")

    def source(self, path: KeyPath) -> str:
        return self.where(path)


@dataclass(frozen=True)
class Layers:
    """The layers of a configuration, lowest first, and the trusted project that was read.

    `left_out`: the warning that says why a project's settings were not read, or "". Configurations are equal if their values
    and their trusted project are: the sources of the values are not compared.
    """

    layers: tuple[Layer, ...] = field(default=(), compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)
    trusted: ProjectSnapshot | None = None
    left_out: str = field(default="", compare=False)

    def users_places(self) -> list[Path]:
        """Return the user's own folders of tools, skills and prompts."""
        own = [layer.values.get(key) for layer in self.layers if layer.project is None for key in PATHS]
        return [kin_home(), *(Path(entry) for entries in own if isinstance(entries, list) for entry in entries)]

    def layer_of(self, path: KeyPath) -> Layer | None:
        """Return the layer that sets the value; None for a default."""
        return next((layer for layer in reversed(self.layers) if layer.has(path)), None)

    def place(self, path: KeyPath) -> str:
        """Return `FILE:LINE: ` of a value, or of the nearest table around it that a layer contains; "" for a default."""
        for length in range(len(path), 0, -1):
            layer = self.layer_of(path[:length])
            if layer is not None:
                return layer.place(path[:length])
        return ""


def merge_layers(layers: Iterable[Layer], defaults: Mapping[str, Callable[[], Iterable[BaseModel]]]) -> dict[str, Any]:
    """Merge layers into the values of a KinConfig.

    Tables are merged key by key, lists of NAMED by name (later layers first, a project's last), lists of ADD_UP are concatenated;
    everything else is replaced. `defaults`: the built-in entries of the lists of NAMED.
    """
    merged: dict[str, Any] = {key: {entry_name(key, e.model_dump()): e for e in own()} for key, own in defaults.items()}
    given, adding = set[str](), list[Mapping[str, Any]]()
    for layer in layers:
        values: Mapping[str, Any] = layer.values
        given.update(values)
        if layer.project is not None:
            adding.append(values)
            for path in ADD_UP:
                values = _without(values, path)
        for key, value in values.items():
            if key in NAMED:
                merged[key] = _merge_named(merged.get(key, {}), value, key, last=layer.project is not None)
            else:
                merged[key] = deep_merge(merged.get(key), value)
    for values in adding:
        for path in ADD_UP:
            merged = _added(merged, values, path)
    return {key: value for key, value in merged.items() if key in given}


def as_lists(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the dicts of NAMED back to lists."""
    return {key: list(value.values()) if key in NAMED else value for key, value in values.items()}


def plain(value: Any) -> Any:
    """Convert pydantic values to dicts, and drop keys whose value is None."""
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_unset=True)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items() if item is not None}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def deep_merge(below: Any, above: Any) -> Any:
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return above
    return {**below, **{key: deep_merge(below.get(key), value) for key, value in above.items()}}


def _without(values: Any, path: KeyPath) -> Any:
    """Return `values` without the value at `path`."""
    if not isinstance(values, Mapping):
        return values
    key, *rest = path
    if not rest:
        return {name: value for name, value in values.items() if name != key}
    return {name: _without(each, tuple(rest)) if key in {"*", name} else each for name, each in values.items()}


def _added(below: Any, above: Any, path: KeyPath) -> Any:
    """Return `below` with the items of the list at `path` in `above` appended."""
    if not path:
        both = isinstance(below, list) and isinstance(above, list)
        return [*below, *(each for each in above if each not in below)] if both else above
    if not isinstance(above, Mapping):
        return below
    key, rest = path[0], path[1:]
    new = dict(below) if isinstance(below, Mapping) else {}
    for name in above if key == "*" else {key} & above.keys():
        new[name] = _added(new.get(name), above[name], rest)
    return new


def _merge_named(below: Mapping[Any, Any], above: Mapping[str, Any], key: str, *, last: bool) -> dict[Any, Any]:
    """Merge entries by name. `last`: new entries come after those of `below`, which then win where names are ambiguous."""
    merged = {}
    for name, entry in above.items():
        base = below.get(name)
        base = base.model_dump() if isinstance(base, BaseModel) else base
        if key == "mcp_servers" and base is not None and _changes_kind(base, entry):
            base = None
        merged[name] = deep_merge(base, entry)
    return {**below, **merged} if last else {**merged, **{n: entry for n, entry in below.items() if n not in merged}}


def _changes_kind(below: Mapping[str, Any], above: Mapping[str, Any]) -> bool:
    """Whether an entry replaces a command by a URL, or a URL by a command: then nothing of the old entry is kept."""
    return ("url" in above and "command" in below) or ("command" in above and "url" in below)


def entry_name(key: str, entry: Any) -> str | None:
    """Return the name of an entry of a list of NAMED; None if it has none."""
    if not isinstance(entry, Mapping):
        return None
    name = (entry.get("alias") or entry.get("name")) if key == "models" else entry.get("name")
    if not isinstance(name, str) or not name:
        return None
    return usable_name(name) or name if key == "mcp_servers" else name
