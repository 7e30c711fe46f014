"""The tools in whole turns of an agent: who is asked, what is recorded, what a mode forbids."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from kin_nb.core.agent import Agent
from kin_nb.core.events import ToolOutputEvent
from kin_nb.core.modes import AgentMode
from kin_nb.core.safety.decision import ApprovalDecision
from kin_nb.core.tool_types import BaseToolConfig, BaseToolState
from kin_nb.core.tools.base import BaseTool
from kin_nb.notebook.approval.widget import choices
from kin_nb.notebook.magics import KinMagics
from kin_nb.notebook.main_thread_loop import TurnInterrupted
from kin_nb.notebook.namespace import add_namespace_tools, namespace_tools
from tests.model_server import tool_call


@pytest.fixture
def play(shell, config, in_turn, model_server):
    """`play(calls...)`: one turn in which the model makes these calls; returns its record. `inside`: a subagent's calls."""

    def run(*calls, inside=(), mode=AgentMode.AUTO_APPROVE, ask=None, open_files=(), tools=()):
        agent = Agent(config, mode)
        agent.approvals.open_files = frozenset(open_files)
        run.agent, run.events = agent, []
        add_namespace_tools(agent, shell)
        for tool in tools:
            agent.tool_manager.add(tool)
        if ask is not None:
            agent.set_ask(ask)
        model_server.enqueue(calls=list(calls))
        if inside:
            model_server.enqueue(calls=list(inside))
            model_server.enqueue("Looked.")
        model_server.enqueue("Done.")

        async def turn():
            try:
                async for event in agent.act("go"):
                    run.events.append(event)
            finally:
                await agent.aclose()

        in_turn(turn)
        return agent.turns[-1]

    return run


def test_what_python_changed_is_reported_beside_the_files_that_undo_brings_back(play, shell, workspace):
    code = f"from pathlib import Path\ntotal = 3\nwritten = Path({str(workspace / 'out.txt')!r}).write_text('3')"
    [call] = play(tool_call("python", code=code)).calls
    assert call.status == "ok"
    assert call.exit == 0
    assert [change.path for change in call.files] == ["out.txt"]
    assert call.not_covered == "variables: Path, total, written"
    assert shell.user_ns["total"] == 3


def test_what_a_stopped_call_had_changed_is_reported_too(play, shell, workspace):
    code = f"import pathlib\nn = pathlib.Path({str(workspace / 'out.txt')!r}).write_text('3')\nraise KeyboardInterrupt"
    with pytest.raises(TurnInterrupted):
        play(tool_call("python", code=code))
    [call] = play.agent.turns[-1].calls
    assert call.status == "interrupted"
    assert [change.path for change in call.files] == ["out.txt"]
    assert call.uncovered == "variables that it had changed when it was stopped"
    assert shell.user_ns["n"] == 1


class Nothing(BaseModel):
    pass


class Careless(BaseTool[Nothing, Nothing, BaseToolConfig, BaseToolState]):
    description = "Does not know what it did"

    async def run(self, args):
        return Nothing()

    def uncovered(self, result):
        raise ValueError("I forgot")


def test_a_tool_that_cannot_say_what_it_changed_has_done_its_work(play):
    [call] = play(tool_call("careless"), tools=[Careless]).calls
    assert call.status == "ok"
    assert call.uncovered == "its other changes are not known"


def test_output_is_live(play):
    play(tool_call("python", code="print('hello')"))
    assert "".join(e.text for e in play.events if isinstance(e, ToolOutputEvent)) == "hello\n"


def test_python_asks_and_says_why(play, shell):
    asked = []

    async def ask(request):
        asked.append(request)
        return ApprovalDecision(approved=False, message="not now")

    [call] = play(tool_call("python", code="x = 1"), mode=AgentMode.DEFAULT, ask=ask).calls
    assert "it runs in your notebook's kernel, where it can also change what kin_nb allows" in asked[0].reason
    assert [(grant.label, grant.may_last) for grant in asked[0].scopes] == [("every call of python", False)]
    assert [choice.decision.scope for choice in choices(asked[0])] == ["session"]
    assert asked[0].preview.body == "x = 1"
    assert call.status == "refused"
    assert "x" not in shell.user_ns


def test_plan_mode_lets_variables_be_read_and_runs_no_code(play, shell):
    shell.run_cell("n = 5")
    calls = play(
        tool_call("variables"),
        tool_call("python", code="n = 6"),
        tool_call("notebook", action="read"),
        mode=AgentMode.PLAN,
    ).calls
    assert [call.status for call in calls] == ["ok", "refused", "ok"]
    assert shell.user_ns["n"] == 5


def test_calls_of_one_reply_see_what_those_before_them_did(play):
    calls = play(
        tool_call("python", code="n = 1"),
        tool_call("variables", names=["n"], values=True),
        tool_call("python", code="n + 1"),
    ).calls
    assert "value:\n1" in calls[1].output
    assert calls[2].output == "2"


def test_an_error_in_the_code_is_an_answer_that_the_model_can_act_on(play, model_server):
    [call] = play(tool_call("python", code="1 / 0")).calls
    assert (call.status, call.exit) == ("ok", 1)
    assert "ZeroDivisionError" in model_server.requests[-1]["messages"][-1]["content"]


def test_the_notebook_that_is_open_is_not_written_by_other_tools(play, workspace):
    notebook = workspace / "work.ipynb"
    notebook.write_text("{}")
    (workspace / "link.ipynb").symlink_to(notebook)
    calls = play(
        tool_call("write_file", path="work.ipynb", content="x", overwrite=True),
        tool_call("edit_file", path="link.ipynb", old_string="{}", new_string="x"),
        tool_call("read_file", path="work.ipynb"),
        tool_call("write_file", path="other.ipynb", content="x"),
        open_files={notebook.resolve()},
    ).calls
    assert [call.status for call in calls] == ["refused", "refused", "ok", "ok"]
    assert "work.ipynb is open in your front end" in calls[0].output
    assert "use the notebook tool" in calls[0].output
    assert notebook.read_text() == "{}"


def test_a_name_that_the_persons_own_tool_has_stays_theirs_and_it_is_reported(shell, config):
    agent = Agent(config)
    theirs = namespace_tools(shell)["python"]
    agent.tool_manager.add(theirs)
    add_namespace_tools(agent, shell)
    tools = agent.tool_manager.available_tools()
    assert {"variables", "python", "notebook"} <= set(tools)
    assert tools["python"] is theirs
    assert agent.journal.warnings == ["python is not added: another tool has this name."]


def test_settings_found_again_keep_the_tools(shell, config):
    agent = Agent(config)
    add_namespace_tools(agent, shell)
    agent.switch_config(config.model_copy(update={"dmail": not config.dmail}))
    assert {"variables", "python", "notebook"} <= set(agent.tool_manager.available_tools())


EXPLORE = tool_call("task", description="look", prompt="Look.", profile="explore")


def test_a_subagent_that_explores_reads_variables(play, shell, model_server):
    shell.run_cell("prices = {'apple': 3}")
    [task] = play(EXPLORE, inside=[tool_call("variables", names=["prices"])]).calls
    assert [(call.name, call.status) for call in task.subagent.calls] == [("variables", "ok")]
    assert "  apple: int" in model_server.requests[2]["messages"][-1]["content"]


def test_a_subagent_that_explores_runs_no_code_and_inserts_no_cell(play, shell, model_server):
    inside = [tool_call("python", code="n = 1"), tool_call("notebook", action="insert", code="n")]
    [task] = play(EXPLORE, inside=inside).calls
    offered = {tool["function"]["name"] for tool in model_server.requests[1]["tools"]}
    assert offered.isdisjoint({"python", "notebook"})
    assert [(call.name, call.status) for call in task.subagent.calls] == [("python", "error"), ("notebook", "error")]
    assert "Unknown tool 'notebook'. Tools: " in model_server.requests[2]["messages"][-1]["content"]
    assert "n" not in shell.user_ns


@pytest.mark.parametrize("line", ["mode auto-approve", "--session other mode auto-approve", "help"])
def test_code_that_a_tool_runs_cannot_use_kin_and_the_person_still_can(play, shell, line):
    magics = KinMagics(shell)
    shell.register_magics(magics)
    code = f"get_ipython().run_line_magic('kin', {line!r})"
    again = "get_ipython().run_cell_magic('kin', '--mode auto-approve', 'go on')"
    first, second = play(tool_call("python", code=code), tool_call("python", code=again)).calls
    for call in (first, second):
        assert call.exit == 1
        assert "%kin and %%kin are not available to code that the agent runs." in call.output
    assert magics.session().live.mode is AgentMode.DEFAULT
    shell.run_line_magic("kin", "mode plan")
    assert magics.session().live.mode is AgentMode.PLAN
    magics.close()
