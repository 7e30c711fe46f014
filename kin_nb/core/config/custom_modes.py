"""Custom modes: agents/NAME.toml is a built-in mode with its own settings; and applying a mode to a configuration.

display_name = "Reviewer"
description = "Reads the change and says what is wrong with it"
mode = "plan"                            # the built-in mode: default, plan, accept-edits, auto-approve
safety = "safe"                          # shown to the user; raised if the settings allow more
enabled_tools = ["grep", "read_file"]    # and any other setting
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from kin_nb.core.config.errors import ConfigError, did_you_mean
from kin_nb.core.config.layers import FileLayer, Layer, deep_merge, plain
from kin_nb.core.config.loading import MODE_KEYS, Config, agent_files, build, read_agent, shadowed_files, users_layers
from kin_nb.core.config.user_only_settings import drop_user_only, under_mode
from kin_nb.core.modes import AgentMode, ModeSafety, Policy
from kin_nb.core.paths import kin_home, shown
from kin_nb.core.project_snapshot import MayUse, anything

_Known = TypeVar("_Known", AgentMode, ModeSafety, Policy)

_RISING = (ModeSafety.SAFE, ModeSafety.NEUTRAL, ModeSafety.DESTRUCTIVE, ModeSafety.YOLO)
_MODE_OF_POLICY = {
    "yolo": " That is a policy; its mode is auto-approve.",
    "auto-edit": " That is a policy; its mode is accept-edits.",
    "on-request": " That is a policy; its mode is default.",
    "strict": ' That is a policy: set `policy = "strict"` in config.toml.',
}
"""What to tell a user who gave the name of a policy as a mode."""
_AT_LEAST = {Policy.AUTO_EDIT: ModeSafety.DESTRUCTIVE, Policy.YOLO: ModeSafety.YOLO}


@dataclass(frozen=True)
class CustomMode:
    """A mode of the user or a project; it can be used like an AgentMode. `base` decides whether plan mode is on.

    `safety` is computed: the value in the file, raised to what `overrides` really allow.
    """

    name: str
    base: AgentMode = AgentMode.DEFAULT
    display_name: str = ""
    description: str = ""
    safety: ModeSafety = ModeSafety.NEUTRAL
    overrides: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    """A warning for each setting in a project's file that only the user may set, or for a file that is not used."""
    of_project: bool = False

    @property
    def value(self) -> str:
        """The name in records."""
        return self.name

    @property
    def shown(self) -> str:
        return self.name

    @property
    def config_overrides(self) -> dict[str, Any]:
        return {**self.base.config_overrides, **self.overrides}

    @property
    def auto_approve(self) -> bool:
        return self.policy(Policy.ON_REQUEST) is Policy.YOLO

    def policy(self, configured: Policy) -> Policy:
        return Policy(self.config_overrides.get("policy", configured))


def load_mode(name: str, workdir: Path, *, trusted: bool, may_use: MayUse = anything) -> AgentMode | CustomMode:
    """Return a built-in mode, else the mode of agents/NAME.toml: the user's, else the project's if it is `trusted`.

    Raises ValueError, which lists the modes, for an unknown name; ConfigError for an invalid file, and for a project's file that
    `may_use` refuses.
    """
    try:
        return AgentMode.parse(name)
    except ValueError:
        layer = read_agent(name, workdir, trusted=trusted)
    if layer is None:
        known = [*(mode.shown for mode in AgentMode), *agent_files(workdir, trusted=trusted)]
        hint = _MODE_OF_POLICY.get(name.strip().lower().replace("_", "-")) or did_you_mean(name, known)
        raise ValueError(
            f'Unknown mode "{name}".{hint}\nModes: {", ".join(known)}. Your own: {shown(kin_home())}/agents/NAME.toml.'
        )
    if layer.project is not None and not layer.is_accepted(may_use):
        raise ConfigError(
            f"{layer.path} has changed since its folder was trusted, so it is not used.\nTo see the change: kin-nb trust --show"
        )
    return _mode(layer, shadowed_files(layer, workdir, trusted=trusted))


def list_modes(
    workdir: Path, *, trusted: bool, warn: Callable[[str], None] = lambda _: None
) -> list[AgentMode | CustomMode]:
    """Return the built-in modes, then the others by name. `warn` is called for each invalid file."""
    modes: list[AgentMode | CustomMode] = list(AgentMode)
    for name in agent_files(workdir, trusted=trusted):
        try:
            modes.append(load_mode(name, workdir, trusted=trusted))
        except (ConfigError, ValueError) as error:
            warn(str(error))
    return modes


def _mode(layer: FileLayer, ignored: list[str]) -> CustomMode:
    ignored += drop_user_only(layer, users_layers()) if layer.project is not None else []
    settings = layer.settings()
    base = _choice(layer, "mode", AgentMode, AgentMode.DEFAULT)
    policy = _choice(layer, "policy", Policy, base.policy(Policy.ON_REQUEST))
    claimed = _choice(layer, "safety", ModeSafety, ModeSafety.SAFE if base is AgentMode.PLAN else ModeSafety.NEUTRAL)
    least = _AT_LEAST.get(policy, ModeSafety.NEUTRAL if _allows_tools(settings) else ModeSafety.SAFE)
    words = {key: settings.get(key, "") for key in ("display_name", "description")}
    for key, text in words.items():
        if not isinstance(text, str):
            raise ConfigError(f"{layer.place((key,))}{key} must be text.")
    return CustomMode(
        name=layer.path.stem,
        base=base,
        display_name=words["display_name"] or layer.path.stem.replace("_", " ").replace("-", " ").capitalize(),
        description=words["description"],
        safety=max(claimed, least, key=_RISING.index),
        overrides={key: value for key, value in settings.items() if key not in {*MODE_KEYS, "workdir"}},
        ignored=tuple(ignored),
        of_project=layer.project is not None,
    )


def _choice(layer: FileLayer, key: str, kind: type[_Known], default: _Known) -> _Known:
    """Read a setting with a fixed set of values. Raises ConfigError with the place and these values."""
    value: Any = layer.values.get(key, default.value)
    spelled = value.replace("-", "_") if isinstance(value, str) and kind is not Policy else value
    try:
        return kind(spelled)
    except ValueError:
        known = ", ".join(kind)
        raise ConfigError(f"{layer.place((key,))}{key} = {json.dumps(str(value))} must be one of: {known}.") from None


def _allows_tools(settings: Mapping[str, Any]) -> bool:
    """Whether a rule of the settings lets a tool run without asking."""
    tools = settings.get("tools")
    rules = [rule for rule in tools.values() if isinstance(rule, Mapping)] if isinstance(tools, Mapping) else []
    return any(rule.get("permission") == "always" or rule.get("allowlist") for rule in rules)


def overlaid(config: Config, mode: AgentMode | CustomMode) -> Config:
    """Return `config` with the settings of the mode, which only arguments given at run time override.

    Ignored settings of the mode's file become warnings. Raises ConfigError. A configuration made in Python has no layers: there
    the mode overrides everything.
    """
    if not mode.config_overrides and not mode.ignored:
        return config
    project = config.effective_workdir if mode.of_project else None
    known, above = config.layers, Layer(plain(mode.config_overrides), project)
    if not known.layers:  # made in Python
        return type(config).model_validate(deep_merge(config.model_dump(), above.settings()))
    (*beneath, given), lifted = under_mode(known.layers, above)
    warnings = (*known.warnings, *mode.ignored, *lifted)
    return build(type(config), (*beneath, above, given), warnings, known.trusted, known.left_out)
