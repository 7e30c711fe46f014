"""ApprovalGate: decide whether a tool call runs.

The safety chain (core.safety) decides. If it asks, the user gets one question at a time, in call order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kin_nb.core.callback_errors import failure, must_propagate, unless_cancelled
from kin_nb.core.events import ApprovalDecisionEvent, ApprovalRequestEvent, BaseEvent
from kin_nb.core.records import RecordedCall, RecordedDecision
from kin_nb.core.safety.approvals import Approvals
from kin_nb.core.safety.audit import AuditEntry, AuditLog
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest, Decision, Grant, Risk, Scope, Verdict
from kin_nb.core.safety.grants import remember, save_rule, scopes
from kin_nb.core.safety.policies import ASK, AskWithoutUndo, SafetyContext, decide, risk_of, ways_to_allow
from kin_nb.core.session.recorder import TurnRecorder
from kin_nb.core.tool_types import Preview, ToolDecision, ToolError, ToolPermission
from kin_nb.core.tools.edited import chosen_args, edit_note, editable
from kin_nb.core.tools.resolve import ResolvedToolCall, re_resolve, resolve_args
from kin_nb.core.workspace import decided_paths

Emit = Callable[[BaseEvent], Awaitable[None]]

_MOST_QUESTIONS = 3
_CHANGED = "not run: the files it would touch changed each time while the user was asked"
_DIFF = "diff"
_NO_PART = "no part of it"

NOT_RUN = ToolDecision(execute=False, reason="not run: the user stopped the turn")
NO_TOOLS = ToolDecision(execute=False, reason="not run: this prompt must be answered without tools")


class ApprovalGate:
    """Decides the calls of one reply. `audit`: None without an audit log. `context`: read for each decision: modes change.

    `stopped_by_refusal`: the tool that the user refused without a note. The turn stops there.
    """

    def __init__(
        self,
        approvals: Approvals,
        recorder: TurnRecorder,
        audit: AuditLog | None,
        *,
        context: Callable[[], SafetyContext],
        warn: Callable[[str], None],
    ) -> None:
        self._approvals, self._recorder, self._audit_log = approvals, recorder, audit
        self._context, self._warn = context, warn
        self._ask = approvals.ask  # read once per reply: another cell may set another approver
        self._one_at_a_time = asyncio.Lock()
        self.stopped_by_refusal: str | None = None

    async def authorize(self, call: ResolvedToolCall, emit: Emit) -> tuple[ResolvedToolCall, ToolDecision]:
        """Decide and record a call. Return the call, which the user may have edited, and the decision.

        Raises ToolError for a call that would fail, instead of a question, and whatever a custom tool's own code raises.
        """
        if self._is_shut():
            return call, NOT_RUN
        if not self._approvals.allows_tools:
            return call, NO_TOOLS
        decision, preview = self._decide(call)
        answer: ApprovalDecision | None = None
        if decision.verdict is Verdict.ASK:
            async with self._one_at_a_time:
                if self._is_shut():
                    return call, NOT_RUN
                scripts: dict[str, str] | None = None
                for _ in range(_MOST_QUESTIONS):
                    call = re_resolve(call, self._context().workspace)
                    decision, preview = self._decide(call)  # the answer before may have been for the whole session
                    if decision.verdict is not Verdict.ASK:
                        answer = None
                        break
                    self._refuse_failing(call, preview)
                    before, scripts = scripts, call.tool.scripts(call.args)
                    decision = self._with_changed_scripts(decision, before, scripts)
                    answer = await self._asked(self._request(call, decision, preview), emit)
                    as_shown = call.tool.scripts(call.args) == scripts and self._is_as_shown(call, preview, answer)
                    if not answer.approved or as_shown:
                        break
                else:
                    answer = ApprovalDecision(False, _CHANGED, by="headless")
                return await self._settled(call, decision, preview, answer)
        return await self._settled(call, decision, preview, None)

    async def ask_within(self, request: ApprovalRequest) -> ApprovalDecision:
        """Ask for a subagent of a running call. Its questions wait in the same queue; a refusal without a note stops the turn."""
        async with self._one_at_a_time:
            if self._is_shut():
                return ApprovalDecision(False)
            answer = await self._answer(request)
            if not answer.approved and not answer.message and answer.by == "person":
                self.stopped_by_refusal = request.tool_name
            return answer

    def audit(self, call: ResolvedToolCall, decided: RecordedCall, *, same_as: str | None = None) -> None:
        """Write the call's line in the audit log. `same_as`: the call whose decision and answer it shares."""
        if self._audit_log is None:
            return
        workspace = self._context().workspace
        entry = AuditEntry.of(
            decided,
            session=self._recorder.session_id,
            turn=self._recorder.record.turn,
            risk=risk_of(call.request, workspace),
            workspace=workspace.root,
            same_as=same_as,
        )
        self._audit_log.record(entry)

    def _is_as_shown(self, call: ResolvedToolCall, preview: Preview, answer: ApprovalDecision) -> bool:
        """Whether the call still touches the same files, and changes them as the user saw.

        Meanwhile a link may have replaced a file, or another program may have written it; the approved call would undo that.
        """
        if re_resolve(call, self._context().workspace).request != call.request:
            return False
        now = self._preview(call)
        if answer.hunks is None and _DIFF not in {preview.kind, now.kind}:
            return True  # a command, or the preview of a custom tool
        return (now.kind, now.body, now.texts) == (preview.kind, preview.body, preview.texts)

    def _refuse_failing(self, call: ResolvedToolCall, preview: Preview) -> None:
        """Raise ToolError if the call would fail. Other files than the workspace's ask first: the error may quote them."""
        workspace = self._context().workspace
        writes = bool(call.request.accesses.writes)
        if preview.error and writes and not workspace.too_wide and risk_of(call.request, workspace) is Risk.MEDIUM:
            raise ToolError(preview.error)

    def _with_changed_scripts(self, decision: Decision, before: dict[str, str] | None, now: dict[str, str]) -> Decision:
        """The decision for the next question, which names changed scripts. `before`: the scripts at the previous question."""
        if before is None or before == now:
            return decision
        changed = sorted(path for path in {*before, *now} if before.get(path) != now.get(path))
        names = ", ".join(self._context().workspace.relative(Path(path)) for path in changed)
        return replace(decision, reason=f"{names} changed while you were asked: {decision.reason}")

    def _is_shut(self) -> bool:
        return self.stopped_by_refusal is not None

    async def _asked(self, request: ApprovalRequest, emit: Emit) -> ApprovalDecision:
        await emit(ApprovalRequestEvent(request=request))
        answer = await self._answer(request)
        await emit(ApprovalDecisionEvent(tool_call_id=request.tool_call_id, decision=answer))
        return answer

    async def _answer(self, request: ApprovalRequest) -> ApprovalDecision:
        """The approver's answer. If the approver fails, the call is refused, with a warning."""
        try:
            answer: Any = await unless_cancelled(self._ask(request))
            if isinstance(answer, ApprovalDecision):
                return answer
            raise TypeError(f"it returned {type(answer).__name__}, not an ApprovalDecision")  # noqa: TRY301
        except BaseException as error:
            if must_propagate(error):
                raise
            why = f"the approval callback {failure(self._approvals.callback or self._ask, error)}"
            self._warn(f"{request.tool_name} was refused: {why}")
            return ApprovalDecision(False, f"{request.tool_name} was refused: {why}", by="headless")

    async def _settled(
        self, call: ResolvedToolCall, decision: Decision, preview: Preview, answer: ApprovalDecision | None
    ) -> tuple[ResolvedToolCall, ToolDecision]:
        if answer is not None:
            try:
                answer = _with_arguments(call, preview, answer)
                edited = self._as_edited(call, preview, answer.edited_args)
            except ToolError as error:
                return await self._denied(call, decision, preview, f"it cannot run as the user edited it: {error}")
            if edited is call:
                answer = replace(answer, edited_args=None)
            else:
                call, (again, preview) = edited, self._decide(edited)
                if again.verdict is Verdict.DENY:  # an edit cannot allow a forbidden call
                    return await self._denied(call, again, preview, f"as the user edited it: {again.reason}")
                if again.verdict is Verdict.ASK:  # the user's own edit needs no second question
                    decision = again
        recorded = await self._record(call, decision, answer, preview.summary)
        return call, self._tool_decision(call, recorded)

    async def _denied(
        self, call: ResolvedToolCall, decision: Decision, preview: Preview, reason: str
    ) -> tuple[ResolvedToolCall, ToolDecision]:
        denied = replace(decision, verdict=Verdict.DENY, reason=reason)
        return call, self._tool_decision(call, await self._record(call, denied, None, preview.summary))

    def _as_edited(self, call: ResolvedToolCall, preview: Preview, args: dict[str, Any] | None) -> ResolvedToolCall:
        """The call with edited arguments; `call` itself if they are the same. Raises ToolError for invalid arguments."""
        if args is None:
            return call
        workspace = self._context().workspace
        edited = resolve_args(call.tool_name, call.call_id, call.tool, args, workspace)
        if edited.args == call.args:
            return call
        previews = (preview, self._preview(edited))
        line = edit_note(call, edited, previews, redact=self._recorder.redact, root=str(workspace.root))
        return replace(edited, edited=line)

    def _decide(self, call: ResolvedToolCall) -> tuple[Decision, Preview]:
        return decide(call.request, self._context_for(call)), self._preview(call)

    def _preview(self, call: ResolvedToolCall) -> Preview:
        """Raises ToolError if the tool returns no Preview, and whatever its own code raises."""
        with _paths_of(call):
            preview: Any = call.tool.preview(call.args)
        if not isinstance(preview, Preview) or not (isinstance(preview.summary, str) and isinstance(preview.body, str)):
            raise ToolError(f"{call.tool_name} was not run: its preview() must return a Preview.")
        workspace = self._context().workspace
        if all(
            workspace.contains(path) and not workspace.is_sensitive(path, "write") for path in call.request.write_paths
        ):
            return preview
        return replace(preview, texts=None)  # approving parts would show the model lines that it may not read

    def _context_for(self, call: ResolvedToolCall) -> SafetyContext:
        """The context with the rule that the config has for this call: permission, allowlist or denylist."""
        rule = call.tool.check_allowlist_denylist(call.args)
        if rule is None and call.tool.config.permission is not ToolPermission.ASK:
            rule = call.tool.config.permission
        reason = call.tool.why_denied(call.args) if rule is ToolPermission.NEVER else ""
        return replace(self._context(), rule=rule, rule_reason=reason)

    def _request(self, call: ResolvedToolCall, decision: Decision, preview: Preview) -> ApprovalRequest:
        workspace = self._context().workspace
        return ApprovalRequest(
            tool_name=call.tool_name,
            args=call.args,
            tool_call_id=call.call_id,
            reason=decision.reason,
            preview=preview,
            scopes=self._on_offer(call, decision),
            risk=risk_of(call.request, workspace),
            editable=editable(call),
            writes_outside=not all(map(workspace.contains, call.request.write_paths)),
            without_undo=decision.policy == AskWithoutUndo.__name__,
            ways_to_allow=ways_to_allow(call.request, self._context_for(call)),
        )

    def _on_offer(self, call: ResolvedToolCall, decision: Decision) -> tuple[Grant, ...]:
        """The grants to offer. No grant covers a sensitive path or one outside the workspace, so none is offered for those."""
        return scopes(call.request, self._context().workspace) if decision.policy == ASK else ()

    async def _record(
        self, call: ResolvedToolCall, decision: Decision, answer: ApprovalDecision | None, summary: str
    ) -> RecordedDecision:
        if answer is None:
            allowed = decision.verdict is Verdict.ALLOW
            recorded = RecordedDecision(
                verdict="allow" if allowed else "deny", by=decision.policy, reason=decision.reason
            )
        else:
            scope = await self._remember(call, answer, self._on_offer(call, decision))
            recorded = RecordedDecision(
                verdict="allow" if answer.approved else "deny",
                by=answer.by,
                reason=decision.reason,
                scope=scope,
                note=answer.message,
            )
        edited = call.args.model_dump_json(exclude_none=True) if answer and answer.edited_args is not None else None
        decided = self._recorder.run(call.call_id, decision=recorded, summary=summary, edited_arguments=edited)
        self.audit(call, decided)
        return recorded

    async def _remember(self, call: ResolvedToolCall, answer: ApprovalDecision, offered: tuple[Grant, ...]) -> Scope:
        """Store the approval's grant, and return the scope that could be stored. A failure is a warning."""
        if answer.scope == "once":
            return "once"
        grants, save = self._context().grants, partial(save_rule, tool_name=call.tool_name)
        # another writer may hold config.toml for seconds
        problem = await asyncio.to_thread(remember, answer, offered, grants, save)
        if problem:
            self._warn(problem)
        if not 0 <= answer.grant < len(offered) or not grants.holds(offered[answer.grant]):
            return "once"
        return "session" if problem or answer.by != "person" else answer.scope

    def _tool_decision(self, call: ResolvedToolCall, recorded: RecordedDecision) -> ToolDecision:
        """The decision with the message for the model if the call does not run."""
        if recorded.verdict == "allow":
            return ToolDecision(execute=True)
        reason = "The user refused this call."
        if recorded.by == "headless":
            reason = recorded.note or recorded.reason
        elif recorded.by not in {"person", "callback", "recorded"}:
            reason = f"{call.tool_name} was refused: {recorded.reason}"
        elif recorded.note:
            reason = f"The user refused this call, with the note: {recorded.note}"
        elif recorded.by == "person":
            self.stopped_by_refusal = call.tool_name
        return ToolDecision(execute=False, reason=reason)


@contextmanager
def _paths_of(call: ResolvedToolCall) -> Iterator[None]:
    """Make a preview read the same resolved paths as the decision."""
    token = decided_paths.set(call.request.resolved)
    try:
        yield
    finally:
        decided_paths.reset(token)


def _with_arguments(call: ResolvedToolCall, preview: Preview, answer: ApprovalDecision) -> ApprovalDecision:
    """The answer with its chosen hunks as arguments; a refusal if no hunk was chosen. Raises ToolError."""
    if not answer.approved:
        return replace(answer, edited_args=None, hunks=None)
    if answer.hunks is None or answer.edited_args is not None:
        return answer
    if not answer.hunks:
        return replace(answer, approved=False, message=answer.message or _NO_PART)
    return replace(answer, edited_args=chosen_args(call, preview, answer.hunks))
