"""/approvals: what was approved for the session, and taking it back."""

from __future__ import annotations

from kin_nb.core.commands.values import CommandError, CommandHost, CommandResult


def approvals(host: CommandHost, words: list[str]) -> CommandResult:
    grants = host.agent.safety().grants if host.agent is not None else None
    given = grants.describe() if grants is not None else []
    if words:
        if len(words) != 2 or words[0] != "forget" or not (words[1] == "all" or words[1].isdecimal()):  # noqa: PLR2004
            raise CommandError("Usage: /approvals [forget N | forget all]")
        if grants is None or not given:
            raise CommandError("Nothing was approved for this session.")
        index = None if words[1] == "all" else int(words[1]) - 1
        try:
            gone = grants.forget(index)
        except IndexError:
            raise CommandError(f"There is no approval {words[1]}: they count from 1 to {len(given)}.") from None
        return CommandResult("Taken back", lines=tuple(gone))
    if not given:
        return CommandResult("Nothing was approved for this session")
    lines = tuple(f"{number}. {what}" for number, what in enumerate(given, 1))
    return CommandResult("Approved for this session", lines=(*lines, "/approvals forget N takes one back."))
