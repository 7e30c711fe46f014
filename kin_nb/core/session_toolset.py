"""SessionToolset: the tools of one session: built in, from tool files, of skills, and of MCP servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kin_nb.core.config import KinConfig
from kin_nb.core.host_facts import A_PROGRAM, HostFacts
from kin_nb.core.skills.manager import SkillManager, expand_skill
from kin_nb.core.system_prompt.builder import joined, prompt_sections
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.base import AnyTool
from kin_nb.core.tools.manager import ToolManager
from kin_nb.core.tools.resolve import APIToolFormatHandler
from kin_nb.core.tools.toolset import Toolset

if TYPE_CHECKING:
    from kin_nb.core.tools.mcp import MCPServers

_SKILL = "skill"


class SessionToolset(Toolset):
    """The tools, skills and MCP servers of one session, read from files. `connect` starts the servers before the first request."""

    def __init__(self, config: KinConfig, host: HostFacts = A_PROGRAM) -> None:
        self._config, self._host = config, host
        self.format_handler = APIToolFormatHandler()
        self._find()
        self._mcp: MCPServers | None = None
        self._left: list[MCPServers] = []
        self._remote: dict[str, type[AnyTool]] = {}

    def system_prompt(self) -> str:
        """Build the system prompt. Raises ConfigError if its file cannot be read."""
        return joined(self.prompt_sections())

    def prompt_sections(self, *, with_state: bool = True) -> list[str]:
        """Return the sections of the system prompt as a new session would have it: see the builder. Raises as `system_prompt`."""
        config = self._config
        offered = _SKILL in self.manager.available_tools()
        return prompt_sections(
            config,
            trusted=config.project_trusted,
            skills=list(self.skills.available.values()) if offered else (),
            memory="memory" in self.manager.available_tools(),
            model=config.get_active_model().name,
            host=self._host,
            environment=self._environment_of_commands(),
            with_state=with_state,
        )

    def _environment_of_commands(self) -> dict[str, str] | None:
        """Return the variables that commands get; None when there is no usable tool for them."""
        from kin_nb.core.tools.builtins.bash import Bash  # noqa: PLC0415  (as tools: on first use)

        try:
            bash = self.manager.get("bash")
        except ToolError:
            return None
        return bash.environment() if isinstance(bash, Bash) else None

    def expand(self, prompt: str) -> str:
        """Replace `/skill:NAME` at the start of a prompt by the skill's text. Raises SkillError for an unknown skill."""
        return expand_skill(prompt, self.skills) or prompt

    def reconfigure(self, config: KinConfig) -> None:
        """Apply other settings. Tools whose settings have not changed keep their state."""
        if config.mcp_servers != self._config.mcp_servers and self._mcp is not None:
            self._left.append(self._mcp)
            self._mcp = None
        before, self._config = self._config, config
        if _places(before) == _places(config):
            self.manager.reconfigure(config)
            self.attach_skills(self.manager)
            return
        known = self.manager
        self._find()
        self.manager.take_state_from(known)
        self.attach_skills(self.manager)
        self._remote = {}  # found again, and registered, before the next turn

    def reset(self) -> None:
        """Reset the state of every tool."""
        self.manager.reset_all()
        self.attach_skills(self.manager)

    async def connect(self) -> list[str]:
        """Connect the servers before a turn. Returns warnings about what cannot be used."""
        warnings = [*self._config.warnings, *self.skills.warnings, *self.manager.warnings]
        return [*warnings, *await self._connect()]

    async def refresh(self) -> list[str]:
        """Update the servers' tools between the steps of a turn. Returns warnings."""
        if self._mcp is None:
            return []
        return [*await self._mcp.refresh(), *self._offer(self._mcp.tool_classes())]

    def server_states(self) -> dict[str, tuple[str, list[str]]]:
        """Return the state and the tools of each enabled MCP server, by name. Starts no server."""
        return self._mcp.states() if self._mcp is not None else {}

    async def aclose(self) -> None:
        """Stop all servers and child processes. The next turn starts them again."""
        left, self._left = self._left, []
        for servers in (*left, *filter(None, [self._mcp])):
            await servers.aclose()

    async def _connect(self) -> list[str]:
        while self._left:
            await self._left.pop().aclose()
        if self._mcp is None:
            if not (self._config.mcp_servers or self._remote):
                return []
            from kin_nb.core.tools.mcp import MCPServers  # noqa: PLC0415  (only sessions with servers need it)

            self._mcp = MCPServers(self._config.mcp_servers, workdir=self._config.effective_workdir)
        return [*await self._mcp.connect(), *self._offer(self._mcp.tool_classes())]

    def _offer(self, found: dict[str, type[AnyTool]]) -> list[str]:
        """Make `found` the servers' tools of this session; returns warnings."""
        if found == self._remote:
            return []
        before, self._remote = self._remote, found
        return self.manager.register(found, replacing=before)

    def _find(self) -> None:
        """Find the skills and tools in the places that the settings name."""
        config = self._config
        self.skills = SkillManager(config, trusted=config.project_trusted)
        self.manager = ToolManager(config, without=self._unavailable(), python=self._host.interpreter)
        self.attach_skills(self.manager)

    def _unavailable(self) -> set[str]:
        """Return the tools that cannot be used in this session."""
        from kin_nb.core.web.search import is_usable  # noqa: PLC0415  (as tools: on first use)

        config = self._config
        useful = {
            _SKILL: bool(self.skills.available),
            "ask_user": self._host.has_user,
            "send_dmail": config.dmail,
            "web_search": is_usable(config.tools.get("web_search")),
        }
        return {name for name, is_useful in useful.items() if not is_useful}

    def attach_skills(self, manager: ToolManager) -> None:
        """Let the tool that loads skills, if `manager` has it, find those of this session."""
        if _SKILL in manager.available_tools():
            manager.get(_SKILL).state.skills = self.skills


def _places(config: KinConfig) -> tuple[object, ...]:
    """Return the values that decide where tools and skills are found, to detect changes of trust, mode or settings."""
    folder = (config.effective_workdir, config.layers.trusted)
    return (*folder, config.dmail, config.tool_paths, config.skill_paths, config.enabled_skills, config.disabled_skills)
