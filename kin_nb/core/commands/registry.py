"""Which commands there are. Their texts are the help everywhere: `/help`, `%kin?`, docs/commands.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from kin_nb.core.commands.values import CommandHost, CommandResult

Run = Callable[[CommandHost, list[str]], CommandResult]


@dataclass(frozen=True)
class Command:
    """`usage`: what follows the name. `module`: where in this package the function of this name is.

    `asks`: it runs turns, and a cell that holds it is recorded and played as a prompt is.
    """

    name: str
    usage: str
    summary: str
    module: str
    asks: bool = False

    @property
    def shown(self) -> str:
        """The name with what follows it: `undo [N]`, `skill:NAME [REQUEST]`."""
        return f"{self.name}{self.usage if self.usage[:1] in {'', ':'} else f' {self.usage}'}"

    @property
    def run(self) -> Run:
        return cast("Run", getattr(import_module(f"kin_nb.core.commands.{self.module}"), self.name))


_ALL = (
    Command("help", "", "this list", "help"),
    Command("model", "[ALIAS]", "which model answers; change it", "settings"),
    Command("mode", "[MODE]", "default, plan, accept-edits, auto-approve, or one of agents/*.toml", "settings"),
    Command("tools", "", "the tools that the model is offered, and what each may do unasked", "tools"),
    Command("mcp", "", "the MCP servers and their state", "tools"),
    Command("cost", "", "tokens and USD, by turn and by model", "cost"),
    Command("context", "", "what fills the model's window, and when it is pruned and compacted", "context"),
    Command("compact", "", "replace the conversation by a summary of it", "conversation"),
    Command("clear", "", "begin a new conversation", "conversation"),
    Command("undo", "[N]", "take back the last N turns, with the files that they changed", "conversation"),
    Command("redo", "", "give back what the last undo took", "conversation"),
    Command("last", "", "show the last turn again", "conversation"),
    Command("diff", "[N]", "what the last turn, or turn N, changed in files, side by side", "conversation"),
    Command(
        "save", "[PATH] [OPTIONS]", "write the session notebook, or with PATH.json the session's document", "storage"
    ),
    Command("load", "PATH", "go on after a saved session, .ipynb or .json", "storage"),
    Command("sessions", "", "the stored sessions, newest first", "storage"),
    Command("resume", "[ID]", "go on with a stored session: this folder's newest, or the one of that id", "storage"),
    Command("skill", ":NAME [REQUEST]", "a prompt with a skill's text before it", "asking", asks=True),
    Command("flow", ":NAME [REQUEST]", "run a flow: a turn for each node of its diagram", "asking", asks=True),
    Command("memory", "[list | show NAME | forget NAME]", "what is kept across sessions", "memory"),
    Command("approvals", "[forget N | forget all]", "what was approved for this session; take it back", "approvals"),
    Command("trust", "[CODE]", "let this folder bring its own settings, tools and instructions", "settings"),
    Command(
        "replay",
        "SESSION@DIGEST [--scratch] [--from PATH]",
        "play this notebook's recording: no model, no key; --scratch: with its files, in a copy",
        "playing",
    ),
    Command("live", "", "leave playback: later prompts ask the model", "playing"),
    Command("status", "", "whether prompts show recorded answers or ask a model, and which", "playing"),
    Command("exit", "", "how a session ends", "help"),
)
COMMANDS = {command.name: command for command in _ALL}
"""By name, in the order of the help."""


def command_names(skills: Mapping[str, str], flows: Mapping[str, str]) -> dict[str, str]:
    """What CommandCompleter completes: names, those of `skills` and `flows` spelled out, and what each does."""
    plain = {name: command.summary for name, command in COMMANDS.items() if not command.asks}
    named = {"skill": skills, "flow": flows}
    return plain | {f"{kind}:{name}": what for kind, found in named.items() for name, what in found.items()}


def help_rows(prefix: str) -> list[tuple[str, str]]:
    """(as it is typed after `prefix`, what it does)."""
    return [(f"{prefix}{command.shown}", command.summary) for command in COMMANDS.values()]


def magic_help() -> str:
    """The docstring of the line magic."""
    rows = help_rows("%kin ")
    width = max(len(typed) for typed, _ in rows)
    lines = [f"{typed:<{width}}  {summary}" for typed, summary in rows]
    return "\n".join(["A command to the session.", "", *lines])
