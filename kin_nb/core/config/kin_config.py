"""KinConfig: the settings of one agent, with `load` and `save_updates`.

Saving keeps comments and order of config.toml, and never writes a file that could not be loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, Self

from pydantic import BaseModel

from kin_nb.core.config.errors import ConfigError
from kin_nb.core.config.layers import NAMED, FileLayer, Layer, entry_name, plain
from kin_nb.core.config.loading import MODE_KEYS, build, config_path, load_config
from kin_nb.core.config.toml_file import parse_toml
from kin_nb.core.config.trusted_folders import TrustedFolders
from kin_nb.core.config.validation import unknown_keys
from kin_nb.core.config.values import ConfigValues
from kin_nb.core.paths import read_settings, sole_writer, write_private
from kin_nb.core.project_snapshot import ProjectSnapshot


class KinConfig(ConfigValues):
    """The settings of one agent, read from files and variables."""

    @classmethod
    def load(
        cls,
        agent: str | None = None,
        workdir: str | Path | None = None,
        *,
        trust: TrustedFolders | None = None,
        require_key: bool = False,
        **overrides: Any,
    ) -> Self:
        """Read and merge the layers (loading.py). `agent`: NAME of agents/NAME.toml. `trust`: folders trusted for this session.

        Raises ConfigError with file and line. MissingAPIKeyError only with `require_key` (seed 000 always raises it): without
        a key you can still show and fix settings, replay sessions, and choose a local model.
        """
        config = load_config(cls, agent, {"workdir": workdir, **overrides}, trust)
        if require_key:
            config.check_api_key()
        return config

    @classmethod
    def save_updates(cls, updates: Mapping[str, Any], path: Path | None = None) -> None:
        """Merge `updates` into config.toml, or into the file at `path`. Raises ConfigError, the file untouched."""
        save_updates(updates, path)


class Added(list[str]):
    """A list in `save_updates` whose items are appended to the existing list, except those that it already has."""


def save_updates(updates: Mapping[str, Any], path: Path | None = None) -> None:
    """Merge `updates` into the file at `path` (default: config.toml).

    Tables are merged, lists of NAMED by name; None deletes a key, `Added` appends to a list. The file is read again under a lock,
    so that two writers keep each other's changes, and replaced atomically, mode 0600. Raises ConfigError, with the file
    unchanged, if the result would not load or `updates` has an unknown setting.
    """
    path = path or config_path()
    updates = _toml_values(updates)
    for warning in unknown_keys(Layer({key: value for key, value in plain(updates).items() if key not in MODE_KEYS})):
        raise ConfigError(f"Not saved: {warning}")
    try:
        with sole_writer(path):
            text = read_settings(path) or ""
            changed = _changed(text, updates, path)
            _check_loads(changed, path)
            write_private(path, changed)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: not saved: {reason}.") from error


def _changed(text: str, updates: Mapping[str, Any], path: Path) -> str:
    import tomlkit  # noqa: PLC0415  (only when something is saved)
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    expected = parse_toml(text, path)
    _update(expected, updates)
    try:
        document = tomlkit.parse(text)
        _update(document, updates)
        changed = tomlkit.dumps(document)
    except (TOMLKitError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: not saved: {error}.") from error
    if parse_toml(changed, path) != expected:
        raise ConfigError(f"{path}: not saved: it cannot be changed automatically.\nEdit it by hand.")
    return changed


def _update(table: MutableMapping[str, Any], updates: Mapping[str, Any], *, within: bool = False) -> None:
    """Apply updates to plain values or a tomlkit document. `within`: inside a table, where lists are not merged by name."""
    for key, value in updates.items():
        below = table.get(key)
        if value is None:
            table.pop(key, None)
        elif key in NAMED and not within and isinstance(below, list):
            _update_entries(key, below, value)
        elif isinstance(value, Mapping) and isinstance(below, MutableMapping):
            _update(below, value, within=True)
        elif isinstance(value, Added) and isinstance(below, list):
            below.extend(item for item in value if item not in below)
        else:
            table[key] = plain(value)


def _update_entries(key: str, entries: list[Any], updates: list[Any]) -> None:
    for update in updates:
        name = entry_name(key, update)
        same = next((entry for entry in entries if entry_name(key, entry) == name), None)
        if same is None:
            entries.append(plain(update))
        else:
            _update(same, update, within=True)


def _check_loads(text: str, path: Path) -> None:
    """Raise ConfigError if the file would not load. A project's file is checked together with the user's."""
    if path.resolve() == config_path().resolve():
        build(KinConfig, [FileLayer(path, text, parse_toml(text, path))])
        return
    project = path.parent.parent.resolve() if path.parent.name == ".kin-code" else None
    layer = FileLayer(path, text, parse_toml(text, path), project)
    trusted = ProjectSnapshot.take(project) if project else None
    build(
        KinConfig,
        [FileLayer.read(config_path()), layer, Layer({"workdir": project} if project else {})],
        trusted=trusted,
    )


def _toml_values(value: Any) -> Any:
    """Convert `value` to TOML types; None (delete) is kept."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        return {str(key): _toml_values(item) for key, item in value.items()}
    if isinstance(value, Added):
        return value
    if isinstance(value, list | tuple):
        return [_toml_values(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, PurePath) else value
