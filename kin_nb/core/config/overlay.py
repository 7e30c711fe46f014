"""A mode's settings over a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kin_nb.core.config.kin_config import KinConfig


def overlaid(config: KinConfig, overrides: Mapping[str, Any], warnings: tuple[str, ...] = ()) -> KinConfig:
    """`config` with `overrides` above everything but what was given at run time; itself when there are none.

    `warnings` are added to the configuration's own. Raises ConfigError. A configuration made in Python, not read, has no
    layers: the overrides win over all of it.
    """
    if not overrides and not warnings:
        return config
    from kin_nb.core.config.files import build  # noqa: PLC0415  (files.py makes values of this class)
    from kin_nb.core.config.layers import Layer, deep_merge, plain  # noqa: PLC0415

    known = config.layers
    if not known.layers:  # made in Python, not read: nothing lies beneath it
        return KinConfig.model_validate(deep_merge(config.model_dump(), plain(overrides)))
    *beneath, given = known.layers
    return build((*beneath, Layer(plain(overrides)), given), (*known.warnings, *warnings), known.trusted)
