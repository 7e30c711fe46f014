"""Another mode, another model, other settings: from the next request on, while the conversation stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kin_nb.core.config import KinConfig, overlaid
from kin_nb.core.config.custom_modes import CustomMode
from kin_nb.core.modes import AgentMode
from kin_nb.core.workspace import Workspace

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent


def settled(config: KinConfig, mode: AgentMode | CustomMode, workspace: Workspace) -> KinConfig:
    """`config` as the mode has it, in this session's workspace: that stays, wherever the process goes."""
    return overlaid(config, mode).model_copy(update={"workdir": workspace.root})


def switch_mode(agent: Agent, mode: AgentMode | CustomMode, config: KinConfig | None = None) -> None:
    """What `Agent.switch_mode` promises."""
    config = agent.configured if config is None else config
    if mode == agent.mode and config == agent.configured:
        return
    before, agent.mode = agent.mode, mode
    try:
        switch_config(agent, config)
    except BaseException:
        agent.mode = before  # nothing of a mode that cannot be applied is left
        raise


def switch_config(agent: Agent, config: KinConfig) -> None:
    """What `Agent.switch_config` promises."""
    new = settled(config, agent.mode, agent.workspace)
    _ = new.system_prompt
    agent.configured, agent.config = config, new
    agent.toolbox.reconfigure(new)
    agent.setup_middleware()
    agent.usage.set_prices()
    agent.history.set_system_prompt(agent.system_prompt())
