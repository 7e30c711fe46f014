"""task: a subagent does a piece of work in a conversation of its own; its last words are the result (core/subagents)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, Field, field_validator

from kin_nb.core.records import RecordedCall, TurnRecord
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError, ToolPermission
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.call_context import call_context

_LONGEST_TITLE = 80


class TaskArgs(BaseModel):
    description: str = Field(description="3 to 6 words")
    prompt: str = Field(min_length=1, description="The task, with all it must know")
    profile: Literal["explore", "general"] = "explore"

    @field_validator("description")
    @classmethod
    def _on_one_line(cls, description: str) -> str:
        words = "".join(c if c.isprintable() else " " for c in description).split()
        return " ".join(words)[:_LONGEST_TITLE]


class TaskResult(BaseModel):
    """`text`: what the subagent said last. `did`: how it came to that, in a line."""

    text: str
    did: str


class TaskConfig(BaseToolConfig):
    """The call itself runs unasked: what the subagent does is decided call by call. `max_steps`: its requests to the model."""

    permission: ToolPermission = ToolPermission.ALWAYS
    max_steps: int = Field(30, ge=1, le=1000)


class TaskState(BaseToolState):
    """`played`: what takes the place of a subagent in a replay, by the call's id. The recorded call is the answer."""

    played: dict[str, Callable[[], RecordedCall]] = Field(default_factory=dict)


class Task(BaseTool[TaskArgs, TaskResult, TaskConfig, TaskState]):
    description: ClassVar[str] = "Give a task to a subagent"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")

    def accesses(self, args: TaskArgs) -> Accesses:
        """Exploring reads the workspace, and runs beside all else that reads."""
        return Accesses(reads=(".",)) if args.profile == "explore" else Accesses(everything=True)

    def preview(self, args: TaskArgs) -> Preview:
        return Preview(summary=f"{args.profile}: {args.description}", body=args.prompt)

    async def run(self, args: TaskArgs) -> TaskResult:
        """Raises ToolError when the subagent failed, or was stopped before it said anything."""
        from kin_nb.core.tools.subagent_profiles import PROFILES  # noqa: PLC0415  (it imports tools)

        call = call_context.get()
        if call is None:
            raise ToolError("A subagent needs an agent that runs this call.")
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
    said = next((step.content for step in reversed(turn.steps) if step.content.strip()), "")
    tokens = turn.prompt_tokens + turn.completion_tokens
    did = f"[subagent: {_count(len(turn.steps), 'step')}, {_count(len(turn.calls), 'tool call')}, {tokens:,} tokens]"
    if turn.outcome == "done":
        return TaskResult(text=said, did=did)
    why = f"The subagent {'failed' if turn.outcome == 'error' else 'was stopped'}: {turn.message}"
    if turn.outcome == "error" or not said:
        raise ToolError("\n".join(filter(None, (why, said and f"It had said: {said}", did))))
    return TaskResult(text=said, did=f"[{why}]\n{did}")


def _played(recorded: RecordedCall) -> TaskResult:
    if recorded.status != "ok":
        raise ToolError(recorded.output)
    return TaskResult(text=recorded.output, did="")


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
