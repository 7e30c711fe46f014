"""The same workspace, configuration and agents as the core's tests."""

from tests.unit.core.conftest import _own_home, agent, config, trusted, workspace

__all__ = ["_own_home", "agent", "config", "trusted", "workspace"]
