"""What kinds of subagents there are: which tools each has, and what it is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from kin_nb.core.tools.base import AnyTool
from kin_nb.core.tools.builtins.bash import Bash, BashArgs

_NEVER = frozenset({"task", "ask_user", "send_dmail"})
"""No nesting, no questions, no time travel: the person talks with the parent, and a call's past is not its own."""

_TOLD = (
    "You are a subagent: another agent gave you the task that follows, and nobody answers questions. What you say last is all "
    "that it gets to read: give it the result itself, with paths and line numbers, and say what you could not do."
)


@dataclass(frozen=True)
class Profile:
    """`only`: the tools that it has, where the parent has them; None: all of those. `reads`: nothing else may run."""

    name: str
    told: str
    only: frozenset[str] | None = None
    reads: bool = False

    def tools(self, parents: Mapping[str, type[AnyTool]]) -> dict[str, type[AnyTool]]:
        """The subagent's tools, of those that its parent is offered."""
        names = parents.keys() if self.only is None else self.only
        found = {name: tool for name, tool in parents.items() if name in names and name not in _NEVER}
        if self.reads and "bash" in found:
            found["bash"] = ReadingBash
        return found


class ReadingBash(Bash):
    """Only commands that are proven to change nothing, whoever would approve others."""

    description: ClassVar[str] = "Run a bash command that only reads"

    @classmethod
    def get_name(cls) -> str:
        return "bash"

    def why_denied(self, args: BashArgs) -> str:
        accesses = self.accesses(args)
        if accesses.only_reads:
            return super().why_denied(args)
        return f"this subagent only runs commands that are proven to change nothing. This one is not: {accesses.reason}"


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            "explore",
            f"{_TOLD} You only read: change nothing.",
            only=frozenset({"read_file", "list_dir", "glob", "grep", "bash", "variables"}),
            reads=True,
        ),
        Profile("general", _TOLD),
    )
}
