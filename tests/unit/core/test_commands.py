"""Slash commands: what counts as one, and what each does to a session, with a real agent and a real server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kin_nb.cli.terminal_host import TerminalHost
from kin_nb.core.agent import Agent
from kin_nb.core.autocompletion.completers import CommandCompleter
from kin_nb.core.commands import (
    COMMANDS,
    CommandError,
    CommandResult,
    UnknownCommandError,
    command_names,
    escaped,
    help_rows,
    is_command,
    named_command,
    run_command,
    typed_command,
    unescaped,
)
from kin_nb.core.config import KinConfig, MCPStdio
from kin_nb.core.config.trusted_folders import TrustedFolders
from kin_nb.core.modes import AgentMode
from kin_nb.core.paths import kin_home
from kin_nb.core.safety.decision import Grant
from kin_nb.render import render_result
from kin_nb.replay.cell_keys import command_key, conversation_command
from tests.model_server import ModelServer, tool_call

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "commands.md"


class Person:
    """Types commands and prompts to one session."""

    def __init__(self, config: KinConfig, server: ModelServer, runner: asyncio.Runner) -> None:
        self.host = TerminalHost(config, AgentMode.AUTO_APPROVE, runner)
        self.server, self._runner = server, runner

    @property
    def agent(self) -> Agent:
        assert self.host.agent is not None
        return self.host.agent

    def ask(self, prompt: str) -> None:
        if self.host.agent is None:
            self.host.agent = Agent(self.host.config(), self.host.mode)

        async def turn() -> None:
            async for _ in self.agent.act(prompt):
                pass

        self._runner.run(turn())
        assert self.agent.turns[-1].outcome == "done", self.agent.turns[-1].message

    def leave(self) -> None:
        """Close the session, as the end of the kernel does."""
        self._runner.run(self.agent.aclose())
        self.host.agent = None

    def run(self, text: str) -> CommandResult:
        typed = typed_command(text)
        assert typed is not None
        return run_command(self.host, typed)

    def types(self, text: str) -> str:
        return "\n".join(output.data["text/plain"] for output in render_result(self.run(text)))


@pytest.fixture
def person(config: KinConfig, model_server: ModelServer) -> Iterator[Person]:
    with asyncio.Runner() as runner:
        person = Person(config, model_server, runner)
        yield person
        if person.host.agent is not None:
            runner.run(person.host.agent.aclose())


@pytest.fixture
def talked(person: Person) -> Person:
    """A turn that wrote b.txt."""
    person.server.enqueue("I write.", calls=[tool_call("write_file", path="b.txt", content="one\n")])
    person.server.enqueue("Written.", usage={"prompt_tokens": 900, "completion_tokens": 30})
    person.ask("Write b.")
    return person


# What counts as a command.


def test_a_known_name_is_a_command(subtests):
    for text, name, words in [
        ("/undo", "undo", []),
        ("  /undo 2 \n", "undo", ["2"]),
        ("/save my notes.ipynb", "save", ["my", "notes.ipynb"]),
        ("/skill:tidy the kitchen\nand the hall", "skill", ["tidy", "the kitchen\nand the hall"]),
        ("/flow:mend", "flow", ["mend"]),
        ("/skill tidy", "skill", ["", "tidy"]),
        ("/model:other", "model", ["other"]),
    ]:
        with subtests.test(text=text, name=name, words=words):
            typed = typed_command(text)
            assert typed is not None
            assert (typed.command.name, typed.words) == (name, words)


def test_everything_else_is_a_prompt(subtests):
    for text in [
        "/etc/hosts",
        "/ is the root",
        "//undo",
        "/tmp",
        "/xyzzy",
        "/undoo that please",
        "undo",
        "/",
        "",
        "/1",
        "x\n/undo",
    ]:
        with subtests.test(text=text):
            assert typed_command(text) is None
            assert not is_command(text)


def test_a_mistyped_command_suggests_similar_ones(subtests):
    for text, meant in [("/undoo", "/undo"), ("/Help", "/help"), ("/sesions", "/sessions"), ("/flw:x", "/flow")]:
        with subtests.test(text=text, meant=meant):
            with pytest.raises(UnknownCommandError, match=rf"^Unknown command /\S+\. Did you mean {meant}\b"):
                typed_command(text)
            assert is_command(text)


def test_an_escaped_prompt_is_asked_as_it_is(subtests):
    for prompt in ["/undo", "/undoo", "//x", "plain", "/etc/hosts", "/skill:tidy up"]:
        with subtests.test(prompt=prompt):
            assert unescaped(escaped(prompt)) == prompt
            assert not is_command(escaped(prompt))


def test_the_magic_takes_the_name_without_a_slash_and_nothing_means_help():
    assert [named_command(line).command.name for line in ("", "undo 2", "/undo", "flow:x y")] == [
        "help",
        "undo",
        "undo",
        "flow",
    ]
    with pytest.raises(UnknownCommandError, match=r"^Unknown command %kin sav\. Did you mean %kin save\?\n%kin help"):
        named_command("sav")


# One source of the help.


def test_every_command_can_be_run_and_says_what_it_does():
    assert [name for name, command in COMMANDS.items() if not (callable(command.run) and command.summary)] == []


def test_the_documentation_lists_exactly_the_commands_that_there_are():
    rows = re.findall(r"^\| `(/[^`]*)` \| (.*) \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert [(typed.replace("\\|", "|"), what) for typed, what in rows] == help_rows("/")


def test_help_lists_them_all(person):
    shown = person.types("/help")
    assert [name for name in COMMANDS if f"/{name}" not in shown] == []
    assert re.search(r"^  Look +/cost ", shown, re.MULTILINE)


def test_help_shows_the_form_that_was_typed(person):
    result = run_command(person.host, named_command("help"))
    assert result.table is not None
    assert all(typed.startswith("%kin ") for _, typed, _ in result.table.rows)
    with pytest.raises(CommandError, match=r"^Usage: %kin undo \[N\]"):
        run_command(person.host, named_command("undo x"))


@pytest.mark.parametrize("typed", ["/new", "%kin new"])
def test_new_is_another_name_of_clear(talked, typed):
    found = named_command("new") if typed.startswith("%") else typed_command(typed)
    assert found is not None
    cleared = run_command(talked.host, found).record
    assert (cleared.type, cleared.key) == ("clear", command_key("clear"))
    assert (
        conversation_command(None, {"cell_type": "code", "source": f"%%kin\n{typed}" if typed[0] == "/" else typed})
        == "clear"
    )


def test_names_are_completed_with_the_skills_and_flows_spelled_out():
    completer = CommandCompleter(command_names({"tidy": "Tidies"}, {"mend": "Mends"}))
    assert [c.text for c in completer.complete("/skill:t", 8)] == ["/skill:tidy"]
    assert "/undo" in [c.text for c in completer.complete("/un", 3)]
    assert next(c.description for c in completer.complete("/flow", 5)) == "Mends"


def test_arguments_of_a_command_that_takes_none_are_an_error_that_says_how_to_send_a_prompt(person):
    with pytest.raises(CommandError, match="To send it as a prompt: //context"):
        person.types("/context of this file")


# Undo and redo.


def test_undo_restores_the_files_and_redo_brings_the_changes_back(talked, workspace):
    card = talked.types("/undo")
    assert card.splitlines() == ["Undid turn 1", "  removed: b.txt +0 -1", "  To restore it: `%kin redo`"]
    assert not (workspace / "b.txt").exists()
    assert talked.types("/redo").startswith("Restored turn 1\n  created again: b.txt +1 -0")
    assert (workspace / "b.txt").read_text() == "one\n"


def test_undo_names_the_file_that_the_person_changed_since(talked, workspace):
    (workspace / "b.txt").write_text("mine\n")
    assert "left as it is: b.txt: " in talked.types("/undo")
    assert (workspace / "b.txt").read_text() == "mine\n"


def test_what_cannot_be_undone_says_why(subtests, talked):
    for text, said in [
        ("/redo", "nothing to redo"),
        ("/undo x", "Usage: /undo"),
        ("/undo 0", "must be 1 or more, got 0"),
        ("/undo 1 2", "Usage"),
    ]:
        with subtests.test(text=text, said=said), pytest.raises(CommandError, match=said):
            talked.types(text)


def test_before_the_first_prompt_there_is_nothing(subtests, person):
    for name in ["undo", "redo", "compact", "cost", "last", "diff", "save out.json"]:
        with subtests.test(name=name):
            with pytest.raises(CommandError, match=r"^(There is nothing|Nothing) "):
                person.types(f"/{name}")
            assert person.server.requests == []


def test_diff_compares_what_the_last_turn_or_an_older_one_changed(talked):
    talked.server.enqueue(calls=[tool_call("edit_file", path="b.txt", old_string="one", new_string="two <2>")])
    talked.server.enqueue("Done.")
    talked.ask("Change b.")
    talked.server.enqueue("Hello.")
    talked.ask("Say hello.")
    assert talked.types("/diff") == "Turn 3 changed no files"
    (card,) = render_result(talked.run("/diff 2"))
    assert card.data["text/plain"] == "Turn 2 changed a file\n  Changed b.txt\n  @@ -1 +1 @@\n  -one\n  +two <2>"
    cells = re.findall(r"<t[dh](?: [^>]*)?>(?:<pre[^>]*><code>)?([^<]*)", card.data["text/html"])
    assert cells == ["Line", "Before", "Line", "After", "@@ -1 +1 @@", "1", "-one", "1", "+two &lt;2&gt;"]
    assert talked.types("/diff 1") == "Turn 1 changed a file\n  New file b.txt\n  @@ -0,0 +1 @@\n  +one"


def test_a_turn_that_is_not_there_cannot_be_compared(subtests, talked):
    for text, said in [
        ("/diff x", "Usage: /diff"),
        ("/diff 1 2", "Usage"),
        ("/diff 7", "Turn 7 does not exist; the last one is 1"),
    ]:
        with subtests.test(text=text, said=said), pytest.raises(CommandError, match=said):
            talked.types(text)


# What the session is.


def test_cost_counts_by_turn_and_model(talked):
    shown = talked.types("/cost")
    turn = talked.agent.turns[0]
    assert f"{turn.prompt_tokens:,} tokens in, {turn.completion_tokens:,} out, $" in shown.splitlines()[0]
    assert f"m: 1 turn, {turn.prompt_tokens:,} tokens in" in shown


@pytest.mark.parametrize("then", ["", "/clear", "/undo"])
def test_cost_counts_a_compaction_at_once_and_also_when_it_is_dropped(talked, then):
    spent = talked.agent.turns[0]
    talked.server.enqueue("We wrote b.", usage={"prompt_tokens": 5_000, "completion_tokens": 70})
    talked.run("/compact")
    tokens = f"{spent.prompt_tokens + 5_000:,} tokens in, {spent.completion_tokens + 70:,} out, $"

    def shows(turns: str) -> bool:
        shown = talked.types("/cost")
        return shown.startswith(tokens) and f"m: {turns}, {tokens}" in shown

    assert shows("1 turn")
    if then:
        talked.run(then)
        assert shows("1 turn")
    if then == "/undo":
        talked.run("/redo")
        assert shows("1 turn")
        talked.run("/undo")
    talked.leave()
    talked.run("/resume")
    assert shows("1 turn")
    paid = talked.agent.stats.total_cost
    talked.server.enqueue("Hello.", usage={"prompt_tokens": 0, "completion_tokens": 0})
    talked.ask("And?")
    assert shows("2 turns")
    talked.leave()
    talked.run("/resume")
    assert shows("2 turns")
    assert talked.agent.stats.total_cost == pytest.approx(paid)


def test_an_unknown_price_is_reported_and_is_not_nothing(talked, config):
    free = config.model_copy(
        update={"models": [config.models[0].model_copy(update={"input_price": 0, "output_price": 0})]}
    )
    talked.agent.switch_config(free)
    talked.server.enqueue("Hm.", usage={"prompt_tokens": 5, "completion_tokens": 5})
    talked.ask("And?")
    assert "and 1 turn of unknown price" in talked.types("/cost").splitlines()[0]
    assert "price unknown" in talked.types("/cost")


def test_context_says_what_fills_the_window_and_what_comes(talked):
    shown = talked.types("/context")
    assert shown.startswith("930 of ")
    for part in ("system prompt", "tools", "your prompts", "replies", "tool results", "write_file {"):
        assert part in shown
    assert "Old tool results are shortened from" in shown
    assert "The conversation is summarized from" in shown


def test_context_and_tools_are_known_before_the_first_prompt(person):
    assert person.types("/context").startswith("about ")
    assert re.search(r"^  bash +by policy", person.types("/tools"), re.MULTILINE)
    assert person.host.agent is None


def test_tools_say_where_they_come_from_and_what_is_configured(config, model_server, workspace):
    tools = kin_home() / "tools"
    tools.mkdir(parents=True)
    (tools / "shout.py").write_text(SHOUT)
    config = config.model_copy(update={"tools": KinConfig(tools={"bash": {"permission": "never"}}).tools})
    with asyncio.Runner() as runner:
        shown = Person(config, model_server, runner).types("/tools")
    assert re.search(r"^  bash +never +built in", shown, re.MULTILINE)
    assert re.search(r"^  shout +by policy +\S*shout\.py +Say it louder", shown, re.MULTILINE)


def test_mcp_lists_the_servers_and_starts_none(config, model_server, workspace):
    servers = [
        MCPStdio(name="notes", command=f"touch {workspace}/started"),
        MCPStdio(name="old", command="x", disabled=True),
    ]
    config = config.model_copy(update={"mcp_servers": servers})
    with asyncio.Runner() as runner:
        shown = Person(config, model_server, runner).types("/mcp")
    assert re.search(r"^  notes +stdio +starts with the first prompt", shown, re.MULTILINE)
    assert re.search(r"^  old +stdio +disabled", shown, re.MULTILINE)
    assert not (workspace / "started").exists()


def test_mcp_says_why_a_server_failed(config, model_server):
    server = MCPStdio(name="notes", command="/no/such/program")
    with asyncio.Runner() as runner:
        person = Person(config.model_copy(update={"mcp_servers": [server]}), model_server, runner)
        model_server.enqueue("Hello.")
        person.ask("Hello")
        assert re.search(r"notes +stdio +MCP server notes: failed: ", person.types("/mcp"))
        runner.run(person.agent.aclose())


def test_approvals_are_listed_and_revoked(talked):
    assert talked.types("/approvals") == "Nothing was approved for this session"
    for what in ("touch", "git"):
        talked.agent.safety().grants.add(Grant("bash", f"prefix:{what}", f"commands that start with `{what}`"))
    assert "2. commands that start with `git`" in talked.types("/approvals")
    with pytest.raises(CommandError, match="numbered from 1 to 2"):
        talked.types("/approvals forget 3")
    assert talked.types("/approvals forget 1") == "Revoked\n  commands that start with `touch`"
    talked.types("/approvals forget all")
    assert talked.agent.safety().grants.describe() == []


def test_memories_are_listed_shown_and_forgotten(person):
    assert person.types("/memory").startswith("No memories yet")
    folder = kin_home() / "memory"
    folder.mkdir(parents=True)
    (folder / "style.md").write_text("How code is styled\n\nTabs.\n")
    assert re.search(r"style +user +How code is styled", person.types("/memory list"))
    assert person.types("/memory show style").splitlines() == ["style (user)", "  How code is styled", "", "  Tabs."]
    with pytest.raises(CommandError, match="Did you mean style"):
        person.types("/memory forget styl")
    person.types("/memory forget style")
    assert not (folder / "style.md").exists()
    with pytest.raises(CommandError, match="Usage: /memory"):
        person.types("/memory eat style")


# Another conversation.


def test_trust_names_the_servers_whose_code_is_not_compared(person, workspace):
    settings = workspace / ".kin-code" / "config.toml"
    settings.parent.mkdir()
    settings.write_text('[[mcp_servers]]\nname = "git"\ncommand = "uvx mcp-server-git"\n')
    assert "is not compared, their command lines name no file of this folder: git." in person.types("/trust")
    settings.write_text(settings.read_text() + 'prompt = "Use it."\n')
    assert "is not compared, their command lines name no file of this folder: git." in person.types("/trust")


def test_a_wrong_code_is_called_wrong_and_trusts_nothing(person, workspace):
    """Undecided, trusted as it is, and changed since; the code of what the folder is now is not wrong."""
    tool = workspace / ".kin-code" / "tools" / "shout.py"
    tool.parent.mkdir(parents=True)
    tool.write_text("x = 1\n")
    with pytest.raises(
        CommandError, match=r"^The code abc is wrong: .* is not trusted yet, .*\nTo trust it as it is: %kin trust"
    ):
        person.run("/trust abc")
    assert TrustedFolders().is_trusted(workspace) is None
    assert person.run("/trust").title == f"{workspace} is trusted"
    record = TrustedFolders().look(workspace)
    already = f"{workspace} is already trusted as it is; nothing was changed"
    assert (person.run("/trust").title, person.run(f"/trust {record.seen.code}").title) == (already, already)
    wrong = person.types("/trust abc")
    assert wrong.startswith(already)
    assert "The code abc is wrong. None is needed." in wrong
    tool.write_text("x = 2\n")
    changed = person.types("/trust abc")
    assert "The code abc is wrong: the folder has changed again." in changed
    (code,) = set(re.findall(r"/trust ([0-9a-f]{8})", changed))
    assert TrustedFolders().is_trusted(workspace) is None
    assert "is wrong" not in person.types("/trust")
    assert person.types(f"/trust {code}").startswith(f"{workspace} is trusted\n")
    assert TrustedFolders().is_trusted(workspace) is True


def test_clear_and_compact(talked):
    talked.server.enqueue("We wrote b.")
    assert "We wrote b." in talked.types("/compact")
    assert talked.types("/clear").startswith("A new conversation begins")
    assert [message.role for message in talked.agent.messages] == ["system"]


def test_what_moves_the_conversation_is_a_record_of_the_cell_that_asked(talked, monkeypatch):
    monkeypatch.setattr(talked.host, "asking_cell", lambda command: {"key": f"key of {command}", "cell_id": "the cell"})
    talked.server.enqueue("We wrote b.")
    made = [talked.run(command).record for command in ("/compact", "/undo", "/redo", "/undo 2", "/clear")]
    assert made == talked.agent.moves
    assert [record.key for record in made] == [
        f"key of {each}" for each in ("compact", "undo 1", "redo", "undo 2", "clear")
    ]
    assert {record.cell_id for record in made} == {"the cell"}
    assert [record.type for record in made] == ["compact", "undo", "redo", "undo", "clear"]


def test_what_was_said_in_a_terminal_has_the_key_of_the_cell_that_would_ask_it(talked):
    assert talked.run("/undo").record.key == command_key("undo 1")
    cleared = talked.run("/clear").record
    assert (cleared.key, cleared.cell_id) == (command_key("clear"), None)


def test_status_says_how_prompts_are_answered_and_by_whom(person):
    model = person.host.config().get_active_model()
    assert person.types("/status").splitlines() == [
        "Prompts: live",
        f"  Model: {model.alias} ({model.name} at {model.provider})",
        "  Mode: auto-approve",
    ]


def test_a_saved_session_is_loaded_and_the_one_before_stays_stored(talked, workspace):
    first = talked.agent
    talked.types(f"/save {workspace / 'out.json'}")
    assert talked.types(f"/load {workspace / 'out.json'}").splitlines() == [
        "Loaded out.json: 1 turn",
        f"  To get back to the session before: /resume {first.session_id[:8]}",
    ]
    assert talked.agent is not first
    talked.server.enqueue("It says one.")
    talked.ask("What did you write?")
    assert "Write b." in [message.get("content") for message in talked.server.requests[-1]["messages"]]


def test_resume_takes_this_folders_newest_other_session_and_comes_back(talked):
    first = talked.agent.session_id
    with pytest.raises(CommandError, match="is the current one"):
        talked.types(f"/resume {first[:8]}")
    talked.leave()
    talked.server.enqueue("Hello.")
    talked.ask("Another session")
    second = talked.agent.session_id
    assert talked.types("/resume").splitlines()[0] == f"Continued session {first[:8]}: 1 turn"
    assert talked.agent.session_id == first
    assert talked.types(f"/resume {second[:8]}").startswith(f"Continued session {second[:8]}")
    shown = talked.types("/sessions")
    assert {first[:8], second[:8]} <= set(shown.split())


def test_a_session_that_is_not_stored_is_not_left(config, model_server, workspace):
    logging = config.session_logging.model_copy(update={"enabled": False})
    with asyncio.Runner() as runner:
        person = Person(config.model_copy(update={"session_logging": logging}), model_server, runner)
        model_server.enqueue("Hello.")
        person.ask("Hello")
        person.types(f"/save {workspace / 'out.json'}")
        before = person.agent
        with pytest.raises(CommandError, match="would be lost"):
            person.types(f"/load {workspace / 'out.json'}")
        assert person.agent is before
        runner.run(before.aclose())


def test_a_file_that_cannot_be_loaded_changes_nothing(subtests, talked, workspace):
    for name, said in [
        ("gone.json", "gone.json"),
        ("a.py", "reads .ipynb and .json"),
        ("bad.json", "not a JSON document"),
    ]:
        with subtests.test(name=name, said=said):
            (workspace / "bad.json").write_text("{")
            before = talked.agent
            with pytest.raises(CommandError, match=said):
                talked.types(f"/load {workspace / name}")
            assert talked.agent is before


# What runs turns.


def skill(name: str, text: str) -> None:
    folder = kin_home() / "skills" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)


def test_skill_and_flow_say_what_to_run(person):
    skill("tidy", "---\nname: tidy\ndescription: Tidies\n---\nSweep.\n")
    skill("mend", FLOW)
    assert person.run("/skill:tidy the hall").prompt == "/skill:tidy the hall"
    result = person.run("/flow:mend the roof")
    assert (result.flow.name if result.flow else "", result.prompt) == ("mend", "the roof")
    with pytest.raises(CommandError, match="Did you mean mend"):
        person.run("/flow:men")
    with pytest.raises(CommandError, match="Skills: tidy"):
        person.run("/skill")


FLOW = """---
name: mend
description: Mends
type: flow
---
```mermaid
flowchart TD
    BEGIN --> look[Look.]
    look --> END
```
"""
SHOUT = """
from pydantic import BaseModel
from kin_nb.core.tools.base import BaseTool, BaseToolConfig, BaseToolState

class Args(BaseModel):
    text: str

class Shout(BaseTool[Args, Args, BaseToolConfig, BaseToolState]):
    description = "Say it louder"

    async def run(self, args):
        return Args(text=args.text.upper())
"""
