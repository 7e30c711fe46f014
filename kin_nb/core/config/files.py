"""Reading the configuration's layers: defaults < config.toml < KIN_* < run-time overrides."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kin_nb.core.config.errors import ConfigError
from kin_nb.core.config.kin_config import KinConfig
from kin_nb.core.config.providers import ModelConfig, ProviderConfig
from kin_nb.core.modes import Policy
from kin_nb.core.paths import kin_home

ENVIRONMENT_FIELDS = ("active_model", "policy", "workdir", "api_timeout")
"""Settable as KIN_ACTIVE_MODEL and so on; KIN_HOME, KIN_RECORDING and KIN_REPLAY* are not settings."""


def config_path() -> Path:
    return kin_home() / "config.toml"


def load_config(overrides: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> KinConfig:
    """Raises ConfigError: what is wrong, in which file and line."""
    path = config_path()
    text = _read(path)
    layers = _parse(path, text) if text else {}
    layers |= {f: environ[f"KIN_{f.upper()}"] for f in ENVIRONMENT_FIELDS if environ.get(f"KIN_{f.upper()}")}
    layers |= {key: value for key, value in overrides.items() if value is not None}
    try:
        config = KinConfig.model_validate(_with_builtin_entries(layers))
        _check(config)
    except ValidationError as error:
        raise ConfigError(_describe(path, text, error)) from error
    except ConfigError as error:
        raise ConfigError(f"{_place(path, text, str(error))}{error}") from error
    return config


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}).") from error


def _parse(path: Path, text: str) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415  (only when there is a file)

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        line = found.group(1) if found else str(len(text.splitlines()) or 1)
        what = re.sub(r"\s*\(at .*\)$", "", str(error))
        raise ConfigError(f"{path}:{line}: not valid TOML: {what}.") from error


def _with_builtin_entries(layers: dict[str, Any]) -> dict[str, Any]:
    """A user's [[providers]] and [[models]] come before the built-in ones and replace those of the same name."""
    merged = dict(layers)
    defaults = KinConfig()
    for key, built_in, name in (("providers", defaults.providers, "name"), ("models", defaults.models, "alias")):
        own = layers.get(key)
        if isinstance(own, list) and all(isinstance(entry, dict) for entry in own):
            taken = {entry.get(name) or entry.get("name") for entry in own}
            entries: list[ProviderConfig | ModelConfig] = [e for e in built_in if getattr(e, name) not in taken]
            merged[key] = [*own, *entries]
    return merged


def _check(config: KinConfig) -> None:
    seen: set[str] = set()
    for model in config.models:
        if model.alias in seen:
            raise ConfigError(f'alias = "{model.alias}" names two models; aliases must be unique.')
        seen.add(model.alias)
    if config.policy not in set(Policy):
        raise ConfigError(f'policy = "{config.policy}" is not a policy. Policies: {", ".join(Policy)}.')
    config.get_provider_for_model(config.get_active_model())


def _describe(path: Path, text: str, error: ValidationError) -> str:
    first = error.errors()[0]
    names = [str(part) for part in first["loc"]]
    place = _place(path, text, f"{names[-1]} =") if names else f"{path}: "
    return f"{place}{'.'.join(names)}: {first['msg']}."


def _place(path: Path, text: str, message: str) -> str:
    """`FILE:LINE: ` of the setting that a message begins with; FILE alone without a line for it; "" when it is not from there."""
    if not text:
        return ""
    key = re.match(r"(\w+)\s*=\s*(\"[^\"]*\")?", message)
    if key:
        value = re.escape(key.group(2)) if key.group(2) else ""
        for number, line in enumerate(text.splitlines(), start=1):
            if re.match(rf"\s*{key.group(1)}\s*=\s*{value}", line):
                return f"{path}:{number}: "
        if value:
            return ""  # it came from the environment or the command line
    return f"{path}: "
