"""/model, /mode and /trust."""

from __future__ import annotations

from kin_nb.core.commands.values import CommandError, CommandHost, CommandResult
from kin_nb.core.safety.workspace import Workspace
from kin_nb.core.trusted_folders import TrustedFolders, project_files


def model(host: CommandHost, words: list[str]) -> CommandResult:
    if len(words) > 1:
        raise CommandError("Usage: /model [ALIAS]")
    if words:
        host.choose_model(words[0])
    config = host.config()
    active = config.get_active_model()
    others = ", ".join(other.alias for other in config.models if other is not active)
    title = f"Model: {active.alias} ({active.name} at {active.provider})"
    return CommandResult(title, lines=(f"Others: {others}",) if others else ())


def mode(host: CommandHost, words: list[str]) -> CommandResult:
    if len(words) > 1:
        raise CommandError("Usage: /mode [MODE]")
    if words:
        host.choose_mode(words[0])
    lines = (host.mode.description, Workspace(host.config().effective_workdir).warning)
    return CommandResult(f"Mode: {host.mode.shown}", lines=tuple(filter(None, lines)))


def trust(host: CommandHost, words: list[str]) -> CommandResult:
    """This folder's own settings, tools and instructions count from the next prompt on.

    Where they have changed since they were trusted, the difference is shown first, with a code that trusts exactly that: a
    notebook that is run again from the top does not trust what the user has not seen.
    """
    if len(words) > 1:
        raise CommandError("Usage: /trust [CODE]")
    workdir, folders = host.config().effective_workdir, TrustedFolders()
    found = folders.look(workdir)
    seen = found.seen if found.changes else None
    if seen is not None and found.changes is not None and words != [seen.code]:
        lines = (*found.changes.diff, f"To trust it as it is now: `/trust {seen.code}`, or `%kin trust {seen.code}`.")
        return CommandResult(f"{seen.folder} has changed since it was trusted: {found.changes.summary()}", lines=lines)
    if words and seen is None and not found.answer:
        raise CommandError("That code is not of this folder as it is now. `%kin trust` trusts it.")
    folder = folders.trust(workdir, seen)
    used = ", ".join(project_files(folder)) or "nothing yet"
    return CommandResult(f"{folder} is trusted", lines=(f"What is used of it now: {used}.",))
