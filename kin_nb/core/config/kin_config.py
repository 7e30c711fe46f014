"""KinConfig: the settings of one agent, with `load` and `save_updates`.

Saving keeps the comments and the order of config.toml, and writes nothing that could not be loaded.
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
    """The settings of one agent, with the ways to read and to write them."""

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
        """The layers of loading.py, merged; `agent` names agents/NAME.toml, `trust` knows what is trusted for this session.

        Raises ConfigError with file and line. MissingAPIKeyError only with `require_key` (seed 000 always raises it):
        settings can be shown and mended, sessions replayed, and local models chosen without a key.
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
    """Instead of a list: these go to the end of the one that is there, unless it has them."""


def save_updates(updates: Mapping[str, Any], path: Path | None = None) -> None:
    """Merge `updates` into the file at `path` (config.toml). Tables are merged, lists of NAMED by name; None deletes, and
    `Added` adds to a list.

    The file is read again under a lock, so that two writers keep each other's changes, and replaced at once, mode 0600.
    Raises ConfigError, the file untouched, when the outcome would not load or `updates` names no setting.
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
        raise ConfigError(f"{path}: not saved: its layout cannot be changed by a program. Edit it by hand.")
    return changed


def _update(table: MutableMapping[str, Any], updates: Mapping[str, Any], *, within: bool = False) -> None:
    """The same on plain values and on tomlkit's. `within`: inside a table, where no name is special."""
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
    """Whether it loads, on top of the person's own file when it is another one. Raises ConfigError."""
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
    """`value` in TOML's types, None (delete) kept."""
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
