"""Grants for the session, the scopes that a request offers, and the rules that "always" saves."""

from __future__ import annotations

import glob
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kin_nb.core.config.errors import ConfigError
from kin_nb.core.safety.decision import ApprovalDecision, Grant, ToolRequest
from kin_nb.core.safety.shell.command_parts import kind_of
from kin_nb.core.safety.shell.command_prefix import command_prefix
from kin_nb.core.tool_types import CommandPart
from kin_nb.core.workspace import Workspace

EDITS = "edits"
"""The tool name in grants for edits: they cover every tool that edits the file."""

ANY_FILE = "workspace"
BASH = "bash"
PREFIX, PARTS, EXACT, FILE, SITE, TOOL = "prefix:", "parts:", "exact:", "file:", "site:", "*"
"""Prefixes of a grant's pattern. After the prefix: words of a command, those of several commands, a whole command, a path, a
site, the fingerprint of a definition."""
IN_FOLDER = "\n"
"""Between the words of a command and the folder that they are approved for: words of commands have no ends of lines."""
FETCH = "web_fetch"

_WRITERS = ("write_file", "edit_file", "apply_patch")
_LONGEST = 200
"""Most characters of a command in a list of grants."""
_NO_RULES = ("tox", "nox")


@dataclass
class Grants:
    """The session's grants. They end with the kernel; a new conversation keeps them."""

    granted: list[Grant] = field(default_factory=list)

    def add(self, grant: Grant) -> None:
        """Add each of its parts. An equal grant is replaced in its place: the new one knows the environments as they are now."""
        for part in grant.each:
            if part in self.granted:
                self.granted[self.granted.index(part)] = part
            else:
                self.granted.append(part)

    def covering(self, call: ToolRequest, workspace: Workspace | None = None, *, strict: bool = False) -> Grant | None:
        """Return the scope of this call that is granted, with all of its parts. `strict`: reading asks as well."""
        if strict and any(part.reads for part in call.accesses.parts):
            return self._whole(call, workspace)
        return next((grant for grant in scopes(call, workspace) if self.holds(grant)), None)

    def holds(self, grant: Grant) -> bool:
        """Whether it was given, or each of its parts was, and the environments that it names are as they were."""
        return all(self._holds_one(part) for part in grant.each)

    def _holds_one(self, grant: Grant) -> bool:
        held = next((each for each in self.granted if each == grant), None)
        if held is None or not grant.environment:
            return held is not None
        state = dict(grant.environments).get(grant.environment)
        return bool(state) and dict(held.environments).get(grant.environment) == state

    def _whole(self, call: ToolRequest, workspace: Workspace | None) -> Grant | None:
        """The grant of exactly this command."""
        exact = scopes(call, workspace)[-1]
        return exact if self.holds(exact) else None

    def describe(self) -> list[str]:
        """One line for each grant, in the order of approval."""
        return [_described(grant) for grant in self.granted]

    def forget(self, index: int | None = None) -> list[str]:
        """Remove the grant at `index` of `describe`, or all; return their descriptions. Raises IndexError."""
        if index is not None and not 0 <= index < len(self.granted):
            raise IndexError(index)
        gone = self.granted[:] if index is None else [self.granted[index]]
        self.granted = [grant for grant in self.granted if grant not in gone]
        return [_described(grant) for grant in gone]


def scopes(call: ToolRequest, workspace: Workspace | None = None) -> tuple[Grant, ...]:
    """Return the grants that a call offers, first the one for "for this session".

    Labels show paths relative to `workspace`; links in a command are followed from there. A line of several commands offers one
    scope for all of them, where each has one. Other lines (substitutions, output into files) offer only themselves, verbatim: a
    prefix would cover commands that the user has not read. A web request offers its site only, because an address can carry data
    to any other site. A call that moves or deletes files offers nothing: the next one may be about any other file.
    """
    if call.command is not None and (call.accesses.everything or not call.accesses.writes):
        return _of_a_command(call, call.command, workspace)
    if call.accesses.removes:
        return ()
    if call.accesses.writes and not (call.accesses.everything or call.accesses.network):
        return (*_of_a_file(call, workspace), Grant(EDITS, ANY_FILE, "edits of files in the workspace"))
    if call.accesses.network and call.accesses.site:
        return (_of_a_site(call),)
    # a rule of the configuration names a server's tool, and would also allow a changed definition
    lasts = not call.fingerprint and not call.accesses.in_process
    label = f"every call of {call.tool_name}"
    return (Grant(call.tool_name, f"{TOOL}{call.fingerprint}", label, may_last=lasts),)


def remember(
    answer: ApprovalDecision, offered: tuple[Grant, ...], grants: Grants, save: Callable[[Grant], None]
) -> str:
    """Store an approval "for this session" in `grants`, and one for "always" through `save` as well.

    `save`: writes a rule (`save_rule`), raises ConfigError. `offered`: the scopes of the request; empty when a sensitive path or
    one outside the workspace asks. Edited arguments are approved once. Only the user's own answer can be kept for "always".
    Returns a warning when something could not be stored, else "". The call runs in both cases.
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
        return f"Approved for this session only: no rule of config.toml can express {grant.label}."
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


def _of_a_command(call: ToolRequest, command: str, workspace: Workspace | None) -> tuple[Grant, ...]:
    """The beginning of the command, or of each of its parts, then exactly this command."""
    exact = Grant(call.tool_name, f"{EXACT}{command}", "exactly this command")
    if call.accesses.parts:
        return (*_of_parts(call.tool_name, call.accesses.parts), exact)
    root = workspace.root if workspace else None
    prefix = command_prefix(command, read_only=call.accesses.only_reads, root=root)
    return (_of_a_part(call.tool_name, CommandPart(command, prefix=prefix)), exact) if prefix else (exact,)


def _of_parts(tool_name: str, parts: tuple[CommandPart, ...]) -> tuple[Grant, ...]:
    needed = [part for part in parts if not part.proven]
    if not needed or not all(part.prefix for part in needed):
        return ()
    grants = tuple(dict.fromkeys(_of_a_part(tool_name, part) for part in needed))
    if len(grants) == 1:
        return grants
    return (
        Grant(
            tool_name,
            PARTS + IN_FOLDER.join(grant.pattern for grant in grants),
            "; ".join(grant.label for grant in grants),
            may_last=all(grant.may_last for grant in grants),
            label_always="; ".join(grant.label_always or grant.label for grant in grants),
            parts=grants,
        ),
    )


def _of_a_part(tool_name: str, part: CommandPart) -> Grant:
    """The grant for one command. No rule covers what is spelled by the path of an environment, or approved for one folder."""
    words, place = part.prefix, f" in {part.folder}" if part.folder else ""
    label, always = f"commands that start with `{words}`{place}", ""
    if tool_name == BASH and (part.kind or kind_of(words.split())) == "tests":
        label, always = f"tests: {words}{place or ' in this project'}", f"tests: {words} in every project"
    return Grant(
        tool_name,
        f"{PREFIX}{words}{IN_FOLDER if part.folder else ''}{part.folder}",
        label,
        # rules of other tools do not match commands; a rule of these words would cover more than the grant does
        may_last=tool_name == BASH and not part.folder and not part.environment and words not in _NO_RULES,
        label_always=always,
        environments=part.environments,
        environment=part.environment,
    )


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
    """Add the rule for `grant`, approved for a call of `tool_name`, to config.toml. Comments and other rules stay.

    Raises ConfigError when no rule can express the grant, or the file cannot be changed. May wait seconds for another writer.
    """
    from kin_nb.core.config.kin_config import save_updates  # noqa: PLC0415  (only when something is saved)

    save_updates({"tools": _rule(grant, tool_name)})


def _rule(grant: Grant, tool_name: str) -> dict[str, Any]:
    from kin_nb.core.config.kin_config import Added  # noqa: PLC0415  (as above)

    if grant.pattern.startswith((PREFIX, PARTS)):
        return {grant.tool_name: {"allowlist": Added([each.pattern.removeprefix(PREFIX) for each in grant.each])}}
    if grant.pattern.startswith(FILE):
        # the absolute path, because config.toml applies to every workspace
        path = glob.escape(grant.pattern.removeprefix(FILE))
        return {name: {"allowlist": Added([path])} for name in dict.fromkeys((*_WRITERS, tool_name))}
    if grant.pattern.startswith(SITE):
        return {grant.tool_name: {"allowlist": Added([grant.pattern.removeprefix(SITE)])}}
    if grant.pattern == TOOL:
        return {grant.tool_name: {"permission": "always"}}
    raise ConfigError(f"{grant.label} cannot be a rule of config.toml.")
