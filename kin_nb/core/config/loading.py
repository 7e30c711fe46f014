"""Load a configuration: read the layers in their order, put them together, and explain what is missing.

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
from kin_nb.core.config.errors import ConfigError, MissingAPIKeyError
from kin_nb.core.config.keys import env_file_warnings, env_path, read_secret, secret_files_in, secrets_folder
from kin_nb.core.config.layers import FileLayer, Layer, Layers, VariableLayer, as_lists, merge_layers, plain
from kin_nb.core.config.trusted_folders import Trust, TrustedFolders, is_project, left_out
from kin_nb.core.config.user_only_settings import drop_users_own, raising_trust
from kin_nb.core.config.validation import check, unknown_keys, validation_error
from kin_nb.core.config.values import ConfigValues
from kin_nb.core.modes import AgentMode
from kin_nb.core.paths import kin_home, shown
from kin_nb.core.project_snapshot import ProjectSnapshot

PREFIX = "KIN_"
NO_SETTINGS = ("HOME", "RECORDING", "REPLAY", "APPROVAL", "SECRETS", "SCREENSHOTS")
"""KIN_ variables that begin with these mean something else."""

_LEAST_LIKENESS = 0.85


def environment_layer(environ: Mapping[str, str]) -> tuple[VariableLayer, list[str]]:
    """(the layer, warnings). KIN_<FIELD>, in upper or lower case; lists as JSON or separated by commas, tables as JSON.

    Raises ConfigError, naming the variable, for JSON that is none.
    """
    found = {name: value for name, value in environ.items() if name.upper().startswith(PREFIX) and value}
    return _variable_layer({name: (value, name) for name, value in sorted(found.items(), reverse=True)})


def secrets_layer() -> tuple[VariableLayer, list[str]]:
    """The same from files named KIN_<FIELD>."""
    folder = secrets_folder()
    if folder is None:
        return VariableLayer({}, {}), []
    if not folder.is_dir():
        return VariableLayer({}, {}), [f"KIN_SECRETS_DIR: {folder} is no folder."]
    return _variable_layer(dict(_secret_files(folder)))


def _secret_files(folder: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    for path in reversed(secret_files_in(folder)):
        if path.name.upper().startswith(PREFIX) and (value := read_secret(path)):
            yield path.name, (value, str(path))


def _variable_layer(found: Mapping[str, tuple[str, str]]) -> tuple[VariableLayer, list[str]]:
    """`found`: name -> (value, what errors call it), upper case last: it wins."""
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
    """A warning when this looks like a setting: other programs have KIN_ variables too."""
    from difflib import get_close_matches  # noqa: PLC0415  (only for a mistake)

    for near in get_close_matches(key, ConfigValues.model_fields, 1, _LEAST_LIKENESS):
        yield f"{where}: is no setting; did you mean {PREFIX}{near.upper()}?"


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
"""What an agent file says about itself as a mode; everything else in it is settings."""


def agent_files(workdir: Path, *, trusted: bool) -> dict[str, Path]:
    """Name -> file. A project's, when it is trusted, never takes the name of a user's: that would lift what it forbids.

    A file named like a built-in mode is left out: the mode keeps its meaning.
    """
    folders = [workdir / ".kin-code" / "agents"] if trusted else []
    found = {
        _normal_name(path.stem): path for folder in (*folders, kin_home() / "agents") for path in _toml_files(folder)
    }
    return {path.stem: path for name, path in sorted(found.items()) if name not in set(AgentMode)}


def read_agent(name: str, workdir: Path, *, trusted: bool) -> FileLayer | None:
    """The whole file of that name, `-` and `_` alike; None when there is none. Raises ConfigError for a bad one."""
    files = agent_files(workdir, trusted=trusted)
    path = next((path for stem, path in files.items() if _normal_name(stem) == _normal_name(name)), None)
    if path is None:
        return None
    return FileLayer.read(path, project=None if path.parent == kin_home() / "agents" else workdir)


def passed_over(layer: FileLayer, workdir: Path, *, trusted: bool) -> list[str]:
    """A warning for each file of a trusted project that has the name of the user's agent that was read."""
    if not trusted or layer.project is not None:
        return []
    files = _toml_files(workdir / ".kin-code" / "agents")
    same = (path for path in files if _normal_name(path.stem) == _normal_name(layer.path.stem) and path != layer.path)
    return [f"{path} is not used: {shown(layer.path)} is yours and has that name." for path in same]


def agent_layer(name: str, workdir: Path, *, trusted: bool) -> FileLayer:
    """Its settings. Raises ConfigError: listing the agents when there is none of that name; what is wrong with its file."""
    layer = read_agent(name, workdir, trusted=trusted)
    if layer is None:
        known = ", ".join(agent_files(workdir, trusted=trusted))
        known = known or f"none yet; each is a file {shown(kin_home())}/agents/NAME.toml"
        raise ConfigError(f'no agent "{name}". Agents: {known}.')
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
"""The public class, KinConfig: it imports this module."""


def config_path() -> Path:
    return kin_home() / "config.toml"


def load_config(
    kind: type[Config], agent: str | None, overrides: Mapping[str, Any], trust: TrustedFolders | None = None
) -> Config:
    """Make a `kind` of the layers. Raises ConfigError: what is wrong, in which file and line or in which variable."""
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
            warnings += passed_over(layer, folder, trusted=found.project is not None)
            warnings += [*_without_workdir(layer), *drop_users_own(layer, own)]
        warnings = [*trust.warnings, *env_file_warnings(), *secrets_warnings, *warnings]
        return build(kind, (*files, secrets, environment, given), warnings, found.project, notice)
    except ConfigError as error:
        error.explained_by(notice)
        raise


def users_layers() -> tuple[Layer, ...]:
    """What the user has set: config.toml and variables. Raises ConfigError."""
    return FileLayer.read(config_path()), secrets_layer()[0], environment_layer(os.environ)[0]


def build(
    kind: type[Config],
    layers: Iterable[Layer],
    warnings: Iterable[str] = (),
    trusted: ProjectSnapshot | None = None,
    left_out: str = "",
) -> Config:
    """The configuration that `layers`, lowest first, make on top of the defaults; `left_out` is a warning too.

    Raises ConfigError.
    """
    layers = tuple(layers)
    values = merge_layers(layers, {"providers": default_providers, "models": default_models})
    try:
        config = kind.model_validate(as_lists(values))
    except ValidationError as error:
        # without the cause: pydantic's own text shows values, which may be secret
        raise validation_error(error, values, Layers(layers)) from None
    unknown = (warning for layer in layers for warning in unknown_keys(layer))
    noted = dict.fromkeys(
        filter(None, [*warnings, left_out, *unknown, *raising_trust(layers)])
    )  # layers may be built upon again
    config.made_of(Layers(layers, tuple(noted), trusted, left_out))
    check(config)
    return config


def _named_by_the_project(agent: str | None, folder: Path, trusted: ProjectSnapshot | None) -> list[FileLayer]:
    """The layers that lie in a project or are chosen by name. Raises ConfigError when they are not what is trusted."""
    layers = [FileLayer.read(folder / ".kin-code" / "config.toml", project=folder)] if trusted else []
    if agent is not None:
        layers.append(agent_layer(agent, folder, trusted=trusted is not None))
    for layer in layers:
        if trusted and layer.project is not None and not layer.is_accepted(trusted.has):
            raise ConfigError(f"{layer.path} changed while it was read. Try again.")
    return layers


def _workdir(layers: Layers) -> Path:
    """The folder whose project layer is read, from what can name it. Raises ConfigError when no folder can have that name."""
    layer = layers.layer_of(("workdir",))
    named = layer.values["workdir"] if layer is not None else None
    if not isinstance(named, str | Path):
        return Path.cwd().resolve()  # something else is an error soon, with its place
    try:
        folder = Path(named).expanduser().resolve()
        with suppress(FileNotFoundError):
            folder.lstat()
    except (OSError, RuntimeError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{layers.place(('workdir',))}workdir: no usable path: {what}.") from error
    return folder


def _without_workdir(layer: FileLayer) -> list[str]:
    """A project's or an agent's file cannot choose the project: whether it is trusted was asked for this one."""
    if "workdir" not in layer.values:
        return []
    place = layer.place(("workdir",))
    del layer.values["workdir"]
    return [f"{place}workdir cannot be set here, and is ignored; use config.toml, KIN_WORKDIR or `--workdir`."]


def explain(error: ConfigError, config: ConfigValues | None = None) -> str:
    """The error, what of a project `config` lacks, then the ways on. A missing key gets all: a key, a local server, the demo."""
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
