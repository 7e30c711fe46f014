"""Decide whether a tool call runs: an ordered chain of small policies, the first answer wins.

kin_nb/core/tools/approval_gate.py calls `decide` for each call. The order, and why:

1. dangerous commands never run, whatever the mode and the rules;
2. what the user's configuration forbids never runs, whatever allows it below;
3. plan mode changes nothing, so no grant or rule may come before it;
4. a notebook that is open in a front end is not written: its next save would overwrite the change;
5. while undo cannot restore a change, a call that may lose content asks, also in auto-approve mode;
6. sensitive paths, then paths outside the workspace, ask even where a grant or a rule allows the tool;
7. what the user approved for this session runs;
8. what the user's configuration allows runs;
9. the policy of the mode allows calls by their risk;
10. everything else asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from kin_nb.core.modes import AgentMode, Policy
from kin_nb.core.safety.decision import Decision, Risk, ToolRequest, Verdict
from kin_nb.core.safety.grants import Grants
from kin_nb.core.safety.shell.dangerous import danger
from kin_nb.core.sensitive_names import Access
from kin_nb.core.tool_types import ToolPermission
from kin_nb.core.workspace import Workspace


@dataclass(frozen=True)
class SafetyContext:
    """The facts that the policies decide from.

    `rule`: the permission that the configuration gives this call (permission, allowlist, denylist), or None; `rule_reason` explains
    it. `open_files`: resolved paths of files that are open in a front end. `without_undo`: why undo cannot restore what the call
    changes, "" when it can.
    """

    mode: AgentMode
    policy: Policy
    workspace: Workspace
    grants: Grants = field(default_factory=Grants)
    rule: ToolPermission | None = None
    rule_reason: str = ""
    open_files: frozenset[Path] = frozenset()
    without_undo: str = ""


class SafetyPolicy(Protocol):
    label: ClassVar[str]
    """The rule's name in texts for users. Records and the audit log store the class name."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        """Return an answer, or None to ask the next policy."""


class DenyDangerousCommands:
    """Deny dangerous commands in every mode: see shell/dangerous.py."""

    label: ClassVar = "dangerous command"

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        why = "" if call.command is None else danger(call.command, context.workspace.root)
        if not why:
            return None
        return Decision.deny(f"{why}. No mode or rule allows this; the user can run it in a terminal")


class DenyRules:
    """Deny what the user's configuration forbids: permission = "never", or a denylist pattern."""

    label: ClassVar = "forbidden by your configuration"

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.rule is not ToolPermission.NEVER:
            return None
        default = f"your configuration forbids this call of {call.tool_name} ([tools.{call.tool_name}])"
        return Decision.deny(context.rule_reason or default)


class DenyWhilePlanning:
    """Deny every change in plan mode, whatever grants and rules allow."""

    label: ClassVar = "plan mode"

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        changes_nothing = not (
            call.accesses.writes or call.accesses.everything
        )  # a later policy asks about the network
        if context.mode is not AgentMode.PLAN or changes_nothing:
            return None
        what = f"{call.tool_name} {'may change something' if call.accesses.everything else 'changes files'}"
        if call.accesses.reason:
            what = f"this command is not proven read-only: {call.accesses.reason}"
        return Decision.deny(
            f"plan mode is on, and {what}. Read with read_file, list_dir and grep; put what "
            "you would run or change into your plan. Only the user can leave plan mode (%kin mode default)"
        )


class DenyOpenFiles:
    """Deny file tools a file that is open in a front end, such as the notebook itself."""

    label: ClassVar = "open in your front end"

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        name = next((path.name for path in call.write_paths if path in context.open_files), None)
        if name is None:
            return None
        return Decision.deny(
            f"{name} is open in your front end, whose next save would overwrite the change; use the notebook tool, "
            "or ask the user to close it"
        )


class AskWithoutUndo:
    """Ask, in every mode, before a call that may lose content while undo cannot restore it.

    Grants and rules do not count here: they were given while undo worked.
    """

    label: ClassVar = "cannot be undone"

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if not (context.without_undo and call.may_lose_content):
            return None
        return Decision.ask(context.without_undo)


class AskForSensitivePaths:
    """Ask about secrets, and about files that run later or configure other programs. Only yolo allows them.

    The names are in sensitive_names.py.
    """

    label: ClassVar = "sensitive file"

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.policy is Policy.YOLO:
            return None
        accesses: tuple[tuple[Access, tuple[Path, ...]], ...] = (("write", call.write_paths), ("read", call.read_paths))
        for access, paths in accesses:
            for path in paths:
                why = context.workspace.is_sensitive(path, access)
                if why:
                    return Decision.ask(f"{context.workspace.relative(path)}: {why}")
        return None


class AskOutsideWorkspace:
    """Ask about paths outside the workspace, after every symbolic link is resolved."""

    label: ClassVar = "outside the workspace"

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.policy is Policy.YOLO:
            return None
        for path in (*call.write_paths, *call.read_paths):
            if not context.workspace.contains(path):
                return Decision.ask(f"{path} is outside the workspace")
        return None


class AllowWhatWasGranted:
    """Allow what the user approved "for this session", within the scope that the button named."""

    label: ClassVar = "approved for this session"

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        grant = context.grants.covering(call, context.workspace, strict=context.policy is Policy.STRICT)
        return Decision.allow(f"approved for this session: {grant.label}") if grant else None


class AllowRules:
    """Allow what the user's configuration allows: permission = "always", or an allowlist pattern."""

    label: ClassVar = "allowed by your configuration"

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.rule is not ToolPermission.ALWAYS:
            return None
        return Decision.allow(f"your configuration allows this call of {call.tool_name} ([tools.{call.tool_name}])")


class AllowByRisk:
    """Allow by risk what the policy of the mode allows; everything else asks.

    strict: file tools that read. on-request: also read-only commands. auto-edit: also edits of existing files in the
    workspace; a new file, a move and a deletion ask. yolo: everything. Where the workspace is the home folder or above it,
    only yolo allows a call that names files.
    """

    label: ClassVar = "allowed by the mode"

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.policy is Policy.YOLO:
            return Decision.allow("auto-approve: everything runs without asking")
        if context.workspace.too_wide and (call.read_paths or call.write_paths):
            return None
        risk = risk_of(call, context.workspace)
        if risk is Risk.LOW and call.command is None:
            return Decision.allow("only reads inside the workspace")
        if risk is Risk.LOW and context.policy is not Policy.STRICT:
            return Decision.allow("a read-only command")
        if risk is Risk.MEDIUM and context.policy is Policy.AUTO_EDIT and _edits_only(call):
            return Decision.allow("accept-edits: edits of existing files run without asking")
        return None


def _edits_only(call: ToolRequest) -> bool:
    if call.command is not None or call.accesses.everything or call.accesses.removes:
        return False
    return all(path.is_file() for path in call.write_paths)


CHAIN: tuple[SafetyPolicy, ...] = (
    DenyDangerousCommands(),
    DenyRules(),
    DenyWhilePlanning(),
    DenyOpenFiles(),
    AskWithoutUndo(),
    AskForSensitivePaths(),
    AskOutsideWorkspace(),
    AllowWhatWasGranted(),
    AllowRules(),
    AllowByRisk(),
)
"""In this order; the docstring of this module says why."""

ASK = "Ask"
"""Recorded instead of a policy's name when no policy had an answer."""

LABELS: Mapping[str, str] = {**{type(policy).__name__: policy.label for policy in CHAIN}, ASK: "asks by default"}
"""For texts that users read: recorded name -> words."""


def decide(call: ToolRequest, context: SafetyContext, chain: tuple[SafetyPolicy, ...] = CHAIN) -> Decision:
    """Return the first answer, with the policy's name; ask when no policy has one."""
    for policy in chain:
        decision = policy.decide(call, context)
        if decision is not None:
            return replace(decision, policy=type(policy).__name__)
    why = f"policy {context.policy} asks first"
    if context.workspace.too_wide and (call.read_paths or call.write_paths):
        why = f"the workspace is {context.workspace.too_wide}"
    return replace(Decision.ask(f"{call.tool_name} {_effect(call)}; {why}"), policy=ASK)


def _effect(call: ToolRequest) -> str:
    if call.command is not None:
        unproven = f" that is not proven read-only ({call.accesses.reason})" if call.accesses.reason else ""
        return f"runs a command{unproven}"
    if call.accesses.everything:
        return f"may touch anything{f': {call.accesses.reason}' if call.accesses.reason else ''}"
    if call.accesses.network:
        return "uses the network"
    if call.accesses.writes:
        return "changes files"
    return "reads files" if call.accesses.reads else "acts"


def risk_of(call: ToolRequest, workspace: Workspace) -> Risk:
    """Low: only reads. Medium: writes files. High: everything else, and every path that is sensitive or outside the workspace.

    Medium are also commands of known kinds: test runners and linters with harmless options, `mkdir`, `--version` and `--help`.
    High are effects that a tool does not declare: all other commands that are not proven read-only (each deletion is one),
    requests to the network, and MCP servers, whatever they declare.
    """
    ordinary = _is_ordinary(call)
    if (call.accesses.everything and not ordinary) or call.accesses.network:
        return Risk.HIGH
    if not all(map(workspace.contains, (*call.read_paths, *call.write_paths))):
        return Risk.HIGH
    if any(map(workspace.is_sensitive, call.read_paths)):
        return Risk.HIGH
    if any(workspace.is_sensitive(path, "write") for path in call.write_paths):
        return Risk.HIGH
    return Risk.MEDIUM if call.accesses.writes or ordinary else Risk.LOW


def _is_ordinary(call: ToolRequest) -> bool:
    """Whether it is a command, and each of its parts is proven read-only or of a known kind."""
    parts = call.accesses.parts
    return call.command is not None and bool(parts) and all(part.proven or part.kind for part in parts)


def ways_to_allow(call: ToolRequest, context: SafetyContext) -> tuple[str, ...]:
    """List what would allow this call without asking, the narrowest first. Each entry is tried on the chain."""

    def allows(**changed: Any) -> bool:
        return decide(call, replace(context, **changed)).verdict is Verdict.ALLOW

    always = f'set permission = "always" in [tools.{call.tool_name}] of ~/.kin-code/config.toml'
    rule = (always,) if allows(rule=ToolPermission.ALWAYS) else ()
    modes = [
        f"--mode {mode.shown}"
        for mode in (AgentMode.ACCEPT_EDITS, AgentMode.AUTO_APPROVE)
        if allows(mode=mode, policy=mode.policy(context.policy))
    ]
    return (*rule, *([f"choose a mode: {', '.join(modes)}"] if modes else ()))
