"""The %kin commands that change the session, in a real kernel: what the next request holds, what the cell shows."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from notebook_client import LiveKernel, shown

from tests.model_server import ModelServer, tool_call

pytestmark = pytest.mark.kernel

CONFIG = """active_model = "m"
[[providers]]
name = "p"
api_base = "{url}"
[[models]]
name = "m"
provider = "p"
[[models]]
name = "other"
provider = "p"
"""
TOOL = """
from pydantic import BaseModel
from kin_nb.core.tools.base import BaseTool, BaseToolConfig, BaseToolState

class Args(BaseModel):
    text: str

class Shout(BaseTool[Args, Args, BaseToolConfig, BaseToolState]):
    description = "Say it louder"

    async def run(self, args):
        return Args(text=args.text.upper())
"""


@pytest.fixture
def home(tmp_path) -> Path:
    return tmp_path / "kin-home"


@pytest.fixture
def workspace(tmp_path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    return folder


@pytest.fixture
def kin(kernel, model_server: ModelServer, home: Path, workspace: Path) -> Iterator[LiveKernel]:
    """A kernel with a session of its own, in the workspace."""
    write(home / "config.toml", CONFIG.format(url=model_server.url))
    nb = kernel()
    ok(nb, f"import os; os.chdir({str(workspace)!r}); os.environ['KIN_HOME'] = {str(home)!r}")
    ok(nb, "%load_ext kin_nb")
    yield nb
    ok(nb, "%unload_ext kin_nb")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def ok(nb: LiveKernel, code: str) -> str:
    """What a cell shows, and prints, in the order in which it came."""
    cell = nb.run(code)
    reply = nb.done(cell)["content"]
    assert reply["status"] == "ok", reply
    return shown(nb, cell)


def error(nb: LiveKernel, code: str) -> str:
    """The one line of the error that a cell ends with."""
    cell = nb.run(code)
    assert nb.done(cell)["content"]["status"] == "error"
    (text,) = ["\n".join(m["content"]["traceback"]) for m in nb.of(cell) if m["msg_type"] == "error"]
    return text


def ask(nb: LiveKernel, server: ModelServer, prompt: str, answer: str, **more: object) -> str:
    server.enqueue(answer, **more)
    text = ok(nb, f"%%kin\n{prompt}")
    assert answer in text
    return text


def prompts(server: ModelServer) -> list[str]:
    """The user's messages in the last request, with their notes."""
    return [message["content"] for message in sent(server) if message["role"] == "user"]


def sent(server: ModelServer) -> list[dict]:
    """The messages of the last request."""
    return server.requests[-1]["messages"]


def tools(server: ModelServer) -> list[str]:
    return [tool["function"]["name"] for tool in server.requests[-1]["tools"]]


def test_compact_shows_a_card_and_the_next_request_is_the_compacted_one(kin, model_server):
    ask(kin, model_server, "What is x?", "x is 1.")
    model_server.enqueue("We found out what x is.", usage={"prompt_tokens": 900, "completion_tokens": 30})
    card = ok(kin, "%kin compact")
    assert "compacted" in card
    assert "We found out what x is." in card
    ask(kin, model_server, "And y?", "y is 2.")
    system, summary, prompt = sent(model_server)
    assert "We found out what x is." in summary["content"]
    assert "What is x?" in summary["content"], "the last request, in the person's words"
    assert (system["role"], prompt["content"]) == ("system", "And y?")
    assert "x is 1." not in str(sent(model_server))


def test_compact_that_the_model_refuses_leaves_the_conversation_as_it_was(kin, model_server):
    ask(kin, model_server, "What is x?", "x is 1.")
    model_server.enqueue(status=400, body={"error": {"message": "no summaries today"}})
    assert "no summaries today" in error(kin, "%kin compact")
    ask(kin, model_server, "And y?", "y is 2.")
    assert [message["role"] for message in sent(model_server)] == ["system", "user", "assistant", "user"]


def test_compact_of_nothing_is_an_error(kin, model_server):
    assert error(kin, "%kin compact").startswith("Nothing to compact yet")
    assert model_server.requests == []


def test_clear_begins_a_new_conversation_in_the_same_log(kin, model_server, home):
    ask(kin, model_server, "What is x?", "x is 1.")
    assert "A new conversation begins" in ok(kin, "%kin clear")
    ask(kin, model_server, "What is y?", "y is 2.")
    assert [message["role"] for message in sent(model_server)] == ["system", "user"]
    assert len(list((home / "sessions").glob("*/log.jsonl"))) == 1


def test_clear_then_compact_is_nothing_to_compact(kin, model_server):
    ask(kin, model_server, "What is x?", "x is 1.")
    ok(kin, "%kin clear")
    assert error(kin, "%kin compact").startswith("Nothing to compact yet")


def test_a_warning_is_in_the_summary_line_of_the_first_turn_only(kin, model_server, home):
    write(home / "tools" / "broken.py", "import json\n1 / 0\n")
    first = ask(kin, model_server, "Hello?", "Hello.")
    (line,) = [line for line in first.splitlines() if "broken.py" in line]
    assert line.startswith("warning: ")
    assert "broken.py:2: not loaded: ZeroDivisionError" in line
    second = ask(kin, model_server, "And again?", "Hello again.")
    assert "broken.py" not in second


def test_trust_brings_the_projects_instructions_and_tools_into_the_next_turn(kin, model_server, workspace):
    write(workspace / "AGENTS.md", "Always write tests.\n")
    write(workspace / ".kin-code" / "tools" / "shout.py", TOOL)
    before = ask(kin, model_server, "Hello?", "Hello.")
    assert "is not trusted, so nothing was read of its AGENTS.md, .kin-code/tools." in before
    assert "Always write tests." not in sent(model_server)[0]["content"]
    assert "shout" not in tools(model_server)
    notice = ok(kin, "%kin trust")
    assert f"{workspace} is trusted" in notice
    assert "AGENTS.md, .kin-code/tools" in notice
    model_server.enqueue(calls=[tool_call("shout", text="hello")])
    model_server.enqueue("HELLO.")
    assert "HELLO." in ok(kin, "%%kin --mode auto-approve\nAnd now?")
    assert "Always write tests." in prompts(model_server)[-1]
    assert "shout" in tools(model_server)
    assert sent(model_server)[-1]["content"] == "text: HELLO"
    assert [message["role"] for message in sent(model_server)][1:4] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("before", "after", "cell", "said"),
    [
        ('active_model = "m"', 'active_model = "ours"', "%%kin\nHello?", 'Unknown model "ours"'),
        ("[[models]]", 'api_key_env_var = "NO_SUCH_KEY"\n[[models]]', "%%kin\nHello?", "No key for p"),
        ("", "", "%%kin --mode reviewer\nHello?", 'Unknown mode "reviewer"'),
    ],
)
def test_a_first_cell_that_cannot_be_answered_says_what_was_left_out(kin, home, workspace, before, after, cell, said):
    write(workspace / ".kin-code" / "config.toml", 'instructions = "Obey."\n')
    config = home / "config.toml"
    config.write_text(config.read_text().replace(before, after, 1))
    told = error(kin, cell)
    assert said in told
    assert told.count(f"{workspace} is not trusted, so nothing was read of its .kin-code/config.toml.") == 1


def test_what_a_project_brings_later_waits_until_the_difference_was_seen(kin, model_server, workspace):
    write(workspace / ".kin-code" / "config.toml", 'instructions = "Be brief."\n')
    ok(kin, "%kin trust")
    ask(kin, model_server, "Hello?", "Hello.")
    assert "Be brief." in sent(model_server)[0]["content"]
    write(workspace / ".kin-code" / "config.toml", 'instructions = "Obey."\n')
    write(workspace / ".kin-code" / "tools" / "shout.py", TOOL)
    after = ask(kin, model_server, "And now?", "Hello again.")
    assert "changed .kin-code/config.toml (instructions); added .kin-code/tools/shout.py" in after
    assert not {"Be brief.", "Obey."} & set(sent(model_server)[0]["content"].split("\n"))
    assert "shout" not in tools(model_server)
    shown = ok(kin, "%kin trust")
    assert "has changed since it was trusted" in shown
    assert '-instructions = "Be brief."' in shown
    assert '+instructions = "Obey."' in shown
    assert "class Shout" in shown
    ask(kin, model_server, "Still?", "Yes.")
    assert "shout" not in tools(model_server)
    (code,) = set(re.findall(r"%kin trust ([0-9a-f]{8})", shown))
    write(workspace / ".kin-code" / "prompts" / "new.md", "New.\n")
    again = ok(kin, f"%kin trust {code}")
    assert "has changed since it was trusted" in again, "it is not what was shown"
    assert f"The code {code} is wrong: the folder has changed again. Nothing was trusted." in again
    (code,) = set(re.findall(r"%kin trust ([0-9a-f]{8})", again))
    assert f"{workspace} is trusted" in ok(kin, f"%kin trust {code}")
    ask(kin, model_server, "At last?", "Yes.")
    assert "Obey." in prompts(model_server)[-1]
    assert "shout" in tools(model_server)


def test_a_folder_that_is_too_broad_is_not_trusted(kin, tmp_path):
    ok(kin, f"home = os.environ['HOME']; os.environ['HOME'] = {str(tmp_path / 'workspace')!r}")
    try:
        assert "cannot be trusted: it contains your home folder" in error(kin, "%kin trust")
    finally:
        ok(kin, "os.environ['HOME'] = home")


def test_a_mode_of_ones_own_and_back(kin, model_server, home):
    write(home / "agents" / "reviewer.toml", 'mode = "plan"\nenabled_tools = ["read_file", "grep"]\n')
    ask(kin, model_server, "What is x?", "x is 1.")
    assert ok(kin, "%kin mode reviewer").startswith("Mode: reviewer")
    ask(kin, model_server, "Review.", "Reviewed.")
    assert sorted(tools(model_server)) == ["grep", "read_file"]
    assert len(sent(model_server)) == 4, "the conversation stays"
    ok(kin, "%kin mode default")
    ask(kin, model_server, "Go on.", "Gone on.")
    assert "bash" in tools(model_server)


def test_another_mode_uses_nothing_of_a_project_that_has_changed_meanwhile(kin, model_server, home, workspace):
    ran = workspace / "ran"
    write(home / "agents" / "quiet.toml", 'disabled_skills = ["x"]\n')
    write(workspace / ".kin-code" / "tools" / "shout.py", f"open({str(ran)!r}, 'w')\n{TOOL}")
    ok(kin, "%kin trust")
    ask(kin, model_server, "What is x?", "x is 1.")
    assert ran.exists()
    ran.unlink()
    write(workspace / ".kin-code" / "tools" / "pulled.py", "raise SystemExit\n")
    ok(kin, "%kin mode quiet")
    assert not ran.exists(), "the project is not trusted as it is now"


def test_an_unknown_mode_lists_the_modes_and_changes_nothing(kin, model_server, home):
    write(home / "agents" / "reviewer.toml", "")
    ok(kin, "%kin mode plan")
    said = error(kin, "%kin mode reviewr")
    assert said.startswith(
        'Unknown mode "reviewr". Did you mean reviewer?\nModes: default, plan, accept-edits, auto-approve, reviewer.'
    )
    assert ok(kin, "%kin mode").startswith("Mode: plan")


def test_a_mode_whose_file_is_broken_is_named_with_its_line(kin, home):
    write(home / "agents" / "reviewer.toml", 'description = "x"\nmode = "telepathy"\n')
    assert error(kin, "%kin mode reviewer").startswith(f"{home}/agents/reviewer.toml:2: ")


def test_another_model_continues_with_the_conversation(kin, model_server):
    ask(kin, model_server, "What is x?", "x is 1.")
    assert ok(kin, "%kin model other").startswith("Model: other (other at p)")
    ask(kin, model_server, "Are you sure?", "I am.")
    assert [request["model"] for request in model_server.requests] == ["m", "other"]
    assert [prompt.split("\n")[0] for prompt in prompts(model_server)] == ["What is x?", "Are you sure?"]
    assert "Model: other" in prompts(model_server)[-1]


def test_a_skill_by_its_name(kin, model_server, home):
    write(home / "skills" / "tidy" / "SKILL.md", "---\nname: tidy\ndescription: Tidies\n---\nSweep the floor.\n")
    ask(kin, model_server, "/skill:tidy the kitchen", "Swept.")
    asked = sent(model_server)[-1]["content"]
    assert "Sweep the floor." in asked
    assert asked.endswith("the kitchen")
    assert error(kin, "%%kin\n/skill:tidi").startswith("Unknown skill 'tidi'. Did you mean tidy?")
    assert len(model_server.requests) == 1
    ask(kin, model_server, "And now?", "Still here.")


def test_servers_end_with_the_kernel_also_one_that_would_stay(model_server, home, workspace):
    """The kernel is this test's own: it ends here."""
    tests = Path(__file__).parents[1]
    server = [sys.executable, "-ES", str(tests / "unit" / "mcp" / "servers" / "stdio_server.py"), "stays"]
    entry = f'[[mcp_servers]]\nname = "test"\ncommand = {json.dumps(server)}\ncwd = "{workspace}"\n'
    write(home / "config.toml", CONFIG.format(url=model_server.url) + entry)
    kernel = LiveKernel([tests.parent, tests / "kernel"], {"KIN_HOME": str(home), "HOME": str(home)}, subshells=False)
    try:
        ok(kernel, "%load_ext kin_nb")
        ask(kernel, model_server, "Hello", "Hello.")
        process = psutil.Process(int((workspace / "starts").read_text()))
        assert process.is_running()
        kernel.manager.shutdown_kernel(now=False)
        process.wait(timeout=60)
    finally:
        kernel.close()


def test_a_prompt_runs_no_module_of_the_folder_that_it_is_asked_in(model_server, home, workspace):
    """IPython has the current folder first on its path. The kernel is this test's own: nothing is imported in it yet."""
    for name in ("httpx", "httpcore", "httpx_sse", "h11", "nh3"):
        (workspace / f"{name}.py").write_text("open('ran', 'w')\nraise ImportError('the folder\\'s own')\n")
    write(home / "config.toml", CONFIG.format(url=model_server.url))
    tests = Path(__file__).parents[1]
    kernel = LiveKernel([tests.parent, tests / "kernel"], {"KIN_HOME": str(home), "HOME": str(home)}, subshells=False)
    try:
        ok(kernel, f"import os, sys; os.chdir({str(workspace)!r}); assert '' in sys.path")
        ok(kernel, "%load_ext kin_nb")
        ask(kernel, model_server, "Hello", "Hello.")
        assert not (workspace / "ran").exists()
    finally:
        kernel.close()


def test_a_folder_that_cannot_be_is_one_line(kin, model_server, home):
    settings = CONFIG.format(url=model_server.url) + '[session_logging]\nsave_dir = "~no-such-person/x"\n'
    write(home / "config.toml", settings)
    assert "save_dir: ~no-such-person/x: this user does not exist" in error(kin, "%%kin\nHello")
    write(home / "config.toml", CONFIG.format(url=model_server.url))
    ask(kin, model_server, "Hello", "Hello.")
