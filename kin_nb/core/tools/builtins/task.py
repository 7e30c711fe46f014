"""task: let a subagent do a piece of work in its own conversation; its last message is the result (core/subagent.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, Field, field_validator

from kin_nb.core.records import RecordedCall, TurnRecord
from kin_nb.core.text import counted
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError, ToolPermission
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.call_context import call_context

_LONGEST_TITLE = 80


class TaskArgs(BaseModel):
    description: str = Field(description="Short title, 3 to 6 words")
    prompt: str = Field(min_length=1, description="The task, with everything that the subagent must know")
    profile: Literal["explore", "general"] = Field("explore", description="explore only reads; general has your tools")

    @field_validator("description")
    @classmethod
    def _on_one_line(cls, description: str) -> str:
        words = "".join(c if c.isprintable() else " " for c in description).split()
        return " ".join(words)[:_LONGEST_TITLE]


class TaskResult(BaseModel):
    """`text`: the subagent's last message. `did`: one line of numbers about its work."""

    text: str
    did: str


class TaskConfig(BaseToolConfig):
    """The call itself runs without asking: each of the subagent's own calls is decided. `max_steps`: its model requests."""

    permission: ToolPermission = ToolPermission.ALWAYS
    max_steps: int = Field(30, ge=1, le=1000)


class TaskState(BaseToolState):
    """`played`: replaces subagents in a replay. By a call's id, a function that returns the recorded call as the answer."""

    played: dict[str, Callable[[], RecordedCall]] = Field(default_factory=dict)


class Task(BaseTool[TaskArgs, TaskResult, TaskConfig, TaskState]):
    description: ClassVar[str] = "Give a task to a subagent"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")

    def accesses(self, args: TaskArgs) -> Accesses:
        """Exploring reads the workspace, so it runs in parallel with other calls that read."""
        return Accesses(reads=(".",)) if args.profile == "explore" else Accesses(everything=True)

    def preview(self, args: TaskArgs) -> Preview:
        return Preview(summary=f"{args.profile}: {args.description}", body=args.prompt)

    async def run(self, args: TaskArgs) -> TaskResult:
        """Raises ToolError if the subagent failed, or was stopped before its first message."""
        from kin_nb.core.tools.subagent_profiles import PROFILES  # noqa: PLC0415  (it imports tools)

        call = call_context.get()
        if call is None:
            raise ToolError("A subagent can only run inside an agent's turn.")
        play = self.state.played.get(call.call_id)
        if play is not None:
            return _played(play())
        turn = await call.spawn(
            call,
            PROFILES[args.profile],
            title=args.description,
            prompt=args.prompt,
            max_steps=self.config.max_steps,
        )
        return _result(turn)

    def to_model(self, result: TaskResult) -> str:
        return "\n".join(filter(None, (result.text, result.did)))


def _result(turn: TurnRecord) -> TaskResult:
    message = next((step.content for step in reversed(turn.steps) if step.content.strip()), "")
    tokens = turn.prompt_tokens + turn.completion_tokens
    work = f"{counted(len(turn.steps), 'model request')}, {counted(len(turn.calls), 'tool call')}, {tokens:,} tokens"
    did = f"[subagent: {work}]"
    if turn.outcome == "done":
        return TaskResult(text=message, did=did)
    why = f"The subagent {'failed' if turn.outcome == 'error' else 'was stopped'}: {turn.message}"
    if turn.outcome == "error" or not message:
        raise ToolError("\n".join(filter(None, (why, message and f"Its last message: {message}", did))))
    return TaskResult(text=message, did=f"[{why}]\n{did}")


def _played(recorded: RecordedCall) -> TaskResult:
    if recorded.status != "ok":
        raise ToolError(recorded.output)
    return TaskResult(text=recorded.output, did="")
