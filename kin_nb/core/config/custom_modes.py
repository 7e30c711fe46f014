"""Custom modes: agents/NAME.toml as a built-in mode with settings of its own, and a mode's settings over a configuration.

display_name = "Reviewer"
description = "Reads the change and says what is wrong with it"
mode = "plan"                            # the built-in mode beneath: default, plan, accept-edits, auto-approve
safety = "safe"                          # what it claims to be; never shown safer than it is
enabled_tools = ["grep", "read_file"]    # and any other setting
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from kin_nb.core.config.errors import ConfigError
from kin_nb.core.config.layers import FileLayer, Layer, deep_merge, plain
from kin_nb.core.config.loading import MODE_KEYS, Config, agent_files, build, passed_over, read_agent, users_layers
from kin_nb.core.config.user_only_settings import drop_users_own, under_mode
from kin_nb.core.modes import AgentMode, ModeSafety, Policy
from kin_nb.core.paths import kin_home, shown
from kin_nb.core.project_snapshot import MayUse, anything

_Known = TypeVar("_Known", AgentMode, ModeSafety, Policy)

_RISING = (ModeSafety.SAFE, ModeSafety.NEUTRAL, ModeSafety.DESTRUCTIVE, ModeSafety.YOLO)
_AT_LEAST = {Policy.AUTO_EDIT: ModeSafety.DESTRUCTIVE, Policy.YOLO: ModeSafety.YOLO}


@dataclass(frozen=True)
class CustomMode:
    """Where an AgentMode is used for its policy, safety or words, this may stand. `base` decides about the plan guard.

    `safety` is computed: what the file claims, raised to what `overrides` really let through.
    """

    name: str
    base: AgentMode = AgentMode.DEFAULT
    display_name: str = ""
    description: str = ""
    safety: ModeSafety = ModeSafety.NEUTRAL
    overrides: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    """A warning for each setting of a project's file that only the user may set, or that such a file is not used."""
    of_project: bool = False

    @property
    def value(self) -> str:
        """As it is recorded."""
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
    """A built-in mode, else the agent file of that name: the user's, else the project's when it is `trusted`.

    Raises ValueError that lists the modes when there is none, ConfigError for a file that is no mode, and for a project's
    file that `may_use` refuses.
    """
    try:
        return AgentMode.parse(name)
    except ValueError:
        layer = read_agent(name, workdir, trusted=trusted)
    if layer is None:
        known = [*(mode.shown for mode in AgentMode), *agent_files(workdir, trusted=trusted)]
        raise ValueError(
            f'no mode "{name}". Modes: {", ".join(known)}. One of your own is a file {shown(kin_home())}/agents/NAME.toml.'
        )
    if layer.project is not None and not layer.is_accepted(may_use):
        raise ConfigError(f"{layer.path} has changed since its folder was trusted, and is not used.")
    return _mode(layer, passed_over(layer, workdir, trusted=trusted))


def list_modes(
    workdir: Path, *, trusted: bool, warn: Callable[[str], None] = lambda _: None
) -> list[AgentMode | CustomMode]:
    """The built-in modes, then the others by name. `warn` hears of each file that is no mode."""
    modes: list[AgentMode | CustomMode] = list(AgentMode)
    for name in agent_files(workdir, trusted=trusted):
        try:
            modes.append(load_mode(name, workdir, trusted=trusted))
        except (ConfigError, ValueError) as error:
            warn(str(error))
    return modes


def _mode(layer: FileLayer, ignored: list[str]) -> CustomMode:
    ignored += drop_users_own(layer, users_layers()) if layer.project is not None else []
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
    """Raises ConfigError, with the place and what there is to choose from."""
    value: Any = layer.values.get(key, default.value)
    spelled = value.replace("-", "_") if isinstance(value, str) and kind is not Policy else value
    try:
        return kind(spelled)
    except ValueError:
        known = ", ".join(kind)
        raise ConfigError(f"{layer.place((key,))}{key} = {json.dumps(str(value))} is none of: {known}.") from None


def _allows_tools(settings: Mapping[str, Any]) -> bool:
    """Whether some tool runs unasked because of a rule of its own."""
    tools = settings.get("tools")
    rules = [rule for rule in tools.values() if isinstance(rule, Mapping)] if isinstance(tools, Mapping) else []
    return any(rule.get("permission") == "always" or rule.get("allowlist") for rule in rules)


def overlaid(config: Config, mode: AgentMode | CustomMode) -> Config:
    """`config` with the mode's settings above everything but what was given at run time; itself when it has none.

    What the mode's file sets in vain is a warning more. Raises ConfigError. A configuration made in Python, not read, has
    no layers: the mode wins over all of it.
    """
    if not mode.config_overrides and not mode.ignored:
        return config
    project = config.effective_workdir if mode.of_project else None
    known, above = config.layers, Layer(plain(mode.config_overrides), project)
    if not known.layers:  # made in Python, not read: nothing lies beneath it
        return type(config).model_validate(deep_merge(config.model_dump(), above.settings()))
    (*beneath, given), lifted = under_mode(known.layers, above)
    warnings = (*known.warnings, *mode.ignored, *lifted)
    return build(type(config), (*beneath, above, given), warnings, known.trusted, known.left_out)
