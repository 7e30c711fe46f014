"""ask_user: ask the user a question; the answer is the result."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, Field, field_validator

from kin_nb.core.callback_errors import unless_cancelled
from kin_nb.core.questions import Question, no_user
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolPermission
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.call_context import call_context

MAX_CHOICES = 6
LONGEST_QUESTION = 4_000
LONGEST_CHOICE = 200
"""Characters: each choice is shown on a button."""


class AskUserArgs(BaseModel):
    question: str = Field(description="The question, in one or two sentences")
    choices: list[str] = Field(
        default_factory=list, max_length=MAX_CHOICES, description="Answers to choose from, one short line each"
    )
    multiple: bool = Field(default=False, description="Let the user choose several")

    @field_validator("question")
    @classmethod
    def _check_length(cls, question: str) -> str:
        if not question.strip() or len(question) > LONGEST_QUESTION:
            raise ValueError(f"must have 1 to {LONGEST_QUESTION:,} characters, got {len(question.strip()):,}")
        return question.strip()

    @field_validator("choices")
    @classmethod
    def _check_choices(cls, choices: list[str]) -> list[str]:
        choices = [choice.strip() for choice in choices]
        if any(not choice or len(choice) > LONGEST_CHOICE or "\n" in choice for choice in choices):
            raise ValueError(f"each choice must be one line of 1 to {LONGEST_CHOICE} characters")
        if len(set(choices)) < len(choices):
            raise ValueError("two choices are the same")
        return choices


class AskUserResult(BaseModel):
    """`answer`: the chosen choices verbatim, one per line; or the user's own words."""

    answer: str


class AskUserConfig(BaseToolConfig):
    permission: ToolPermission = ToolPermission.ALWAYS


class AskUser(BaseTool[AskUserArgs, AskUserResult, AskUserConfig, BaseToolState]):
    description: ClassVar[str] = "Ask the user a question and wait for the answer"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")

    def accesses(self, args: AskUserArgs) -> Accesses:  # noqa: ARG002
        return Accesses()

    def preview(self, args: AskUserArgs) -> Preview:
        return Preview(summary=args.question, body=args.model_dump_json(indent=2))

    async def run(self, args: AskUserArgs) -> AskUserResult:
        """Raises ToolError without a user who can answer."""
        call = call_context.get()
        ask, call_id = (call.ask_question, call.call_id) if call else (no_user, "")
        answer = await unless_cancelled(ask(Question(args.question, tuple(args.choices), args.multiple, call_id)))
        return AskUserResult(answer=answer)

    def to_model(self, result: AskUserResult) -> str:
        return result.answer
