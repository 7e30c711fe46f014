"""Who decides whether a call runs: an ordered chain of small policies, first answer wins. The order, and why:

1. a few commands never run, whoever wants them;
2. what the user forbids is forbidden, whatever else says yes;
3. plan mode changes nothing, so no grant or rule may come before it;
4. a notebook that a front end holds is not written, whoever approves: the change would be lost;
5. what may change anything, or a file that is there, asks while undo could not restore it, also where everything runs unasked;
6. sensitive paths, then paths outside the workspace, ask even when a grant or a rule would allow the tool;
7. what was approved for this session;
8. what the user's configuration allows;
9. what the policy in force lets through by risk;
10. everything else asks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from kin_nb.core.modes import AgentMode, Policy
from kin_nb.core.safety.decision import Decision, Risk, ToolRequest, Verdict
from kin_nb.core.safety.grants import Grants
from kin_nb.core.safety.shell.dangerous import danger
from kin_nb.core.sensitive_names import Access
from kin_nb.core.tool_types import ToolPermission
from kin_nb.core.workspace import Workspace


@dataclass(frozen=True)
class SafetyContext:
    """What the policies may look at.

    `rule`: what the configuration has for this tool (permission, allowlist, denylist), None when it has nothing; `rule_reason`
    says why. `open_files`: resolved paths of files that a front end holds in memory, and will write over. `without_undo`: the
    sentence that says why undo cannot restore what a call changes now, "" when it can.
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
    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        """None passes the question on to the next policy."""


class DenyDangerousCommands:
    """What nobody means never runs, not even where everything runs unasked: see shell/dangerous.py."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        why = "" if call.command is None else danger(call.command, context.workspace.root)
        if not why:
            return None
        return Decision.deny(f"{why}. No mode and no rule allows that; a person can do it in a terminal")


class DenyRules:
    """What the user's configuration forbids (permission = "never", or a denylist pattern) never runs."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.rule is not ToolPermission.NEVER:
            return None
        told = f"your configuration forbids this call of {call.tool_name} ([tools.{call.tool_name}])"
        return Decision.deny(context.rule_reason or told)


class DenyWhilePlanning:
    """Plan mode changes nothing, whatever grants and allow rules say (seed 003, modes)."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        changes_nothing_here = not (call.accesses.writes or call.accesses.everything)  # the network asks, as ever
        if context.mode is not AgentMode.PLAN or changes_nothing_here:
            return None
        what = f"{call.tool_name} {'may change something' if call.accesses.everything else 'changes files'}"
        if call.accesses.reason:
            what = f"only commands that are proven to change nothing run. This one is not: {call.accesses.reason}"
        return Decision.deny(
            f"plan mode is on, and {what}. Read with read_file, list_dir and grep; put what "
            "you would run or change into your plan. Only the person leaves plan mode (%kin mode default)"
        )


class DenyOpenFiles:
    """The notebook that is open stays as its front end has it. File tools only: what else writes names no paths."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        name = next((path.name for path in call.write_paths if path in context.open_files), None)
        if name is None:
            return None
        return Decision.deny(
            f"{name} is open in your front end, whose next save would overwrite the change; use the notebook tool, "
            "or ask the person to close it"
        )


class AskWithoutUndo:
    """What may change anything, or a file that is there, asks while undo could not restore it, in every mode.

    No grant and no rule meant that.
    """

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if not (context.without_undo and call.may_lose_content):
            return None
        return Decision.ask(context.without_undo)


class AskForSensitivePaths:
    """Secrets, files that run later and files that others obey ask every time: only yolo covers them.

    The names are in sensitive_names.py.
    """

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
    """Paths are compared after resolving every symlink: a link that leads out of the workspace is outside."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.policy is Policy.YOLO:
            return None
        for path in (*call.write_paths, *call.read_paths):
            if not context.workspace.contains(path):
                return Decision.ask(f"{path} is outside the workspace")
        return None


class AllowWhatWasGranted:
    """What a person approved "for this session", within the scope that the button named."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        grant = context.grants.covering(call, context.workspace)
        return Decision.allow(f"approved for this session: {grant.label}") if grant else None


class AllowRules:
    """What the user's configuration allows (permission = "always", or an allowlist pattern)."""

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.rule is not ToolPermission.ALWAYS:
            return None
        return Decision.allow(f"your configuration allows this call of {call.tool_name} ([tools.{call.tool_name}])")


class AllowByRisk:
    """What the policy in force lets through (seed 004); everything else goes on to be asked.

    strict: reads that are no commands. on-request: also commands that are proven to only read. auto-edit: also edits of
    existing files of the workspace; a new file asks. yolo: everything. Where the workspace is the home folder or above
    it, no policy but yolo lets a call touch files unasked.
    """

    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None:
        if context.policy is Policy.YOLO:
            return Decision.allow("auto-approve: everything runs unasked")
        if context.workspace.too_wide and (call.read_paths or call.write_paths):
            return None
        risk = risk_of(call, context.workspace)
        if risk is Risk.LOW and call.command is None:
            return Decision.allow("only reads inside the workspace")
        if risk is Risk.LOW and context.policy is not Policy.STRICT:
            return Decision.allow("a command that is proven to only read")
        if risk is Risk.MEDIUM and context.policy is Policy.AUTO_EDIT and _edits_only(call):
            return Decision.allow("accept-edits: edits of existing files run unasked")
        return None


def _edits_only(call: ToolRequest) -> bool:
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
"""Who signs when no policy had an answer."""


def decide(call: ToolRequest, context: SafetyContext, chain: tuple[SafetyPolicy, ...] = CHAIN) -> Decision:
    """The first answer, signed with the policy's name; asking when nobody has one."""
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
        unproven = f" not proven to only read ({call.accesses.reason})" if call.accesses.reason else ""
        return f"runs a command{unproven}"
    if call.accesses.everything:
        return f"may touch anything{f': {call.accesses.reason}' if call.accesses.reason else ''}"
    if call.accesses.network:
        return "uses the network"
    if call.accesses.writes:
        return "changes files"
    return "reads files" if call.accesses.reads else "acts"


def risk_of(call: ToolRequest, workspace: Workspace) -> Risk:
    """Low: only reads. Medium: writes files. High: all else, and whatever is outside the workspace or sensitive.

    What a tool does not declare is high: commands that are not proven to read only, and with them every deletion; requests
    to the network; MCP servers, whatever they say of themselves.
    """
    if call.accesses.everything or call.accesses.network:
        return Risk.HIGH
    if not all(map(workspace.contains, (*call.read_paths, *call.write_paths))):
        return Risk.HIGH
    if any(map(workspace.is_sensitive, call.read_paths)):
        return Risk.HIGH
    if any(workspace.is_sensitive(path, "write") for path in call.write_paths):
        return Risk.HIGH
    return Risk.MEDIUM if call.accesses.writes else Risk.LOW


def ways_to_allow(call: ToolRequest, context: SafetyContext) -> tuple[str, ...]:
    """What would let this very call run unasked, in a person's words, found by asking the chain; the least first."""

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
