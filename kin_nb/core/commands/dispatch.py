"""Commands by name: the registry, parsing what a user typed, running a command, and the help.

The texts of the registry are the help everywhere: `/help`, `%kin?`, docs/reference/commands.md. Importing it is cheap: a command's
module is imported when it is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import cast

from kin_nb.core.commands.host import CommandError, CommandHost, CommandResult, Table, UnknownCommandError

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


_COMMANDS = (
    Command("help", "", "this list", "dispatch"),
    Command("model", "[ALIAS]", "which model answers; change it", "settings"),
    Command("mode", "[MODE]", "default, plan, accept-edits, auto-approve, or one of agents/*.toml", "settings"),
    Command("tools", "", "the tools that the model is offered, and what each may do unasked", "tools"),
    Command("mcp", "", "the MCP servers and their state", "tools"),
    Command("cost", "", "tokens and USD, by turn and by model", "tokens"),
    Command("context", "", "what fills the model's window, and when it is pruned and compacted", "tokens"),
    Command("compact", "", "replace the conversation by a summary of it", "conversation"),
    Command("clear", "", "begin a new conversation", "conversation"),
    Command("undo", "[N]", "take back the last N turns, with the files that they changed", "conversation"),
    Command("redo", "", "give back what the last undo took", "conversation"),
    Command("last", "", "show the last turn again", "conversation"),
    Command("diff", "[N]", "what the last turn, or turn N, changed in files, side by side", "conversation"),
    Command(
        "save", "[PATH] [OPTIONS]", "write the session notebook, or with PATH.json the session's document", "sessions"
    ),
    Command("load", "PATH", "go on after a saved session, .ipynb or .json", "sessions"),
    Command("sessions", "", "the stored sessions, newest first", "sessions"),
    Command("resume", "[ID]", "go on with a stored session: this folder's newest, or the one of that id", "sessions"),
    Command("skill", ":NAME [REQUEST]", "a prompt with a skill's text before it", "tools", asks=True),
    Command("flow", ":NAME [REQUEST]", "run a flow: a turn for each node of its diagram", "tools", asks=True),
    Command("memory", "[list | show NAME | forget NAME]", "what is kept across sessions", "settings"),
    Command("approvals", "[forget N | forget all]", "what was approved for this session; take it back", "tools"),
    Command("trust", "[CODE]", "let this folder bring its own settings, tools and instructions", "settings"),
    Command(
        "replay",
        "SESSION@DIGEST [--scratch] [--from PATH]",
        "play this notebook's recording: no model, no key; --scratch: with its files, in a copy",
        "sessions",
    ),
    Command("live", "", "leave playback: later prompts ask the model", "sessions"),
    Command("status", "", "whether prompts show recorded answers or ask a model, and which", "sessions"),
    Command("exit", "", "how a session ends", "dispatch"),
)
COMMANDS = {command.name: command for command in _COMMANDS}
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


_TYPED = re.compile(r"/(?P<name>[A-Za-z][A-Za-z-]*)(?::(?P<argument>\S*))?(?P<rest>\s.*)?", re.DOTALL)
_LEAST_LIKENESS = 0.7
"""How alike a single word must be to be a slip of the hand: /tmp is not /mcp."""


@dataclass(frozen=True)
class TypedCommand:
    """`words`: what follows the name. Of a command that asks: its NAME (or nothing), then the request, to the letter."""

    command: Command
    words: list[str]


def typed_command(prompt: str) -> TypedCommand | None:
    """The command that the whole of `prompt` is; None for a prompt: `/etc/hosts`, `/ is the root`, `//undo`.

    Raises UnknownCommandError for a single word that is nearly a command.
    """
    found = _TYPED.fullmatch(prompt.strip())
    if found is None:
        return None
    name, argument, rest = found["name"], found["argument"], (found["rest"] or "").strip()
    command = COMMANDS.get(name)
    if command is None:
        near = [] if found["rest"] else get_close_matches(name, COMMANDS, n=2, cutoff=_LEAST_LIKENESS)
        if not near:
            return None
        meant = " or ".join(f"/{other}" for other in near)
        raise UnknownCommandError(
            f"/{name}: no such command. Did you mean {meant}? /help lists them; //{name} sends it as a prompt."
        )
    if command.asks:
        return TypedCommand(command, [argument or "", *filter(None, [rest])])
    return TypedCommand(command, [*filter(None, [argument]), *rest.split()])


def named_command(line: str) -> TypedCommand:
    """What stands after `%kin`; nothing means help. Raises UnknownCommandError, naming the nearest."""
    text = line.strip().removeprefix("/") or "help"
    name = re.split(r"[\s:]", text, maxsplit=1)[0]
    if name in COMMANDS:
        typed = typed_command(f"/{text}")
        if typed is not None:
            return typed
    near = get_close_matches(name, COMMANDS, n=2)
    hint = f" Did you mean {' or '.join(f'%kin {other}' for other in near)}?" if near else ""
    raise UnknownCommandError(f"%kin {name}: no such command.{hint} %kin help lists them.")


def is_command(prompt: str) -> bool:
    """Whether `prompt` only tells the session what to do (or nearly does): no turn comes of it."""
    try:
        typed = typed_command(prompt)
    except UnknownCommandError:
        return True
    return typed is not None and not typed.command.asks


def unescaped(prompt: str) -> str:
    """What the model gets: `//x` is the prompt `/x`."""
    return prompt[1:] if prompt.startswith("//") else prompt


def escaped(prompt: str) -> str:
    """How `prompt` is typed, so that it is no command."""
    return f"/{prompt}" if prompt.startswith("//") or (prompt.startswith("/") and is_command(prompt)) else prompt


def run_command(host: CommandHost, typed: TypedCommand) -> CommandResult:
    """Raises CommandError, in a line or two, and whatever the host raises of its own."""
    from kin_nb.core.config import ConfigError  # noqa: PLC0415  (importing the commands stays cheap)
    from kin_nb.core.config.loading import explain  # noqa: PLC0415
    from kin_nb.core.context.compaction import CompactionError  # noqa: PLC0415
    from kin_nb.core.conversation import TurnRunningError  # noqa: PLC0415
    from kin_nb.core.llm.errors import BackendError  # noqa: PLC0415
    from kin_nb.core.session.errors import SessionError  # noqa: PLC0415
    from kin_nb.core.tool_types import ToolError  # noqa: PLC0415
    from kin_nb.core.undo import UndoError  # noqa: PLC0415

    if typed.words and not typed.command.usage:
        raise CommandError(
            f"/{typed.command.name} takes nothing after its name. For a prompt: //{typed.command.name} ..."
        )
    try:
        return typed.command.run(host, typed.words)
    except ConfigError as error:
        raise CommandError(explain(error)) from None
    except (BackendError, CompactionError, SessionError, ToolError, TurnRunningError, UndoError) as error:
        raise CommandError(str(error)) from None


def help(host: CommandHost, words: list[str]) -> CommandResult:  # noqa: A001  (the command's name)
    del host, words
    return CommandResult(
        "Commands: /NAME as a whole prompt, or %kin NAME",
        Table(("command", "what it does"), tuple(help_rows("/"))),
        (
            "%%kin [--mode MODE] [--model ALIAS], then the prompt below it, asks the agent.",
            "A prompt that begins like a command: //NAME.",
        ),
    )


def exit(host: CommandHost, words: list[str]) -> CommandResult:  # noqa: A001
    del host, words
    return CommandResult(
        "There is nothing to leave",
        lines=(
            "A notebook's session ends with its kernel: Kernel > Shut Down. The stop button ends a turn.",
            "kin-nb run ends with its answer. What was said is stored: %kin resume goes on with it.",
        ),
    )
