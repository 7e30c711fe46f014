"""/memory: what is kept across sessions."""

from __future__ import annotations

from kin_nb.core.commands.values import CommandError, CommandHost, CommandResult, Table
from kin_nb.core.memory import delete_memory, list_memories, read_memory, scope_of
from kin_nb.core.paths import shown


def memory(host: CommandHost, words: list[str]) -> CommandResult:
    workdir = host.config().effective_workdir
    match words:
        case [] | ["list"]:
            found = list_memories(workdir)
            if not found:
                return CommandResult("No memories yet", lines=("The agent keeps one when you ask it to.",))
            rows = tuple((each.name, each.scope, each.description or each.problem) for each in found)
            return CommandResult(
                f"{len(rows)} memor{'y' if len(rows) == 1 else 'ies'}", Table(("name", "scope", "what"), rows)
            )
        case ["show", name]:
            scope = scope_of(name, workdir)
            return CommandResult(f"{name} ({scope})", lines=tuple(read_memory(name, scope, workdir).splitlines()))
        case ["forget", name]:
            return CommandResult(f"{shown(delete_memory(name, scope_of(name, workdir), workdir))} is gone")
    raise CommandError("Usage: /memory [list | show NAME | forget NAME]")
