"""/replay, /live and /status: for notebooks with recorded answers."""

from __future__ import annotations

from kin_nb.core.commands.values import CommandError, CommandHost, CommandResult


def replay(host: CommandHost, words: list[str]) -> CommandResult:
    source = None
    if "--from" in words:
        at = words.index("--from")
        source = " ".join(words[at + 1 :]) or None
        words = words[:at]
    names = [word for word in words if word != "--scratch"]
    if len(names) != 1:
        raise CommandError("Usage: %kin replay SESSION@DIGEST [--scratch] [--from PATH]")
    host.replay(names[0], source, scratch="--scratch" in words)
    return CommandResult()


def live(host: CommandHost, words: list[str]) -> CommandResult:
    del words
    host.go_live()
    return CommandResult()


def status(host: CommandHost, words: list[str]) -> CommandResult:
    del words
    model = host.config().get_active_model()
    lines = (f"Model: {model.alias} ({model.name} at {model.provider})", f"Mode: {host.mode.shown}")
    return CommandResult(f"Prompts: {host.record_mode()}", lines=lines)
