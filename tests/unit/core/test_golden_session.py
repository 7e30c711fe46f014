"""One long session, compared byte for byte with golden_session.json: records, log, requests and events.

It drives an agent by its public methods alone, so that the parts inside may be rebuilt while this stays green. After an
intended change of behaviour rewrite the file, and read its diff:

    KIN_REWRITE_GOLDEN=1 python -m pytest tests/unit/core/test_golden_session.py

What is normalised is listed in golden.Normaliser; golden.readable says what the file holds as a hash only.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.events import AssistantEvent, BaseEvent, CheckpointEvent, ToolOutputEvent, ToolResultEvent
from kin_nb.core.modes import AgentMode
from kin_nb.core.safety.approvals import ApprovalResponse
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from tests.model_server import ModelServer, tool_call
from tests.unit.core import golden

GOLDEN = Path(__file__).with_name("golden_session.json")
TOOLS = ["read_file", "write_file", "edit_file", "bash", "todo", "memory", "task", "send_dmail", "waits"]
PROMPT = "You are the agent of a golden session."
NEARLY_FULL, FULL = 8_100, 9_500
"""Tokens at which old results are pruned and the conversation is compacted: 80 and 90 per cent of the window."""

LOOK = tool_call("read_file", path="a.py")
YES = ApprovalDecision(approved=True)


def bash(command: str) -> dict[str, Any]:
    return tool_call("bash", command=command)


def write(path: str, content: str) -> dict[str, Any]:
    return tool_call("write_file", path=path, content=content, overwrite=True)


def edit(old: str, new: str, path: str = "a.py") -> dict[str, Any]:
    return tool_call("edit_file", path=path, old_string=old, new_string=new)


def task(profile: str, prompt: str) -> dict[str, Any]:
    return tool_call("task", description=f"{profile} the code", prompt=prompt, profile=profile)


def mail(checkpoint_id: int, message: str) -> dict[str, Any]:
    return tool_call("send_dmail", checkpoint_id=checkpoint_id, message=message)


class Session(golden.Recording):
    """The session's agent, the user who answers its questions, and the model's script."""

    def __init__(self, server: ModelServer, config: KinConfig) -> None:
        super().__init__()
        self.config, self.script = config, golden.Script(server)
        self.answers: deque[ApprovalDecision] = deque()
        self.questions = 0
        self.agent = Agent(config)
        self.agent.set_ask(self.answer)
        self.records_by_cell = threading.Event()
        """Never set: a reply that waits for it is interrupted."""

    @property
    def reply(self):
        return self.script.reply

    async def answer(self, _: ApprovalRequest) -> ApprovalDecision:
        self.questions += 1
        return self.answers.popleft()

    async def say(self, prompt: str, *answers: ApprovalDecision, **options: Any) -> list[BaseEvent]:
        """Run a turn in which the user is asked as many questions as there are answers."""
        self.questions = 0
        self.answers.extend(answers)
        events = await self.turn(self.agent, prompt, **options)
        assert self.questions == len(answers), prompt
        return events

    @property
    def last_checkpoint(self) -> int:
        """The highest id of a checkpoint so far."""
        events = [event for turn in self.turns for event in turn.get("events", ())]
        return max(event["checkpoint_id"] for event in events if event["event"] == "CheckpointEvent")

    async def undo(self, turns: int = 1) -> None:
        await self.command(f"undo {turns}", self.agent.undo(turns))

    async def redo(self) -> None:
        await self.command("redo", self.agent.redo())

    def switch(self, mode: AgentMode) -> None:
        self.agent.switch_mode(mode)
        self.note(f"mode {mode.value}")

    def configure(self, **settings: Any) -> None:
        self.agent.switch_config(self.config.model_copy(update=settings))
        self.note(f"settings {settings}")

    async def resume(self, **options: Any) -> None:
        """Close the agent and continue its stored session with another one, which has the same records."""
        records = self.agent.records
        await self.agent.aclose()
        self.agent = Agent.resume(self.config, **options)
        assert self.agent.records == records
        self.agent.set_ask(self.answer)
        self.note("resume")


async def talk(session: Session) -> None:
    """Replies with and without tools; several calls in one reply, one of them wrong, one failing, one repeated."""
    session.reply("Hello.", reasoning="They greet me.")
    await session.say("hello")
    session.reply("I look.", LOOK, reasoning="First the file.")
    session.reply(None, edit("x = 1", "x = 3"))
    session.reply("x is 3 now.")
    await session.say("make x 3", YES)
    session.reply("All at once.", tool_call("read_file"), edit("nowhere", "z"), edit("y = 2", "y = 4"), LOOK, LOOK)
    session.reply(None, bash("echo made > made.txt; echo error >&2; exit 3"), tool_call("no_such_tool", x=1))
    session.reply("Most of it worked.")
    await session.say("do several things", YES, YES)


async def ask(session: Session) -> None:
    """Calls that the user refuses with and without a note, edits, approves in part, or for the session."""
    session.reply(None, bash("touch refused"))
    session.reply("Then not.")
    await session.say("touch it", ApprovalDecision(approved=False, message="not now"))
    session.reply(None, bash("touch refused"), edit("x = 3", "x = 9"))
    await session.say("touch it after all", ApprovalDecision(approved=False))
    session.reply(None, bash("touch asked"))
    session.reply("It ran otherwise.")
    await session.say("touch again", ApprovalDecision(approved=True, edited_args={"command": "touch mine; echo ok"}))
    session.reply(None, write("long.txt", LONG.replace("line 01", "first").replace("line 30", "last")))
    session.reply("In part.")
    await session.say("change both ends", ApprovalDecision(approved=True, hunks=(1,)))
    session.reply(None, bash("touch one"), bash("touch two"))
    session.reply("Touched.")
    await session.say("touch two", ApprovalDecision(approved=True, scope="session"))


async def remember(session: Session) -> None:
    """Tools with a state of their own, and the seeds' approval callback."""
    todos = [{"id": "1", "content": "Look", "status": "completed"}, {"id": "2", "content": "Change"}]
    session.reply(None, tool_call("todo", action="write", todos=todos), tool_call("todo", action="read"))
    session.agent.approval_callback = lambda name, _args, _id: (ApprovalResponse.YES, f"{name} is fine")
    memory = tool_call("memory", action="write", name="style", description="Short names", text="As said.", scope="user")
    session.reply(None, memory)
    session.reply("Kept.")
    await session.say("plan, and remember my style")
    session.agent.set_ask(session.answer)


async def go_back(session: Session) -> None:
    """Undo of one turn and of several, redo, and a checkpoint in the middle of a turn."""
    await session.redo()
    await session.undo()
    await session.undo(2)
    await session.redo()
    await session.redo()
    await session.undo(2)
    session.reply("One.", write("one.txt", "one\n"))
    session.reply("Two.", write("two.txt", "two\n"))
    session.reply("Both.")
    events = await session.say("write two files", YES, YES)
    steps = [event.checkpoint_id for event in events if isinstance(event, CheckpointEvent) and event.kind == "step"]
    await session.command("revert to step 2", session.agent.revert_to(steps[1]))
    await session.command("revert to nowhere", session.agent.revert_to(999))
    session.reply("I continue after the first file.")
    await session.say("and now?")


async def plan(session: Session) -> None:
    """Another mode: its reminder in each request, and what it refuses."""
    session.switch(AgentMode.PLAN)
    session.reply(None, write("planned.txt", "no\n"))
    session.reply("I would write planned.txt.")
    await session.say("plan it")
    session.switch(AgentMode.DEFAULT)


async def delegate(session: Session) -> None:
    """A subagent that reads, and one whose change is approved by the user."""
    session.reply("I will ask.", task("explore", "Where is x?"))
    session.reply("Looking.", LOOK, reasoning="A subagent thinks.")
    session.reply("x is in a.py:1.")
    session.reply("It is in a.py.")
    await session.say("find x")
    session.reply(None, task("general", "Make x 5."))
    session.reply(None, edit("x = 3", "x = 5"), bash("mkdir refused"))
    session.reply("Done, but for the folder.")
    session.reply("x is 5.")
    await session.say("have x made 5", YES, ApprovalDecision(approved=False, message="no folders"))
    session.switch(AgentMode.AUTO_APPROVE)


async def send_mail(session: Session) -> None:
    """A D-Mail to before the turn's second step, with one that is refused; the undo of that turn, and its redo."""
    session.configure(dmail=True)
    session.reply("I look.", LOOK)
    session.reply("I write.", write("mail.txt", "y\n"))
    second = session.last_checkpoint + 3  # after that of the prompt, and of the first step
    session.reply("Back.", mail(0, "too far"), mail(second, "It is all in mail.txt."))
    session.reply("I know it already.")
    await session.say("write a mail")
    await session.undo()
    await session.redo()
    session.configure(dmail=False)


async def repeat(session: Session) -> None:
    """A large result, for `fill`; the same call again and again, with a reminder after the third."""
    session.reply("I read.", tool_call("read_file", path="many.txt"))
    for _ in range(4):
        session.reply(None, bash("cat a.py"))
    session.reply("It stays as it is.")
    await session.say("look until it changes")


async def fail(session: Session) -> None:
    """Model servers that refuse, that are busy for a moment, and that cut a reply off."""
    session.script.server.enqueue(status=400, body={"error": {"message": "no such option"}})
    await session.say("ask for what it cannot do")
    session.script.server.enqueue(status=503, headers={"retry-after": "0"}, body={"error": {"message": "busy"}})
    session.reply("Now it answers.")
    await session.say("ask again")
    session.reply("This text ends in the mid", finish_reason="length")
    await session.say("tell a long story")


async def interrupt(session: Session) -> None:
    """A reply whose generator is closed, a call whose task is cancelled, and the turn after both."""
    session.reply("I was about to", hold=session.records_by_cell)
    await session.say("talk", until=AssistantEvent)
    session.reply(None, bash("echo begun > begun.txt; echo begun; sleep 600"), bash("touch never"))
    await session.cancelled_turn(session.agent, "run it", after=ToolOutputEvent)
    session.reply("Where were we?")
    await session.say("continue")


async def run_together(session: Session) -> None:
    """Two calls at once: the first can end only after the second one's result was seen."""
    gate = golden.GATES[session.config.effective_workdir] = asyncio.Event()
    session.reply("Both.", tool_call("waits", n=7), bash("echo quick"))
    session.reply("Both ended.")
    async for event in session.events(session.agent, "run both"):
        if isinstance(event, ToolResultEvent) and event.call.output == "quick":
            gate.set()


async def fill(session: Session) -> None:
    """Old results that are pruned, a compaction before a turn's first step, one inside a turn, and two by hand."""
    session.reply("Nearly full.", tokens=NEARLY_FULL)
    await session.say("is it full?")
    session.reply("Pruned.", tokens=FULL)
    await session.say("go on")
    session.reply("Summary: x is 5.")
    session.reply("I look.", LOOK, tokens=FULL)
    session.reply("Summary: x is still 5.")
    session.reply("Done.")
    await session.say("is there room?")
    session.reply("Summary by hand.")
    await session.command("compact", session.agent.compact())
    session.script.server.enqueue(status=400, body={"error": {"message": "no summaries today"}})
    await session.command("compact", session.agent.compact())
    session.reply("I remember.")
    await session.say("what was it?")


async def begin_again(session: Session) -> None:
    """A new conversation, an undo that reaches before it, and its redo."""
    await session.command("clear", session.agent.clear_history())
    session.reply("Who are you?", write("fresh.txt", "fresh\n"))
    session.reply("Fresh.")
    await session.say("begin again")
    await session.undo(2)
    await session.redo()


async def come_back(session: Session) -> None:
    """The session stored and resumed: undo, redo, new turns, an undo before the resume, a limit on requests."""
    await session.resume(mode=AgentMode.AUTO_APPROVE)
    session.reply("Still here.", bash("echo stale > fresh.txt"))
    session.reply("Changed.")
    await session.say("change it")
    await session.undo()
    await session.resume(mode=AgentMode.AUTO_APPROVE)
    await session.redo()
    await session.undo(2)
    session.reply("One more.", LOOK)
    session.reply("Read.")
    await session.say("look once more")
    session.reply("By hand, after the resume.")
    await session.command("compact", session.agent.compact())
    await session.resume(mode=AgentMode.DEFAULT, max_turns=1)
    await session.say("one more?")
    await session.agent.aclose()


CHAPTERS = (
    *(talk, ask, remember, go_back, plan, delegate, send_mail, repeat),
    *(fail, interrupt, run_together, fill, begin_again, come_back),
)
LONG = "".join(f"line {number:02}\n" for number in range(1, 31))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """kin_nb's home, with a system prompt that is the test's own."""
    home = golden.padded(tmp_path, "home")
    (home / "prompts").mkdir()
    (home / "prompts" / "golden.md").write_text(PROMPT)
    monkeypatch.setenv("KIN_HOME", str(home))
    return home


@pytest.fixture
def config(home: Path, tmp_path: Path, model_server: ModelServer) -> KinConfig:
    workspace = golden.padded(tmp_path, "workspace")
    (workspace / "a.py").write_text("x = 1\ny = 2\n")
    (workspace / "long.txt").write_text(LONG)
    (workspace / "many.txt").write_text("many words\n" * 200)
    return KinConfig(
        workdir=workspace,
        active_model="m",
        providers=[ProviderConfig(name="p", api_base=model_server.url)],
        models=[ModelConfig(name="m", provider="p", context_window=10_000, input_price=1.0, output_price=2.0)],
        system_prompt_id="golden",
        include_prompt_detail=False,
        include_project_context=False,
        enabled_tools=TOOLS,
        tool_paths=[Path(__file__).with_name("golden_tools")],
        context_warnings=True,
    )


async def test_a_long_session_is_as_it_was(model_server: ModelServer, config: KinConfig, home: Path):
    session = Session(model_server, config)
    for chapter in CHAPTERS:
        await chapter(session)
    lines = session.agent.log.path.read_text().splitlines()
    log = [json.loads(line) for line in lines]
    assert lines == [json.dumps(line, separators=(",", ":")) for line in log]
    records = session.agent.records
    parts = {
        "records": [record.model_dump(mode="json") for record in records],
        "log": log,
        "requests": golden.requests_as_json(model_server),
        "turns": session.turns,
    }
    places = {str(config.workdir): "<workspace>", str(home): "<home>", model_server.url: "<server>"}
    assert session.script.replies == len(model_server.requests) - 3  # those that failed
    golden.assert_golden(GOLDEN, golden.Normaliser(records, places)(parts))
