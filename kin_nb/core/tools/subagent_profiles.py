"""The profiles of subagents: their tools and their instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from kin_nb.core.tools.base import AnyTool
from kin_nb.core.tools.builtins.bash import Bash, BashArgs

_EXCLUDED = frozenset({"task", "ask_user", "send_dmail"})
"""Subagents do not nest, ask the user or rewind: those belong to the parent's conversation."""

_INSTRUCTIONS = (
    "You are a subagent: another agent gave you the task that follows. You cannot ask questions. The other agent reads only your "
    "last message: put the result itself there, with paths and line numbers, and report what you could not do."
)


@dataclass(frozen=True)
class Profile:
    """`tool_names`: its tools, if the parent has them; None: all of the parent's. `read_only`: only reading calls may run."""

    name: str
    instructions: str
    tool_names: frozenset[str] | None = None
    read_only: bool = False

    def tools(self, parents: Mapping[str, type[AnyTool]]) -> dict[str, type[AnyTool]]:
        """The subagent's tools, chosen from its parent's."""
        names = parents.keys() if self.tool_names is None else self.tool_names
        found = {name: tool for name, tool in parents.items() if name in names and name not in _EXCLUDED}
        if self.read_only and "bash" in found:
            found["bash"] = ReadingBash
        return found


class ReadingBash(Bash):
    """bash for read-only commands only; others are denied without asking."""

    description: ClassVar[str] = "Run a bash command that only reads"

    @classmethod
    def get_name(cls) -> str:
        return "bash"

    def why_denied(self, args: BashArgs) -> str:
        accesses = self.accesses(args)
        if accesses.only_reads:
            return super().why_denied(args)
        return f"this subagent may only run read-only commands, and this one is not known to be read-only: {accesses.reason}"


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            "explore",
            f"{_INSTRUCTIONS} You only read: change nothing.",
            tool_names=frozenset({"read_file", "list_dir", "glob", "grep", "bash", "variables"}),
            read_only=True,
        ),
        Profile("general", _INSTRUCTIONS),
    )
}
