"""A tool that overrides `invoke`: the agent calls it, with the arguments that were approved."""

from __future__ import annotations

import sys
from typing import Annotated, Any
from uuid import uuid4

import pytest
from pydantic import AliasChoices, BaseModel, Field, RootModel

from kin_nb.core.compat.tool_registry import ToolRegistry
from kin_nb.core.safety.decision import ApprovalDecision
from kin_nb.core.tool_types import BaseToolConfig, BaseToolState, ToolError
from kin_nb.core.tools.arguments import raw_arguments
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.discovery import usable_name
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn


class NoteArgs(BaseModel):
    text: Annotated[str, Field(validation_alias=AliasChoices("text", "body"))]
    times: int = 1


class NoteResult(BaseModel):
    said: str


class Note(BaseTool[NoteArgs, NoteResult, BaseToolConfig, BaseToolState]):
    description = "Take a note"
    validated: list[dict[str, Any]]
    invoked: list[dict[str, Any]]

    @classmethod
    def parse_args(cls, raw: dict[str, Any]) -> NoteArgs:
        cls.validated.append(raw)
        return super().parse_args(raw)

    async def run(self, args: NoteArgs) -> NoteResult:
        return NoteResult(said=args.text * args.times)

    def to_model(self, result: NoteResult) -> str:
        return result.said


class Shouting(Note):
    async def invoke(self, **raw: Any) -> NoteResult:
        self.invoked.append(raw)
        return await super().invoke(**{**raw, "text": raw["text"].upper()})


class Failing(Note):
    async def invoke(self, **raw: Any) -> NoteResult:
        if raw["text"] == "exit":
            sys.exit(3)
        raise ToolError("no notes today") if raw["text"] == "expected" else ValueError(raw["text"])


@pytest.fixture
def called(agent, model_server):
    """One turn in which the model calls the tool, and the approver answers so: the call's record."""

    async def called(tool: type[Note], answer: ApprovalDecision | None = None, **arguments: Any):
        async def ask(_):
            return answer or ApprovalDecision(True)

        tool.validated, tool.invoked = [], []
        agent.tool_manager.add(tool)
        agent.set_ask(ask)
        model_server.enqueue(calls=[tool_call(tool.get_name(), **arguments)])
        model_server.enqueue("Done.")
        return (await run_turn(agent))[-1].record.calls[0]

    return called


async def test_an_overridden_invoke_gets_the_arguments_of_the_call(called):
    call = await called(Shouting, body="hi", never_shown="x")
    assert (call.status, call.output) == ("ok", "HI")
    assert Shouting.invoked == [{"text": "hi"}], "by their own names, and nothing that nobody has approved"


async def test_an_overridden_invoke_gets_the_arguments_as_they_were_edited(called):
    answer = ApprovalDecision(True, edited_args={"text": "mine", "times": 2})
    call = await called(Shouting, answer, text="asked")
    assert call.output.endswith("\nMINEMINE")
    assert Shouting.invoked == [{"text": "mine", "times": 2}]


async def test_a_refused_call_is_not_invoked(called):
    call = await called(Shouting, ApprovalDecision(False, "no"), text="hi")
    assert (call.status, Shouting.invoked) == ("refused", [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("expected", "no notes today"),
        ("surprise", "failing failed: ValueError: surprise"),
        ("exit", "failing failed: it raised SystemExit."),
    ],
)
async def test_what_an_overridden_invoke_raises_is_the_calls_error(called, text, said):
    call = await called(Failing, text=text)
    assert (call.status, call.output) == ("error", said)


async def test_arguments_are_validated_once_where_invoke_is_not_overridden(called):
    call = await called(Note, text="hi")
    assert (call.output, Note.validated) == ("hi", [{"text": "hi"}])


async def test_a_program_that_executes_a_tool_calls_invoke_too(agent):
    Shouting.validated, Shouting.invoked = [], []
    agent.tool_manager.add(Shouting)
    assert await ToolRegistry(agent.tool_manager).execute("shouting", {"text": "hi"}) == "HI"


def test_a_tool_whose_invoke_cannot_be_awaited_is_not_offered():
    class Plain(Note):
        def invoke(self, **_: Any) -> NoteResult:
            return NoteResult(said="")

    with pytest.raises(ValueError, match=r"^its invoke is not `async def`$"):
        usable_name(Plain)


class Many(BaseModel):
    renamed: int = Field(alias="other")
    only_read: str = Field(validation_alias="given")
    made: str = Field(default_factory=lambda: uuid4().hex)
    sloppy: int = None  # type: ignore[assignment]


def test_validated_arguments_can_be_validated_again():
    args = Many.model_validate({"other": 1, "given": "x"})
    assert raw_arguments(args) == {"other": 1, "given": "x", "made": args.made}
    assert Many.model_validate(raw_arguments(args)) == args


def test_arguments_that_are_any_object_stay_as_they_are():
    class Any_(RootModel[dict[str, Any]]): ...  # noqa: N801

    assert raw_arguments(Any_({"a": [1], "self": None})) == {"a": [1], "self": None}
