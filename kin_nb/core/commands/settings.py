"""/model, /mode, /trust and /memory: settings for the next prompts."""

from __future__ import annotations

from kin_nb.core.commands.host import CommandError, CommandHost, CommandResult, Table, UsageError
from kin_nb.core.config.trusted_folders import TrustedFolders, project_files
from kin_nb.core.memory import delete_memory, list_memories, read_memory, scope_of
from kin_nb.core.paths import shown
from kin_nb.core.project_snapshot import Changes, ProjectSnapshot
from kin_nb.core.workspace import Workspace


def model(host: CommandHost, words: list[str]) -> CommandResult:
    if len(words) > 1:
        raise UsageError("")
    if words:
        host.choose_model(words[0])
    config = host.config()
    active = config.get_active_model()
    others = ", ".join(other.alias for other in config.models if other is not active)
    title = f"Model: {active.alias} ({active.name} at {active.provider})"
    return CommandResult(title, lines=(f"Others: {others}",) if others else ())


def mode(host: CommandHost, words: list[str]) -> CommandResult:
    if len(words) > 1:
        raise UsageError("")
    if words:
        host.choose_mode(words[0])
    lines = (host.mode.description, Workspace(host.config().effective_workdir).warning)
    return CommandResult(f"Mode: {host.mode.shown}", lines=tuple(filter(None, lines)))


def trust(host: CommandHost, words: list[str]) -> CommandResult:
    """Use the folder's own settings, tools and instructions from the next prompt on.

    If they have changed since they were trusted, the difference is shown first, with a code that trusts exactly this state: so
    a notebook that is run again from the top never trusts what the user has not seen.
    """
    if len(words) > 1:
        raise UsageError("")
    workdir, folders = host.config().effective_workdir, TrustedFolders()
    found, code = folders.look(workdir), "".join(words)
    wrong = bool(code) and (found.seen is None or code != found.seen.code)
    if found.seen is not None and found.changes and code != found.seen.code:
        return _changed(found.seen, found.changes, code)
    if wrong and not found.answer:
        raise CommandError(
            f"The code {code} is wrong: {workdir} is not trusted yet, so it has no code.\nTo trust it as it is: %kin trust"
        )
    needless = (f"The code {code} is wrong. None is needed.",) if wrong else ()
    if found.of_itself:
        return CommandResult(f"{workdir} is already trusted as it is; nothing was changed", lines=needless)
    folder = folders.trust(workdir, found.seen if found.changes else None)
    used = ", ".join(project_files(folder)) or "nothing yet"
    lines = (*needless, f"Used from now on: {used}.", ProjectSnapshot.take(folder).limit)
    return CommandResult(f"{folder} is trusted", lines=tuple(filter(None, lines)))


def _changed(seen: ProjectSnapshot, changes: Changes, code: str) -> CommandResult:
    """Return the difference and the code that trusts it. `code`: "", or a wrong one, usually of an earlier state."""
    wrong = (f"The code {code} is wrong: the folder has changed again. Nothing was trusted.",) if code else ()
    how = f"To trust it as it is now: `%kin trust {seen.code}`, or `/trust {seen.code}` as a prompt."
    title = f"{seen.folder} has changed since it was trusted: {changes.summary()}"
    return CommandResult(title, lines=(*wrong, *changes.diff, *filter(None, [seen.limit]), how))


def memory(host: CommandHost, words: list[str]) -> CommandResult:
    workdir = host.config().effective_workdir
    match words:
        case [] | ["list"]:
            found = list_memories(workdir)
            if not found:
                return CommandResult(
                    "No memories yet", lines=("Ask the agent to remember something: it writes a memory.",)
                )
            rows = tuple((each.name, each.scope, each.description or each.problem) for each in found)
            return CommandResult(
                f"{len(rows)} memor{'y' if len(rows) == 1 else 'ies'}", Table(("name", "scope", "what"), rows)
            )
        case ["show", name]:
            scope = scope_of(name, workdir)
            return CommandResult(f"{name} ({scope})", lines=tuple(read_memory(name, scope, workdir).splitlines()))
        case ["forget", name]:
            return CommandResult(f"{shown(delete_memory(name, scope_of(name, workdir), workdir))} was deleted")
    raise UsageError("")
