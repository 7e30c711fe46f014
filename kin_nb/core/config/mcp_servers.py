"""`[[mcp_servers]]` as values (seed 003). Connecting to them is core.tools.mcp's business."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, field_validator

from kin_nb.core.config.keys import find_key


def usable_name(name: str) -> str:
    """What providers take in the name of a tool: letters, digits, `_` and `-`; "" when nothing is left."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name).strip("_-")[:64]


class _MCPBase(BaseModel):
    """Times are seconds. `prompt` is a hint for the model, put into each tool's description."""

    name: str
    prompt: str | None = None
    startup_timeout_sec: float = Field(default=10.0, gt=0)
    tool_timeout_sec: float = Field(default=60.0, gt=0)
    disabled: bool = False
    disabled_tools: list[str] = Field(default_factory=list)

    @field_validator("name")
    @classmethod
    def _usable_in_a_tool_name(cls, name: str) -> str:
        if not usable_name(name):
            raise ValueError(f"{name!r} has no letter or digit")
        return usable_name(name)


class MCPHttp(_MCPBase):
    """A server over HTTP. `api_key_format` holds `{token}`, which becomes the key of variable `api_key_env`."""

    transport: Literal["http"] = "http"
    url: str
    headers: dict[str, str] = Field(default_factory=dict)
    api_key_env: str = ""
    api_key_header: str = "Authorization"
    api_key_format: str = "Bearer {token}"

    def http_headers(self) -> dict[str, str]:
        key = find_key(self.api_key_env)
        named = {name.lower() for name in self.headers}
        if key and self.api_key_header.lower() not in named:
            return {**self.headers, self.api_key_header: self.api_key_format.replace("{token}", key)}
        return dict(self.headers)


class MCPStreamableHttp(MCPHttp):
    """The same client as `http`; both names mean MCP's streamable HTTP."""

    transport: Literal["streamable-http"] = "streamable-http"  # type: ignore[assignment]


class MCPStdio(_MCPBase):
    """A program that is started and spoken to over its pipes. `command`: a shell-like line, or a list of words.

    It gets few of this process's variables (core.safety.secrets.server_environment), those that `env_vars` names, and
    those that `env` sets.
    """

    transport: Literal["stdio"] = "stdio"
    command: str | list[str]
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    env_vars: list[str] = Field(default_factory=list)
    cwd: Path | None = None

    def argv(self) -> list[str]:
        """Raises ValueError for a command that is empty or whose quotes do not match."""
        words = shlex.split(self.command) if isinstance(self.command, str) else list(self.command)
        if not words:
            raise ValueError("the command is empty")
        return [*words, *self.args]


MCPServer = Annotated[MCPHttp | MCPStreamableHttp | MCPStdio, Field(discriminator="transport")]


def parse_server(raw: Any) -> Any:
    """An entry without `transport` is what its keys say: a command means stdio, a url means streamable HTTP."""
    if isinstance(raw, dict) and "transport" not in raw:
        return {**raw, "transport": "stdio" if "command" in raw else "streamable-http"}
    return raw
