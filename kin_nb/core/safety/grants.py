"""What was approved for the rest of the session, and the scopes that a request may offer."""

from __future__ import annotations

from dataclasses import dataclass, field

from kin_nb.core.safety.decision import Grant, ToolRequest
from kin_nb.core.safety.shell_words import command_prefix

EDITS = "edits"


@dataclass
class Grants:
    """The session's grants; they end with the kernel."""

    granted: list[Grant] = field(default_factory=list)

    def add(self, grant: Grant) -> None:
        if grant not in self.granted:
            self.granted.append(grant)

    def covering(self, call: ToolRequest) -> Grant | None:
        """The grant that covers this call, if any: one that the call itself would offer."""
        offered = scopes(call)
        return next((grant for grant in self.granted if grant in offered), None)


def scopes(call: ToolRequest) -> tuple[Grant, ...]:
    """The scopes on offer for a call, narrowest first.

    A command that is not plain words (pipes, substitutions) offers itself only, to the letter: a prefix of it would
    cover commands that nobody has read.
    """
    command = getattr(call.args, "command", None)
    if call.accesses.everything and isinstance(command, str):
        prefix = command_prefix(command)
        if prefix:
            return (Grant(call.tool_name, f"prefix:{prefix}", f"commands that start with `{prefix}`"),)
        return (Grant(call.tool_name, f"exact:{command}", "exactly this command"),)
    if call.accesses.writes and not call.accesses.everything:
        return (Grant(EDITS, "workspace", "edits of files in the workspace"),)
    return (Grant(call.tool_name, f"*{call.fingerprint}", f"every call of {call.tool_name}"),)
