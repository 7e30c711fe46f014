"""What is offered, what an answer leaves behind, and that "always" holds in the next session."""

from __future__ import annotations

import tomllib
from functools import partial
from pathlib import Path

import pytest
from pydantic import BaseModel

from kin_nb.core.agent import Agent
from kin_nb.core.config import ConfigError, KinConfig
from kin_nb.core.paths import kin_home
from kin_nb.core.safety.decision import ApprovalDecision, Grant, ToolRequest
from kin_nb.core.safety.grants import Grants, remember, save_rule, scopes
from kin_nb.core.tool_types import Accesses
from kin_nb.core.workspace import Workspace
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

pytestmark = pytest.mark.usefixtures("own_home")


class Command(BaseModel):
    command: str


class Paths(BaseModel):
    path: str


def command(text: str, tool: str = "bash", **accesses) -> ToolRequest:
    return ToolRequest(tool, Command(command=text), "1", Accesses(**(accesses or {"everything": True})))


def edit(root: Path, *paths: str, tool: str = "edit_file", **more) -> ToolRequest:
    resolved = tuple(map(Workspace(root).resolve, paths))
    return ToolRequest(tool, Paths(path=paths[0]), "1", Accesses(writes=paths, **more), write_paths=resolved)


def other(name: str, fingerprint: str = "", **accesses) -> ToolRequest:
    return ToolRequest(name, Paths(path="x"), "1", Accesses(**accesses), fingerprint=fingerprint)


def labels(call: ToolRequest, root: Path) -> list[tuple[str, bool]]:
    return [(grant.label, grant.may_last) for grant in scopes(call, Workspace(root))]


# What is on offer.


def test_an_edit_offers_its_file_first_then_all_files(workspace):
    assert labels(edit(workspace, "./sub/../a.py"), workspace) == [
        ("edits of a.py", True),
        ("edits of files in the workspace", False),
    ]
    assert labels(edit(workspace, "a.py", "b.py"), workspace) == [("edits of files in the workspace", False)]


def test_a_command_offers_what_it_starts_with_then_itself(workspace):
    assert labels(command("pytest -q tests"), workspace) == [
        ("tests: pytest in this project", True),
        ("exactly this command", False),
    ]
    assert labels(command("pytest | tail"), workspace) == [("exactly this command", False)]
    both = command("pytest -q", everything=True, writes=("report.txt",))
    assert labels(both, workspace)[0][0] == "tests: pytest in this project"
    assert labels(command("pytest", tool="remote"), workspace)[0][1] is False, "no rule of its reads commands"


def test_any_other_call_offers_its_tool(workspace):
    assert labels(other("shout", everything=True), workspace) == [("every call of shout", True)]
    assert labels(edit(workspace, "a.py", tool="upload", network=True), workspace) == [("every call of upload", True)]


def test_a_servers_tool_is_never_offered_always(workspace):
    assert labels(other("jira_add", "abc", everything=True), workspace) == [("every call of jira_add", False)]


def test_code_that_runs_in_this_process_is_never_offered_always(workspace):
    call = other("python", everything=True, in_process=True)
    assert labels(call, workspace) == [("every call of python", False)]


def test_a_grant_covers_what_would_offer_it(subtests):
    for granted, index, then, covered in [
        (command("pytest -q"), 0, command("pytest tests"), True),
        (command("pytest -q"), 1, command("pytest -q"), True),
        (command("pytest -q"), 1, command("pytest tests"), False),
        (command("pytest -q"), 0, command("pytest -q", reads=(".",)), True),
        (other("a", "one", everything=True), 0, other("a", "two", everything=True), False),
        (other("a", everything=True), 0, other("b", everything=True), False),
    ]:
        with subtests.test(granted=granted, index=index, then=then, covered=covered):
            grants = Grants()
            grants.add(scopes(granted)[index])
            assert (grants.covering(then) is not None) is covered


def test_a_file_is_the_file_anyone_who_edits_it_and_however_it_is_called(workspace):
    grants = Grants()
    grants.add(scopes(edit(workspace, "a.py"), Workspace(workspace))[0])
    (workspace / "link").symlink_to("a.py")
    assert grants.covering(edit(workspace, "link", tool="write_file"))
    assert not grants.covering(edit(workspace, "sub/a.py"))
    grants.add(scopes(edit(workspace, "a.py"))[1])
    assert grants.covering(edit(workspace, "sub/a.py"))


# The list of them.


def test_grants_are_listed_in_words_and_undone():
    grants = Grants()
    for call in (command("pytest"), command("rm -rf build |\n cat"), other("shout", everything=True)):
        grants.add(scopes(call)[0])
        grants.add(scopes(call)[0])
    listed = [
        "tests: pytest in this project",
        "exactly the command `rm -rf build | cat`",
        "every call of shout",
    ]
    assert grants.describe() == listed
    for wrong in (3, -1):
        with pytest.raises(IndexError):
            grants.forget(wrong)
    assert grants.forget(1) == [listed[1]]
    assert grants.covering(command("rm -rf build |\n cat")) is None
    assert grants.forget() == [listed[0], listed[2]]
    assert grants.describe() == grants.forget() == []


# What an answer leaves behind.


def never(grant: Grant) -> None:
    raise AssertionError(grant)


def test_once_is_once():
    grants = Grants()
    assert remember(ApprovalDecision(True), scopes(command("pytest")), grants, never) == ""
    assert grants.granted == []


@pytest.mark.parametrize(
    "answer",
    [
        ApprovalDecision(False, scope="always"),
        ApprovalDecision(True, scope="always", edited_args={"command": "pytest -x"}),
    ],
)
def test_what_was_refused_or_edited_is_not_remembered(answer):
    grants = Grants()
    assert remember(answer, scopes(command("pytest")), grants, never) == ""
    assert grants.granted == []


def test_nothing_is_remembered_where_nothing_was_offered():
    grants = Grants()
    assert remember(ApprovalDecision(True, scope="always"), (), grants, never) == ""
    assert grants.granted == []


def test_for_the_session_means_the_scope_that_was_chosen(workspace):
    grants = Grants()
    offered = scopes(edit(workspace, "a.py"))
    assert remember(ApprovalDecision(True, scope="session", grant=1), offered, grants, never) == ""
    assert grants.granted == [offered[1]]


@pytest.mark.parametrize("index", [2, -1])
def test_a_scope_that_was_not_offered_is_reported_and_nothing_is_granted(index):
    grants = Grants()
    said = remember(ApprovalDecision(True, scope="session", grant=index), scopes(command("make")), grants, never)
    assert said.startswith("Approved once only")
    assert grants.granted == []


def test_always_is_saved_and_holds_for_this_session_too():
    grants, saved = Grants(), []
    offered = scopes(command("pytest"))
    assert remember(ApprovalDecision(True, scope="always"), offered, grants, saved.append) == ""
    assert saved == grants.granted == [offered[0]]


def test_only_a_persons_always_is_saved(subtests):
    for by in ["callback", "recorded", "headless"]:
        with subtests.test(by=by):
            grants = Grants()
            assert (
                remember(ApprovalDecision(True, scope="always", by=by), scopes(command("pytest")), grants, never) == ""
            )
            assert len(grants.granted) == 1


def test_what_no_rule_can_say_holds_for_the_session_and_that_is_reported():
    grants = Grants()
    said = remember(ApprovalDecision(True, scope="always"), scopes(command("a | b")), grants, never)
    assert said == "Approved for this session only: no rule of config.toml can express exactly this command."
    assert len(grants.granted) == 1


def test_a_rule_that_cannot_be_written_is_reported_and_the_approval_holds():
    def full(grant: Grant) -> None:
        raise ConfigError("config.toml: not saved: No space left on device.")

    grants = Grants()
    said = remember(ApprovalDecision(True, scope="always"), scopes(command("pytest")), grants, full)
    assert "No space left" in said
    assert len(grants.granted) == 1


# The rule in config.toml.

CONFIG = """\
# mine

[tools.bash]  # careful
allowlist = [
  "pytest",  # often
]
"""


def configure(server) -> Path:
    path = kin_home() / "config.toml"
    path.write_text(server.config_toml(CONFIG))
    return path


def test_rules_are_added_and_the_file_keeps_its_comments(model_server, workspace):
    path = configure(model_server)
    before = path.read_text()
    for call in (command("git status"), command("git status -s"), command("pytest -q"), edit(workspace, "[a].py")):
        save_rule(scopes(call)[0], call.tool_name)
    save_rule(scopes(other("shout", everything=True))[0], "shout")
    text = path.read_text()
    assert all(line in text for line in before.splitlines())
    tools = tomllib.loads(text)["tools"]
    assert tools["bash"]["allowlist"] == ["pytest", "git status"]
    named = [str(workspace.resolve() / "[a].py").replace("[", "[[]")]
    assert tools["edit_file"]["allowlist"] == tools["write_file"]["allowlist"] == named
    assert tools["shout"] == {"permission": "always"}
    assert KinConfig.load().warnings == ()


def test_there_may_be_no_config_yet(workspace):
    save_rule(scopes(command("pytest"))[0], "bash")
    assert KinConfig.load().tools["bash"].allowlist == ["pytest"]
    assert (kin_home() / "config.toml").stat().st_mode & 0o077 == 0


def test_a_broken_config_is_left_as_it_is():
    path = kin_home() / "config.toml"
    path.write_text("x = \n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        save_rule(scopes(command("pytest"))[0], "bash")
    assert path.read_text() == "x = \n"


@pytest.mark.parametrize("call", [command("a | b"), other("x", "fingerprint", everything=True)])
def test_what_no_rule_says_is_refused(call):
    with pytest.raises(ConfigError, match="cannot be a rule"):
        save_rule(scopes(call)[0], call.tool_name)
    assert not (kin_home() / "config.toml").exists()


async def questions_of(model_server, workspace, *calls) -> list[str]:
    """What a new agent with the user's configuration asks about, when the model makes these calls; all are refused."""
    asked = []

    async def ask(request):
        asked.append(request.preview.summary)
        return ApprovalDecision(False, "no")

    agent = Agent(KinConfig.load(workdir=workspace))
    agent.set_ask(ask)
    for each in calls:
        model_server.enqueue(calls=[each])
        model_server.enqueue("Well.")
        await run_turn(agent)
    await agent.aclose()
    return asked


async def test_what_was_approved_always_runs_unasked_in_a_new_session_and_nothing_else_does(model_server, workspace):
    configure(model_server)
    for call in (command("touch one"), edit(workspace, "a.py")):
        answer = ApprovalDecision(True, scope="always")
        said = remember(answer, scopes(call), Grants(), partial(save_rule, tool_name=call.tool_name))
        assert said == ""
    change = {"old_string": "x = 1", "new_string": "x = 2"}
    asked = await questions_of(
        model_server,
        workspace,
        tool_call("bash", command="touch two > f"),
        tool_call("bash", command="touch two"),
        tool_call("edit_file", path="a.py", **change),
        tool_call("write_file", path="a.py", content="new\n", overwrite=True),
        tool_call("write_file", path="b.py", content="new\n"),
    )
    assert len(asked) == 2
    assert asked[0] == "touch two > f"
    assert "b.py" in asked[1]
    assert (workspace / "a.py").read_text() == "new\n"
    assert (workspace / "two").exists()


async def test_the_same_file_name_in_another_workspace_asks(model_server, workspace, tmp_path):
    configure(model_server)
    save_rule(scopes(edit(workspace, "a.py"))[0], "write_file")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    call = tool_call("write_file", path="a.py", content="new\n")
    assert len(await questions_of(model_server, elsewhere, call)) == 1


def test_an_answer_of_old_callers_means_what_it_meant():
    assert ApprovalDecision(True, "note", "session") == ApprovalDecision(
        approved=True, message="note", scope="session", edited_args=None, by="person", grant=0
    )
