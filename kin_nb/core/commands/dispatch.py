"""Commands by name: the registry, parsing what a user typed, running a command, and the help.

The texts of the registry are the help everywhere: `/help`, `%kin?`, docs/reference/commands.md. Importing it is cheap: a command's
module is imported when it is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from typing import cast

from kin_nb.core.commands.host import (
    CommandError,
    CommandHost,
    CommandResult,
    Table,
    UnknownCommandError,
    UsageError,
)

Run = Callable[[CommandHost, list[str]], CommandResult]


@dataclass(frozen=True)
class Command:
    """A slash command.

    `usage`: what follows the name. `module`: the module of this package that has the function of this name. `asks`: it runs
    turns, so a cell that holds it is recorded and played like a prompt. `group`: its heading in the help.
    """

    name: str
    usage: str
    summary: str
    module: str
    group: str
    asks: bool = False

    @property
    def shown(self) -> str:
        """The name and what follows it: `undo [N]`, `skill:NAME [REQUEST]`."""
        return f"{self.name}{self.usage if self.usage[:1] in {'', ':'} else f' {self.usage}'}"

    @property
    def run(self) -> Run:
        return cast("Run", getattr(import_module(f"kin_nb.core.commands.{self.module}"), self.name))


_ASK, _LOOK, _CHANGE, _KEEP = "Ask", "Look", "Change course", "Keep"
_SET, _NOTEBOOKS, _HELP = "Set", "Session notebooks", "Help"
_COMMANDS = (
    Command("skill", ":NAME [REQUEST]", "ask with the text of a skill before your request", "tools", _ASK, asks=True),
    Command("flow", ":NAME [REQUEST]", "run a flow: one turn for each node of its diagram", "tools", _ASK, asks=True),
    Command("cost", "", "tokens and USD, by turn and by model", "tokens", _LOOK),
    Command("context", "", "what fills the context window, and when it is shortened or summarized", "tokens", _LOOK),
    Command("tools", "", "the tools that the model can use, and which run without asking", "tools", _LOOK),
    Command("mcp", "", "the MCP servers and their state", "tools", _LOOK),
    Command("last", "", "show the last turn again", "conversation", _LOOK),
    Command("diff", "[N]", "what the last turn, or turn N, changed in files, side by side", "conversation", _LOOK),
    Command("status", "", "whether prompts show recorded answers or ask a model, and which model", "sessions", _LOOK),
    Command("undo", "[N]", "undo the last N turns, with the files that they changed", "conversation", _CHANGE),
    Command("redo", "", "restore what the last undo removed", "conversation", _CHANGE),
    Command("clear", "", "start a new conversation (/new does the same)", "conversation", _CHANGE),
    Command("compact", "", "replace the conversation by a summary", "conversation", _CHANGE),
    Command(
        "save", "[PATH] [OPTIONS]", "write the session notebook, or a JSON document with PATH.json", "sessions", _KEEP
    ),
    Command("load", "PATH", "continue a saved session, .ipynb or .json", "sessions", _KEEP),
    Command(
        "resume", "[ID]", "continue a stored session: the newest of this folder, or the one with ID", "sessions", _KEEP
    ),
    Command("sessions", "", "the stored sessions, newest first", "sessions", _KEEP),
    Command("memory", "[list | show NAME | forget NAME]", "what is remembered across sessions", "settings", _KEEP),
    Command("model", "[ALIAS]", "show or change the model", "settings", _SET),
    Command(
        "mode",
        "[MODE]",
        "show or change the mode: default, plan, accept-edits, auto-approve, or your own",
        "settings",
        _SET,
    ),
    Command("trust", "[CODE]", "let this folder bring its own settings, tools and instructions", "settings", _SET),
    Command("approvals", "[forget N | forget all]", "what you approved for this session; revoke it", "tools", _SET),
    Command(
        "replay",
        "SESSION@DIGEST [--scratch] [--from PATH]",
        "play the recording of this notebook: no model, no key; --scratch: with its files, in a copy",
        "sessions",
        _NOTEBOOKS,
    ),
    Command("live", "", "leave playback: later prompts ask the model", "sessions", _NOTEBOOKS),
    Command("help", "", "this list", "dispatch", _HELP),
    Command("exit", "", "explain how to end the session (nothing is closed)", "dispatch", _HELP),
)
COMMANDS = {command.name: command for command in _COMMANDS}
"""By name, in the order of the help."""
ALIASES = {"new": "clear"}
"""Other names of commands."""


def command_names(skills: Mapping[str, str], flows: Mapping[str, str]) -> dict[str, str]:
    """Return what CommandCompleter completes: each command, skill and flow by name, with its description."""
    plain = {name: command.summary for name, command in COMMANDS.items() if not command.asks}
    named = {"skill": skills, "flow": flows}
    return plain | {f"{kind}:{name}": what for kind, found in named.items() for name, what in found.items()}


def help_rows(prefix: str) -> list[tuple[str, str]]:
    """Return (the command as it is typed, what it does) of each command."""
    return [(f"{prefix}{command.shown}", command.summary) for command in COMMANDS.values()]


def grouped_help(prefix: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return (heading, rows of `help_rows`) of each group."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for command, row in zip(COMMANDS.values(), help_rows(prefix), strict=True):
        groups.setdefault(command.group, []).append(row)
    return list(groups.items())


def magic_help() -> str:
    """The docstring of the line magic."""
    width = max(len(typed) for typed, _ in help_rows("%kin "))
    lines = []
    for heading, rows in grouped_help("%kin "):
        lines += ["", f"{heading}:", *(f"  {typed:<{width}}  {summary}" for typed, summary in rows)]
    return "\n".join(["Run a command of the session.", *lines])


_TYPED = re.compile(r"/(?P<name>[A-Za-z][A-Za-z-]*)(?::(?P<argument>\S*))?(?P<rest>\s.*)?", re.DOTALL)
_MIN_SIMILARITY = 0.7
"""Similarity from which a single word counts as a mistyped command: /tmp is not /mcp."""


@dataclass(frozen=True)
class TypedCommand:
    """A command as the user typed it.

    `words`: what follows the name. For a command that asks: its NAME (or ""), then the request, verbatim. `prefix`: the form
    that the user typed, `/` or `%kin `.
    """

    command: Command
    words: list[str]
    prefix: str = "/"


def typed_command(prompt: str) -> TypedCommand | None:
    """Parse a prompt that is a command as a whole; None for a prompt: `/etc/hosts`, `/ is the root`, `//undo`.

    Raises UnknownCommandError for a single word that looks like a mistyped command.
    """
    found = _TYPED.fullmatch(prompt.strip())
    if found is None:
        return None
    name, argument, rest = found["name"], found["argument"], (found["rest"] or "").strip()
    command = COMMANDS.get(ALIASES.get(name, name))
    if command is None:
        near = [] if found["rest"] else get_close_matches(name, [*COMMANDS, *ALIASES], n=2, cutoff=_MIN_SIMILARITY)
        if not near:
            return None
        meant = " or ".join(f"/{other}" for other in near)
        raise UnknownCommandError(
            f"Unknown command /{name}. Did you mean {meant}?\n/help lists all commands; //{name} sends it as a prompt."
        )
    if command.asks:
        return TypedCommand(command, [argument or "", *filter(None, [rest])])
    return TypedCommand(command, [*filter(None, [argument]), *rest.split()])


def named_command(line: str) -> TypedCommand:
    """Parse what follows `%kin`; nothing means help. Raises UnknownCommandError, which suggests similar names."""
    text = line.strip().removeprefix("/") or "help"
    name = re.split(r"[\s:]", text, maxsplit=1)[0]
    if ALIASES.get(name, name) in COMMANDS:
        typed = typed_command(f"/{text}")
        if typed is not None:
            return replace(typed, prefix="%kin ")
    near = get_close_matches(name, [*COMMANDS, *ALIASES], n=2)
    hint = f" Did you mean {' or '.join(f'%kin {other}' for other in near)}?" if near else ""
    raise UnknownCommandError(f"Unknown command %kin {name}.{hint}\n%kin help lists all commands.")


def is_command(prompt: str) -> bool:
    """Whether `prompt` is a command that runs no turn, or looks like a mistyped one."""
    try:
        typed = typed_command(prompt)
    except UnknownCommandError:
        return True
    return typed is not None and not typed.command.asks


def unescaped(prompt: str) -> str:
    """Return what the model gets: `//x` is the prompt `/x`."""
    return prompt[1:] if prompt.startswith("//") else prompt


def escaped(prompt: str) -> str:
    """Return what to type so that `prompt` is sent as a prompt, even if it looks like a command."""
    return f"/{prompt}" if prompt.startswith("//") or (prompt.startswith("/") and is_command(prompt)) else prompt


def run_command(host: CommandHost, typed: TypedCommand) -> CommandResult:
    """Run a command. Raises CommandError, with a text of one or two lines, and the errors of the host itself."""
    from kin_nb.core.config import ConfigError  # noqa: PLC0415  (importing the commands stays cheap)
    from kin_nb.core.config.loading import explain  # noqa: PLC0415
    from kin_nb.core.context.compaction import CompactionError  # noqa: PLC0415
    from kin_nb.core.conversation import TurnRunningError  # noqa: PLC0415
    from kin_nb.core.llm.errors import BackendError  # noqa: PLC0415
    from kin_nb.core.session.errors import SessionError  # noqa: PLC0415
    from kin_nb.core.tool_types import ToolError  # noqa: PLC0415
    from kin_nb.core.undo import UndoError  # noqa: PLC0415

    name = f"{typed.prefix}{typed.command.name}"
    if typed.words and not typed.command.usage:
        raise CommandError(f"{name} takes no arguments.\nTo send it as a prompt: //{typed.command.name} ...")
    if typed.command.name == "help":
        return _help(typed.prefix)
    try:
        return typed.command.run(host, typed.words)
    except UsageError as error:
        raise CommandError(f"Usage: {typed.prefix}{typed.command.shown}{error}") from None
    except ConfigError as error:
        raise CommandError(explain(error)) from None
    except (BackendError, CompactionError, SessionError, ToolError, TurnRunningError, UndoError) as error:
        raise CommandError(str(error)) from None


def help(host: CommandHost, words: list[str]) -> CommandResult:  # noqa: A001  (the command's name)
    del host, words
    return _help("/")


def _help(prefix: str) -> CommandResult:
    """List the commands in the form that the user typed."""
    rows = [
        (heading if number == 0 else "", typed, what)
        for heading, group in grouped_help(prefix)
        for number, (typed, what) in enumerate(group)
    ]
    same = "/undo as the whole text of a cell does the same as %kin undo."
    other = "%kin undo in a cell of a notebook does the same as /undo."
    return CommandResult(
        "Commands",
        Table(("", "command", "what it does"), tuple(rows)),
        (
            same if prefix == "%kin " else other,
            "To ask the agent: %%kin [--mode MODE] [--model ALIAS], with the prompt below it.",
            "To send a prompt that looks like a command, type two slashes: //undo.",
        ),
    )


def exit(host: CommandHost, words: list[str]) -> CommandResult:  # noqa: A001
    del host, words
    return CommandResult(
        "The session ends with its kernel",
        lines=(
            "To end it, shut down the kernel: Kernel > Shut Down Kernel. To stop only a turn, press the stop button.",
            "It stays stored: %kin resume continues it, and so does kin-nb run --continue.",
        ),
    )
