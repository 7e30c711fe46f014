"""The one place where it is decided whether a call runs: an ordered chain, first answer wins.

The order, and why:
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

from dataclasses import replace
from typing import Any, Protocol

from kin_nb.core.modes import AgentMode
from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import Decision, ToolRequest, Verdict
from kin_nb.core.safety.policies.allow_rules import AllowRules
from kin_nb.core.safety.policies.dangerous_commands import DenyDangerousCommands
from kin_nb.core.safety.policies.deny_rules import DenyRules
from kin_nb.core.safety.policies.open_files import DenyOpenFiles
from kin_nb.core.safety.policies.outside_workspace import AskOutsideWorkspace
from kin_nb.core.safety.policies.plan_guard import DenyWhilePlanning
from kin_nb.core.safety.policies.risk import AllowByRisk
from kin_nb.core.safety.policies.sensitive_paths import AskForSensitivePaths
from kin_nb.core.safety.policies.session_grants import AllowWhatWasGranted
from kin_nb.core.safety.policies.without_undo import AskWithoutUndo
from kin_nb.core.safety.risk import is_command
from kin_nb.core.tool_types import ToolPermission


class SafetyPolicy(Protocol):
    def decide(self, call: ToolRequest, context: SafetyContext) -> Decision | None: ...


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
    return replace(Decision.ask(f"{call.tool_name} {_what(call)}; {why}"), policy=ASK)


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


def _what(call: ToolRequest) -> str:
    if is_command(call):
        unproven = f" not proven to only read ({call.accesses.reason})" if call.accesses.reason else ""
        return f"runs a command{unproven}"
    if call.accesses.everything:
        return f"may touch anything{f': {call.accesses.reason}' if call.accesses.reason else ''}"
    if call.accesses.network:
        return "uses the network"
    if call.accesses.writes:
        return "changes files"
    return "reads files" if call.accesses.reads else "acts"
