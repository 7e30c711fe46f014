"""Load a configuration: read its layers in order, merge them, and explain what is missing.

defaults < config.toml < a trusted project's config.toml < agents/NAME.toml < KIN_SECRETS_DIR < KIN_* < run-time arguments.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import ValidationError

from kin_nb.core.config.entries import default_models, default_providers
from kin_nb.core.config.errors import ConfigError, MissingAPIKeyError, did_you_mean
from kin_nb.core.config.keys import env_file_warnings, env_path, read_secret, secret_files_in, secrets_folder
from kin_nb.core.config.layers import FileLayer, Layer, Layers, VariableLayer, as_lists, merge_layers, plain
from kin_nb.core.config.trusted_folders import Trust, TrustedFolders, is_project, left_out
from kin_nb.core.config.user_only_settings import drop_user_only, raising_trust
from kin_nb.core.config.validation import check, unknown_keys, validation_error
from kin_nb.core.config.values import ConfigValues
from kin_nb.core.modes import AgentMode
from kin_nb.core.paths import kin_home, shown
from kin_nb.core.project_snapshot import ProjectSnapshot

PREFIX = "KIN_"
NO_SETTINGS = ("HOME", "RECORDING", "REPLAY", "APPROVAL", "SECRETS", "SCREENSHOTS")
"""KIN_ variables that begin with these mean something else."""

_MIN_SIMILARITY = 0.85


def environment_layer(environ: Mapping[str, str]) -> tuple[VariableLayer, list[str]]:
    """(the layer, warnings). KIN_<FIELD>, in upper or lower case; lists as JSON or separated by commas, tables as JSON.

    Raises ConfigError, naming the variable, for JSON that is none.
    """
    found = {name: value for name, value in environ.items() if name.upper().startswith(PREFIX) and value}
    return _variable_layer({name: (value, name) for name, value in sorted(found.items(), reverse=True)})


def secrets_layer() -> tuple[VariableLayer, list[str]]:
    """Read the same from files named KIN_<FIELD>."""
    folder = secrets_folder()
    if folder is None:
        return VariableLayer({}, {}), []
    if not folder.is_dir():
        return VariableLayer({}, {}), [f"KIN_SECRETS_DIR: {folder} is not a folder."]
    return _variable_layer(dict(_secret_files(folder)))


def _secret_files(folder: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    for path in reversed(secret_files_in(folder)):
        if path.name.upper().startswith(PREFIX) and (value := read_secret(path)):
            yield path.name, (value, str(path))


def _variable_layer(found: Mapping[str, tuple[str, str]]) -> tuple[VariableLayer, list[str]]:
    """Make a layer of variables. `found`: name -> (value, name in errors), upper case last, so that it wins."""
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    warnings: list[str] = []
    for name, (value, where) in found.items():
        key = name[len(PREFIX) :].lower()
        if key in ConfigValues.model_fields:
            values[key] = plain(_read_variable(key, value, where))
            names[key] = where
        elif not key.upper().startswith(NO_SETTINGS):
            warnings += _near_names(key, where)
    return VariableLayer(values, names), warnings


def _near_names(key: str, where: str) -> Iterator[str]:
    """Yield a warning if the name is similar to a setting; other programs have KIN_ variables too."""
    from difflib import get_close_matches  # noqa: PLC0415  (only for a mistake)

    for near in get_close_matches(key, ConfigValues.model_fields, 1, _MIN_SIMILARITY):
        yield f"{where} is not a setting. Did you mean {PREFIX}{near.upper()}?"


def _read_variable(key: str, value: str, where: str) -> Any:
    kind = ConfigValues.model_fields[key].annotation
    is_plain_list = get_origin(kind) is list and get_args(kind)[0] in {str, Path}
    if is_plain_list and not value.lstrip().startswith("["):
        return [item.strip() for item in value.split(",") if item.strip()]
    if not is_plain_list and get_origin(kind) not in {list, dict} and not hasattr(kind, "model_fields"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ConfigError(f"{where}: {key} must be JSON, and this is not valid JSON.") from None


MODE_KEYS = ("display_name", "description", "safety", "mode")
"""Keys that describe a custom mode; all other keys of an agent file are settings."""


def agent_files(workdir: Path, *, trusted: bool) -> dict[str, Path]:
    """Return name -> file. A file of a trusted project never replaces the user's: that could allow what the user forbids.

    A file with the name of a built-in mode is ignored.
    """
    folders = [workdir / ".kin-code" / "agents"] if trusted else []
    found = {
        _normal_name(path.stem): path for folder in (*folders, kin_home() / "agents") for path in _toml_files(folder)
    }
    return {path.stem: path for name, path in sorted(found.items()) if name not in set(AgentMode)}


def read_agent(name: str, workdir: Path, *, trusted: bool) -> FileLayer | None:
    """Read the agent file of that name, `-` and `_` alike; None if it does not exist. Raises ConfigError if it is invalid."""
    files = agent_files(workdir, trusted=trusted)
    path = next((path for stem, path in files.items() if _normal_name(stem) == _normal_name(name)), None)
    if path is None:
        return None
    return FileLayer.read(path, project=None if path.parent == kin_home() / "agents" else workdir)


def shadowed_files(layer: FileLayer, workdir: Path, *, trusted: bool) -> list[str]:
    """Return a warning for each file of a trusted project that is ignored because the user has one of that name."""
    if not trusted or layer.project is not None:
        return []
    files = _toml_files(workdir / ".kin-code" / "agents")
    same = (path for path in files if _normal_name(path.stem) == _normal_name(layer.path.stem) and path != layer.path)
    return [f"{path} is not used: your own {shown(layer.path)} has the same name." for path in same]


def agent_layer(name: str, workdir: Path, *, trusted: bool) -> FileLayer:
    """Return the settings of an agent file. Raises ConfigError: an unknown name (it lists the agents), or an invalid file."""
    layer = read_agent(name, workdir, trusted=trusted)
    if layer is None:
        names = list(agent_files(workdir, trusted=trusted))
        known = ", ".join(names) or f"none yet; each is a file {shown(kin_home())}/agents/NAME.toml"
        raise ConfigError(f'Unknown agent "{name}".{did_you_mean(name, names)}\nAgents: {known}.')
    for key in MODE_KEYS:
        layer.values.pop(key, None)
    return layer


def _toml_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".toml")
    except OSError:
        return []


def _normal_name(name: str) -> str:
    return name.strip().lower().replace("-", "_")


Config = TypeVar("Config", bound=ConfigValues)
"""KinConfig, which imports this module."""


def config_path() -> Path:
    return kin_home() / "config.toml"


def load_config(
    kind: type[Config], agent: str | None, overrides: Mapping[str, Any], trust: TrustedFolders | None = None
) -> Config:
    """Read and merge the layers. Raises ConfigError, which names the file and line, or the variable."""
    given = Layer(plain(overrides))
    environment, warnings = environment_layer(os.environ)
    secrets, secrets_warnings = secrets_layer()
    user = FileLayer.read(config_path())
    folder = _workdir(Layers((user, secrets, environment, given)))
    trust = trust or TrustedFolders()
    found = trust.look(folder) if is_project(folder) else Trust()
    notice = left_out(folder, found) or ""
    try:
        files = [user, *_named_by_the_project(agent, folder, found.project)]
        own = (*(layer for layer in files if layer.project is None), secrets, environment, given)
        for layer in files[1:]:
            warnings += shadowed_files(layer, folder, trusted=found.project is not None)
            warnings += [*_without_workdir(layer), *drop_user_only(layer, own)]
        warnings = [*trust.warnings, *env_file_warnings(), *secrets_warnings, *warnings]
        return build(kind, (*files, secrets, environment, given), warnings, found.project, notice)
    except ConfigError as error:
        error.explained_by(notice)
        raise


def users_layers() -> tuple[Layer, ...]:
    """Return the layers of the user: config.toml and variables. Raises ConfigError."""
    return FileLayer.read(config_path()), secrets_layer()[0], environment_layer(os.environ)[0]


def build(
    kind: type[Config],
    layers: Iterable[Layer],
    warnings: Iterable[str] = (),
    trusted: ProjectSnapshot | None = None,
    left_out: str = "",
) -> Config:
    """Merge `layers`, lowest first, over the defaults, and check the result. `left_out` becomes a warning too.

    Raises ConfigError.
    """
    layers = tuple(layers)
    values = merge_layers(layers, {"providers": default_providers, "models": default_models})
    try:
        config = kind.model_validate(as_lists(values))
    except ValidationError as error:
        # `from None`: pydantic's own text shows values, which may be secret
        raise validation_error(error, values, Layers(layers)) from None
    unknown = (warning for layer in layers for warning in unknown_keys(layer))
    noted = dict.fromkeys(
        filter(None, [*warnings, left_out, *unknown, *raising_trust(layers)])
    )  # the same layers may be merged again
    config.made_of(Layers(layers, tuple(noted), trusted, left_out))
    check(config)
    return config


def _named_by_the_project(agent: str | None, folder: Path, trusted: ProjectSnapshot | None) -> list[FileLayer]:
    """Read the project's layer and that of `agent`. Raises ConfigError if a file has changed since it was trusted."""
    layers = [FileLayer.read(folder / ".kin-code" / "config.toml", project=folder)] if trusted else []
    if agent is not None:
        layers.append(agent_layer(agent, folder, trusted=trusted is not None))
    for layer in layers:
        if trusted and layer.project is not None and not layer.is_accepted(trusted.has):
            raise ConfigError(f"{layer.path} changed while it was read. Try again.")
    return layers


def _workdir(layers: Layers) -> Path:
    """Return the folder whose project settings are read. Raises ConfigError for an invalid path."""
    layer = layers.layer_of(("workdir",))
    named = layer.values["workdir"] if layer is not None else None
    if not isinstance(named, str | Path):
        return Path.cwd().resolve()  # `build` reports a value of another type, with its place
    try:
        folder = Path(named).expanduser().resolve()
        with suppress(FileNotFoundError):
            folder.lstat()
    except (OSError, RuntimeError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{layers.place(('workdir',))}workdir: invalid path: {what}.") from error
    return folder


def _without_workdir(layer: FileLayer) -> list[str]:
    """Remove `workdir` from a project's or an agent's file: the trust of the user is for the current folder."""
    if "workdir" not in layer.values:
        return []
    place = layer.place(("workdir",))
    del layer.values["workdir"]
    return [
        f"{place}workdir cannot be set in this file and is ignored. Use ~/.kin-code/config.toml, KIN_WORKDIR or `--workdir`."
    ]


def explain(error: ConfigError, config: ConfigValues | None = None) -> str:
    """Return the text of the error, the project settings that were not used, and for a missing key what to do."""
    what = [str(error)]
    if config is not None and config.layers.left_out:
        what.append(f"  {config.layers.left_out}")
    if not isinstance(error, MissingAPIKeyError):
        return "\n".join(what)
    return "\n".join(
        [
            *what,
            *(f"  {warning}" for warning in env_file_warnings()),
            f"  With a key: set {error.env_key} or write it into {shown(env_path())}; other providers: {shown(config_path())}",
            "  Without one: start a local server (llama.cpp: port 8080, Ollama: 11434), then `%kin model local` or `ollama`",
            "  To see kin_nb without either: kin-nb demo",
        ]
    )
