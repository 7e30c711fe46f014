"""/model, /mode and /trust."""

from __future__ import annotations

from kin_nb.core.commands.values import CommandError, CommandHost, CommandResult
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
    return CommandResult(f"Mode: {host.mode.shown}", lines=(host.mode.description,) if host.mode.description else ())


def trust(host: CommandHost, words: list[str]) -> CommandResult:
    """This folder's own settings, tools and instructions count from the next prompt on."""
    del words
    folder = TrustedFolders().trust(host.config().effective_workdir)
    found = ", ".join(project_files(folder)) or "nothing yet"
    return CommandResult(f"{folder} is trusted", lines=(f"What is used of it now: {found}.",))
