"""agents/NAME.toml: settings under a name, in `~/.kin-code/agents` and in a trusted project's `.kin-code/agents`."""

from __future__ import annotations

from pathlib import Path

from kin_nb.core.config.errors import ConfigError
from kin_nb.core.config.layers import FileLayer
from kin_nb.core.modes import AgentMode
from kin_nb.core.paths import kin_home, shown

MODE_KEYS = ("display_name", "description", "safety", "mode")
"""What an agent file says about itself as a mode; everything else in it is settings."""


def agent_files(workdir: Path, *, trusted: bool) -> dict[str, Path]:
    """Name -> file. A project's, when it is trusted, never takes the name of a user's: that would lift what it forbids.

    A file named like a built-in mode is left out: the mode keeps its meaning.
    """
    folders = [workdir / ".kin-code" / "agents"] if trusted else []
    found = {_normal(path.stem): path for folder in (*folders, kin_home() / "agents") for path in _toml_files(folder)}
    return {path.stem: path for name, path in sorted(found.items()) if name not in set(AgentMode)}


def read_agent(name: str, workdir: Path, *, trusted: bool) -> FileLayer | None:
    """The whole file of that name, `-` and `_` alike; None when there is none. Raises ConfigError for a bad one."""
    files = agent_files(workdir, trusted=trusted)
    path = next((path for stem, path in files.items() if _normal(stem) == _normal(name)), None)
    if path is None:
        return None
    return FileLayer.read(path, project=None if path.parent == kin_home() / "agents" else workdir)


def passed_over(layer: FileLayer, workdir: Path, *, trusted: bool) -> list[str]:
    """A warning for each file of a trusted project that has the name of the user's agent that was read."""
    if not trusted or layer.project is not None:
        return []
    files = _toml_files(workdir / ".kin-code" / "agents")
    same = (path for path in files if _normal(path.stem) == _normal(layer.path.stem) and path != layer.path)
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


def _normal(name: str) -> str:
    return name.strip().lower().replace("-", "_")
