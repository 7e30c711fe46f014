"""The values of tools: what a call touches, what is shown of it, what a tool is configured with (seeds 000, 002, 003)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum, auto
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class ToolError(Exception):
    """A tool could not do what was asked. The text goes to the model and the card: what is wrong, what to do."""


class ToolPermission(StrEnum):
    ALWAYS = auto()
    NEVER = auto()
    ASK = auto()


class BaseToolConfig(BaseModel):
    """Settings of one tool, `[tools.NAME]` in config.toml; tools add their own keys."""

    model_config = ConfigDict(extra="allow")

    permission: ToolPermission = ToolPermission.ASK
    workdir: Path | None = None
    key_names: list[str] = Field(default_factory=list, repr=False)
    """Variables that hold keys, whatever their names: the session's own, not for the programs that tools start."""
    allowlist: list[str] = Field(default_factory=list)
    denylist: list[str] = Field(default_factory=list)
    denylist_of_project: list[str] = Field(default_factory=list)
    """What a project wrote as `denylist`: added to it, whoever else wrote one (core.config.user_only_settings)."""

    @property
    def effective_workdir(self) -> Path:
        """The workspace root, resolved; the current directory when none is set (seed 003)."""
        return (self.workdir or Path.cwd()).expanduser().resolve()


class BaseToolState(BaseModel):
    """What a tool remembers for one session."""


@dataclass(frozen=True)
class Accesses:
    """What a call touches: paths as the model wrote them, or everything (a shell command).

    `network`: it sends a request to some host and changes nothing here; `site` says which, where the tool reaches no other:
    `https://docs.python.org`, with a port that is not the scheme's own. `shared`: it says that it only reads, and may run
    beside other reads; the scheduler believes that, safety does not. `reason`: what it is that may touch everything.
    `in_process`: it is code that runs in this process, where it can also change what is allowed.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    everything: bool = False
    network: bool = False
    site: str = ""
    shared: bool = False
    reason: str = ""
    in_process: bool = False

    @property
    def only_reads(self) -> bool:
        return not (self.writes or self.everything or self.network)


@dataclass(frozen=True)
class Preview:
    """What a person sees before deciding: one line, and the whole of it.

    `kind` says how to draw `body`: "command" (shell text), "diff" (unified diff) or "arguments" (JSON). `texts`: of the
    one file of a diff, all of it before and after. `claim`: what another party, such as an MCP server, says that the
    tool does. It is shown as that, and nothing is decided by it.
    """

    summary: str
    body: str
    kind: str = "arguments"
    texts: tuple[str, str] | None = field(default=None, repr=False)
    claim: str = ""


@dataclass(frozen=True)
class ToolDecision:
    """Whether a call runs, and why (seed 003). The reason is shown, logged and, for a refusal, told to the model."""

    execute: bool
    reason: str | None = None
