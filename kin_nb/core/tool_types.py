"""Types for tools: what a call accesses, its preview, its decision, and a tool's settings (seeds 000, 002, 003)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum, auto
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class ToolError(Exception):
    """A tool call failed. The text is for the model and the card: what is wrong, then what to do."""


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
    """Names of the variables that hold the session's API keys. They are not passed to the programs that tools start."""
    python: Path | None = Field(default=None, repr=False)
    """The interpreter whose programs commands find first (HostFacts); None: as in the user's shell."""
    allowlist: list[str] = Field(default_factory=list)
    denylist: list[str] = Field(default_factory=list)
    denylist_of_project: list[str] = Field(default_factory=list)
    """The `denylist` of a project, which is added to the user's and never replaces it (core.config.user_only_settings)."""

    @property
    def effective_workdir(self) -> Path:
        """The workspace root, resolved; the current directory when none is set (seed 003)."""
        return (self.workdir or Path.cwd()).expanduser().resolve()


class BaseToolState(BaseModel):
    """The state of a tool in one session."""


@dataclass(frozen=True)
class CommandPart:
    """One simple command of a shell line, without its decorations (`cd sub &&`, `timeout 5`, `CI=1`, `2>&1`, a filter).

    `text`: as it is judged and shown. `words`: as it is written. `prefix`: what a grant may name, such as `git add`; "" when
    only the whole line can be approved. `proven`: it only reads, and needs no grant; `reads`: it reads files. `kind`: tests,
    checks (linters, formatters), folders (mkdir), information (`--version`), else "". `folder`: relative to the workspace,
    where the meaning depends on it (`make test`). `environment`: the project's environment that the program's path names,
    `.venv`; `environments`: (name, state) of each that may run it, from environment_programs.py.
    """

    text: str
    words: tuple[str, ...] = ()
    prefix: str = ""
    proven: bool = False
    reads: bool = False
    kind: str = ""
    folder: str = ""
    environment: str = ""
    environments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Accesses:
    """What a call reads and writes: paths as the model wrote them, or everything (a shell command).

    `removes`: those of `writes` where no file is left: no approval of edits covers them.
    `network`: the call sends a request to a host, and changes nothing on this machine. `site`: the only host that it can
    reach, such as `https://docs.python.org`, with the port if it is not the default. `shared`: the tool says that the call
    only reads; the scheduler may then run it in parallel with other reads, but the safety policies do not rely on it.
    `reason`: why the call may access everything. `in_process`: the call runs code in this process, which could also
    change the permissions. `parts`: of a shell line, its commands; empty when it cannot be divided for certain.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    everything: bool = False
    network: bool = False
    site: str = ""
    shared: bool = False
    reason: str = ""
    in_process: bool = False
    parts: tuple[CommandPart, ...] = ()

    @property
    def only_reads(self) -> bool:
        return not (self.writes or self.everything or self.network)


@dataclass(frozen=True)
class Preview:
    """What the user sees of a call before deciding about it: one line, and the full text.

    `kind` says how `body` is shown: "command" (shell text), "diff" (unified diff) or "arguments" (JSON). `texts`: the
    full text of the diff's file before and after. `claim`: what another party, such as an MCP server, says that the tool
    does. It is shown as a claim, and has no influence on the decision. `note`: a line that the user should see, such as that the
    proposed text does not parse. `error`: why the call would fail now, "" if it would not; the model gets it without a question
    to the user when the call changes only files of the workspace.
    """

    summary: str
    body: str
    kind: str = "arguments"
    texts: tuple[str, str] | None = field(default=None, repr=False)
    claim: str = ""
    note: str = ""
    error: str = field(default="", repr=False)


@dataclass(frozen=True)
class ToolDecision:
    """Whether a call runs, and why (seed 003). The reason is shown and logged; the model gets the reason of a refusal."""

    execute: bool
    reason: str | None = None
