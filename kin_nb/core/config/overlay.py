"""A mode's settings over a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kin_nb.core.config.kin_config import KinConfig

if TYPE_CHECKING:
    from kin_nb.core.custom_modes import CustomMode
    from kin_nb.core.modes import AgentMode


def overlaid(config: KinConfig, mode: AgentMode | CustomMode) -> KinConfig:
    """`config` with the mode's settings above everything but what was given at run time; itself when it has none.

    What the mode's file sets in vain is a warning more. Raises ConfigError. A configuration made in Python, not read, has
    no layers: the mode wins over all of it.
    """
    if not mode.config_overrides and not mode.ignored:
        return config
    from kin_nb.core.config.files import build  # noqa: PLC0415  (files.py makes values of this class)
    from kin_nb.core.config.layers import Layer, deep_merge, plain  # noqa: PLC0415
    from kin_nb.core.config.users_own import under_mode  # noqa: PLC0415

    project = config.effective_workdir if mode.of_project else None
    known, above = config.layers, Layer(plain(mode.config_overrides), project)
    if not known.layers:  # made in Python, not read: nothing lies beneath it
        return KinConfig.model_validate(deep_merge(config.model_dump(), above.settings()))
    (*beneath, given), lifted = under_mode(known.layers, above)
    warnings = (*known.warnings, *mode.ignored, *lifted)
    return build((*beneath, above, given), warnings, known.trusted, known.left_out)
