"""The tools and skills of a session that may not have begun yet."""

from __future__ import annotations

from kin_nb.core.commands.values import CommandHost
from kin_nb.core.config import overlaid
from kin_nb.core.toolbox import Toolbox


def toolbox_of(host: CommandHost) -> Toolbox:
    """The agent's; before the first prompt the one that it would have. Starts nothing. Raises ConfigError."""
    if host.agent is not None:
        return host.agent.toolbox
    return Toolbox(overlaid(host.config(), host.mode))
