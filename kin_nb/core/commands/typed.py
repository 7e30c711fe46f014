"""What a person typed: a command, or a prompt that happens to begin with a slash."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

from kin_nb.core.commands.registry import COMMANDS, Command
from kin_nb.core.commands.values import UnknownCommandError

_TYPED = re.compile(r"/(?P<name>[A-Za-z][A-Za-z-]*)(?::(?P<argument>\S*))?(?P<rest>\s.*)?", re.DOTALL)
_NEAR = 0.7
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
        near = [] if found["rest"] else get_close_matches(name, COMMANDS, n=2, cutoff=_NEAR)
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
