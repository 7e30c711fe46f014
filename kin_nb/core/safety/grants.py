"""What was approved for longer than once: the session's grants, the scopes that a request may offer, and the rules that last."""

from __future__ import annotations

import glob
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kin_nb.core.config.errors import ConfigError
from kin_nb.core.safety.decision import ApprovalDecision, Grant, ToolRequest
from kin_nb.core.safety.shell.command_prefix import command_prefix
from kin_nb.core.workspace import Workspace

EDITS = "edits"
"""Stands for the tools that write files: who approves edits of a file means the file, not the tool."""

ANY_FILE = "workspace"
BASH = "bash"
PREFIX, EXACT, FILE, SITE, TOOL = "prefix:", "exact:", "file:", "site:", "*"
"""What a grant's pattern begins with. After it: words of a command, a whole command, a path, a site, a definition's
fingerprint."""
FETCH = "web_fetch"

_WRITERS = ("write_file", "edit_file")
_LONGEST = 200
"""Characters of a command that a list of grants shows."""


@dataclass
class Grants:
    """The session's grants: they end with the kernel, not with the conversation (`clear` keeps them)."""

    granted: list[Grant] = field(default_factory=list)

    def add(self, grant: Grant) -> None:
        if grant not in self.granted:
            self.granted.append(grant)

    def covering(self, call: ToolRequest, workspace: Workspace | None = None) -> Grant | None:
        """The grant that covers this call, if any: one that the call itself would offer."""
        offered = scopes(call, workspace)
        return next((grant for grant in self.granted if grant in offered), None)

    def describe(self) -> list[str]:
        """Each grant in words, on one line, in the order they were given."""
        return [_described(grant) for grant in self.granted]

    def forget(self, index: int | None = None) -> list[str]:
        """Take back the grant at `index` of `describe`, or all; returns what they were, in words. Raises IndexError."""
        if index is not None and not 0 <= index < len(self.granted):
            raise IndexError(index)
        gone = self.granted[:] if index is None else [self.granted[index]]
        self.granted = [grant for grant in self.granted if grant not in gone]
        return [_described(grant) for grant in gone]


def scopes(call: ToolRequest, workspace: Workspace | None = None) -> tuple[Grant, ...]:
    """The scopes on offer for a call, first the one that "for this session" means. Labels name files as in `workspace`, and a
    command's links are followed from there.

    A command that is not plain words (pipes, substitutions) offers itself only, verbatim: a prefix of it would cover commands
    that the user has not read. A request to a site offers the site: an address can carry anything to any other.
    """
    if call.command is not None and (call.accesses.everything or not call.accesses.writes):
        return _of_a_command(call.tool_name, call.command, workspace, read_only=call.accesses.only_reads)
    if call.accesses.writes and not (call.accesses.everything or call.accesses.network):
        return (*_of_a_file(call, workspace), Grant(EDITS, ANY_FILE, "edits of files in the workspace"))
    if call.accesses.network and call.accesses.site:
        return (_of_a_site(call),)
    # a rule of the configuration knows a server's tool by its name alone, whatever it becomes
    lasts = not call.fingerprint and not call.accesses.in_process
    label = f"every call of {call.tool_name}"
    return (Grant(call.tool_name, f"{TOOL}{call.fingerprint}", label, may_last=lasts),)


def remember(
    answer: ApprovalDecision, offered: tuple[Grant, ...], grants: Grants, save: Callable[[Grant], None]
) -> str:
    """Keep what was approved for longer than once: in `grants`, and for "always" by `save` too.

    `save` writes a rule (`save_rule`) and raises ConfigError. `offered`: the scopes that the request had; none where a
    sensitive path or one outside the workspace asked. Edited arguments are approved once. Only a person's word lasts.
    Returns what could not be kept, "" when nothing: the call runs all the same.
    """
    if not answer.approved or answer.scope == "once" or answer.edited_args is not None or not offered:
        return ""
    if not 0 <= answer.grant < len(offered):
        return f"Approved once only: the request has no scope number {answer.grant}."
    grant = offered[answer.grant]
    grants.add(grant)
    if answer.scope == "session" or answer.by != "person":
        return ""
    if not grant.may_last:
        return f"Approved for this session only: no rule of config.toml says {grant.label}."
    try:
        save(grant)
    except ConfigError as error:
        return f"Approved for this session only: {error}"
    return ""


def _described(grant: Grant) -> str:
    if not grant.pattern.startswith(EXACT):
        return grant.label
    command = " ".join(grant.pattern.removeprefix(EXACT)[:_LONGEST].split())
    return f"exactly the command `{''.join(c for c in command if c.isprintable())}`"


def _of_a_command(tool_name: str, command: str, workspace: Workspace | None, *, read_only: bool) -> tuple[Grant, ...]:
    exact = Grant(tool_name, f"{EXACT}{command}", "exactly this command")
    prefix = command_prefix(command, read_only=read_only, root=workspace.root if workspace else None)
    if not prefix:
        return (exact,)
    lasts = tool_name == BASH  # other tools' rules do not read commands
    return (Grant(tool_name, f"{PREFIX}{prefix}", f"commands that start with `{prefix}`", may_last=lasts), exact)


def _of_a_site(call: ToolRequest) -> Grant:
    site = call.accesses.site
    label = f"{call.tool_name} from {site.removeprefix('https://')}"
    return Grant(call.tool_name, f"{SITE}{site}", label, may_last=call.tool_name == FETCH)


def _of_a_file(call: ToolRequest, workspace: Workspace | None) -> tuple[Grant, ...]:
    if len(call.write_paths) != 1:
        return ()
    path = call.write_paths[0]
    shown = workspace.relative(path) if workspace is not None else path.name
    return (Grant(EDITS, f"{FILE}{path}", f"edits of {shown}", may_last=True),)


def save_rule(grant: Grant, tool_name: str) -> None:
    """Add the rule for `grant`, which a call of `tool_name` was approved with. The file keeps its comments and rules.

    Raises ConfigError: no rule says this grant, or the file cannot be changed. May wait some seconds for another writer.
    """
    from kin_nb.core.config.kin_config import save_updates  # noqa: PLC0415  (only when something is saved)

    save_updates({"tools": _rule(grant, tool_name)})


def _rule(grant: Grant, tool_name: str) -> dict[str, Any]:
    from kin_nb.core.config.kin_config import Added  # noqa: PLC0415  (as above)

    if grant.pattern.startswith(PREFIX):
        return {grant.tool_name: {"allowlist": Added([grant.pattern.removeprefix(PREFIX)])}}
    if grant.pattern.startswith(FILE):
        # the whole path: config.toml holds for every workspace
        path = glob.escape(grant.pattern.removeprefix(FILE))
        return {name: {"allowlist": Added([path])} for name in dict.fromkeys((*_WRITERS, tool_name))}
    if grant.pattern.startswith(SITE):
        return {grant.tool_name: {"allowlist": Added([grant.pattern.removeprefix(SITE)])}}
    if grant.pattern == TOOL:
        return {grant.tool_name: {"permission": "always"}}
    raise ConfigError(f"no rule of config.toml says {grant.label}.")
