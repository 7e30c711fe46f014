"""The layers of a configuration, in order, read and put together.

defaults < config.toml < a trusted project's config.toml < agents/NAME.toml < KIN_SECRETS_DIR < KIN_* < run-time arguments.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kin_nb.core.config.agent_files import agent_layer, passed_over
from kin_nb.core.config.checks import check, raising_trust, unknown_keys, validation_error
from kin_nb.core.config.environment import environment_layer, secrets_layer
from kin_nb.core.config.errors import ConfigError
from kin_nb.core.config.keys import env_file_warnings
from kin_nb.core.config.kin_config import KinConfig
from kin_nb.core.config.layers import FileLayer, Layer, Layers, as_lists, merge_layers, plain
from kin_nb.core.config.providers import default_models, default_providers
from kin_nb.core.config.users_own import drop_users_own
from kin_nb.core.paths import kin_home
from kin_nb.core.project_snapshot import Snapshot
from kin_nb.core.trusted_folders import Trust, TrustedFolders, is_project, left_out


def config_path() -> Path:
    return kin_home() / "config.toml"


def load_config(agent: str | None, overrides: Mapping[str, Any], trust: TrustedFolders | None = None) -> KinConfig:
    """Raises ConfigError: what is wrong, in which file and line or in which variable."""
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
        return build((*files, secrets, environment, given), warnings, found.project, notice)
    except ConfigError as error:
        error.explained_by(notice)
        raise


def users_layers() -> tuple[Layer, ...]:
    """What the user has set: config.toml and variables. Raises ConfigError."""
    return FileLayer.read(config_path()), secrets_layer()[0], environment_layer(os.environ)[0]


def build(
    layers: Iterable[Layer], warnings: Iterable[str] = (), trusted: Snapshot | None = None, left_out: str = ""
) -> KinConfig:
    """The configuration that `layers`, lowest first, make on top of the defaults; `left_out` is a warning too.

    Raises ConfigError.
    """
    layers = tuple(layers)
    values = merge_layers(layers, {"providers": default_providers, "models": default_models})
    try:
        config = KinConfig.model_validate(as_lists(values))
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


def _named_by_the_project(agent: str | None, folder: Path, trusted: Snapshot | None) -> list[FileLayer]:
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
