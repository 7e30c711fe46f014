"""apply_patch in a session: the question, what covers it, the record, undo, and what the model knows after a resume."""

from __future__ import annotations

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.modes import AgentMode
from kin_nb.core.safety.decision import ApprovalDecision
from kin_nb.render.approval import approval_html, approval_text
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

EDIT = ("*** Update File: a.py", "-x = 1", "+x = 3")
ADD = ("*** Add File: new.py", "+n = 1")
MOVE = ("*** Update File: b.py", "*** Move to: moved/c.py", "-b = 1", "+b = 2")
DELETE = ("*** Delete File: gone.py",)
YES = ApprovalDecision(approved=True)


def patch(*lines: str) -> dict:
    return tool_call("apply_patch", patch="\n".join(["*** Begin Patch", *lines, "*** End Patch"]))


def write(path: str, content: str = "mine\n") -> dict:
    return tool_call("write_file", path=path, content=content, overwrite=True)


@pytest.fixture
def workspace(workspace):
    (workspace / "b.py").write_text("b = 1\n")
    (workspace / "gone.py").write_text("gone = 1\n")
    return workspace


def files(workspace) -> dict[str, str]:
    return {path.relative_to(workspace).as_posix(): path.read_text() for path in workspace.rglob("*") if path.is_file()}


BEFORE = {"a.py": "x = 1\ny = 2\n", "b.py": "b = 1\n", "gone.py": "gone = 1\n"}
AFTER = {"a.py": "x = 3\ny = 2\n", "moved/c.py": "b = 2\n", "new.py": "n = 1\n"}


@pytest.fixture
def turn(model_server):
    """One turn of an agent with these calls, one in each reply; the calls' records. `meanwhile` runs at the first question."""

    async def turn(agent: Agent, *calls: dict, answers: tuple[ApprovalDecision, ...] = (), meanwhile=lambda: None):
        left = list(answers)
        turn.asked = []

        async def ask(request):
            turn.asked.append(request)
            if len(turn.asked) == 1:
                meanwhile()
            return left.pop(0)

        agent.set_ask(ask)
        for call in calls:
            model_server.enqueue(calls=[call])
        model_server.enqueue("Done.")
        await run_turn(agent)
        assert not left
        return agent.turns[-1].calls

    return turn


async def test_one_question_shows_a_diff_of_each_file_and_undo_restores_all_of_them(turn, agent, workspace):
    (call,) = await turn(agent, patch(*EDIT, *ADD, *MOVE, *DELETE), answers=(YES,))
    (asked,) = turn.asked
    assert call.status == "ok"
    assert files(workspace) == AFTER
    assert asked.scopes == ()
    assert asked.editable == "patch"
    for shown in (
        approval_text(asked.preview.summary, asked.reason, asked.preview.body, asked.preview.kind),
        approval_html(asked.preview.summary, asked.reason, asked.preview.body, asked.preview.kind),
    ):
        for part in ("Changed: a.py", "New file: new.py", "Moved: b.py to moved/c.py", "Deleted: gone.py"):
            assert part in shown
    assert call.summary == asked.preview.summary
    changed = {change.path: (change.before is None, change.after is None) for change in call.files}
    assert changed == {
        "a.py": (False, False),
        "b.py": (False, True),
        "gone.py": (False, True),
        "moved/c.py": (True, False),
        "new.py": (True, False),
    }
    assert call.uncovered == ""
    await agent.undo()
    assert files(workspace) == BEFORE
    assert not (workspace / "moved").exists()
    await agent.redo()
    assert files(workspace) == AFTER


async def test_a_refused_patch_changes_nothing(turn, agent, workspace):
    (call,) = await turn(agent, patch(*EDIT, *DELETE), answers=(ApprovalDecision(False, "keep it"),))
    assert call.status == "refused"
    assert files(workspace) == BEFORE


async def test_a_patch_that_would_fail_is_not_asked_about(turn, agent, workspace, subtests):
    for what, lines in {
        "a hunk that does not fit": (*ADD, "*** Update File: a.py", "-x = 2", "+x = 3"),
        "a file that exists": (*EDIT, "*** Add File: b.py", "+1"),
        "a file that is missing": (*EDIT, "*** Delete File: c.py"),
        "no patch": ("*** Update File: a.py", "x"),
    }.items():
        with subtests.test(what):
            (call,) = await turn(agent, patch(*lines))
            assert (call.status, turn.asked) == ("error", [])
            assert files(workspace) == BEFORE


async def test_sensitive_and_outside_files_ask_also_in_accept_edits(turn, config, workspace, tmp_path, subtests):
    (workspace / ".env").write_text("KEY=1\n")
    (workspace / "link.py").symlink_to(tmp_path / "outside.py")
    (tmp_path / "outside.py").write_text("o = 1\n")
    agent = Agent(config, AgentMode.ACCEPT_EDITS)
    for why, lines in {
        ".env: may hold secrets": (*EDIT, "*** Update File: .env", "-KEY=1", "+KEY=2"),
        ".env: may hold secrets ": (*EDIT, "*** Update File: .env", "*** Move to: shown.txt"),
        ".github/workflows/ci.yml: runs later, on the build server": (
            *EDIT,
            "*** Add File: .github/workflows/ci.yml",
            "+1",
        ),
        f"{tmp_path / 'outside.py'} is outside the workspace": (*EDIT, "*** Update File: link.py", "-o = 1", "+o = 2"),
        f"{tmp_path / 'new.py'} is outside the workspace": ("*** Update File: b.py", "*** Move to: ../new.py"),
        "apply_patch changes files; policy auto-edit asks first": (*EDIT, *ADD),
        "apply_patch changes files; policy auto-edit asks first ": (*EDIT, *DELETE),
        "apply_patch changes files; policy auto-edit asks first  ": (*EDIT, *MOVE),
    }.items():
        with subtests.test(why.strip()):
            (call,) = await turn(agent, patch(*lines), answers=(ApprovalDecision(False, "no"),))
            assert (call.status, turn.asked[0].reason) == ("refused", why.strip())
    (call,) = await turn(agent, patch(*EDIT))
    assert (call.status, turn.asked) == ("ok", [])
    await agent.aclose()


async def test_plan_mode_and_open_files_are_refused(turn, config, agent, workspace):
    planning = Agent(config, AgentMode.PLAN)
    (call,) = await turn(planning, patch(*EDIT))
    assert call.status == "refused"
    assert "plan mode" in call.output
    await planning.aclose()
    agent.approvals.open_files = frozenset({workspace / "moved" / "c.py"})
    (call,) = await turn(agent, patch(*EDIT, *MOVE))
    assert (call.status, turn.asked) == ("refused", [])
    assert "c.py is open in your front end" in call.output
    assert files(workspace) == BEFORE


async def test_an_approval_of_edits_covers_edits_and_new_files_and_no_deletion(turn, agent, workspace):
    in_workspace = ApprovalDecision(approved=True, scope="session", grant=0)
    await turn(agent, patch(*EDIT, *ADD), answers=(in_workspace,))
    assert [grant.label for grant in turn.asked[0].scopes] == ["edits of files in the workspace"]
    await turn(agent, patch("*** Update File: a.py", "-x = 3", "+x = 4", "*** Add File: more.py", "+1"))
    await turn(agent, patch(*DELETE), answers=(YES,))
    await turn(agent, patch(*MOVE), answers=(YES,))
    assert files(workspace).keys() == {"a.py", "new.py", "more.py", "moved/c.py"}


async def test_an_approval_for_one_file_covers_it_in_patches_too(turn, agent, workspace):
    one = ApprovalDecision(approved=True, scope="session", grant=0)
    await turn(agent, tool_call("edit_file", path="a.py", old_string="y = 2", new_string="y = 3"), answers=(one,))
    (call,) = await turn(agent, patch(*EDIT))
    assert (call.status, turn.asked) == ("ok", [])
    await turn(agent, patch("*** Update File: a.py", "-x = 3", "+x = 4", *ADD), answers=(YES,))
    await turn(agent, patch("*** Delete File: a.py"), answers=(YES,))


async def test_a_file_that_changes_while_the_user_is_asked_is_asked_about_again(turn, agent, workspace):
    def change() -> None:
        (workspace / "gone.py").write_text("gone = 1\nand = 'more'\n")

    (call,) = await turn(agent, patch(*EDIT, *DELETE), answers=(YES, YES), meanwhile=change)
    assert call.status == "ok"
    assert ["more" in request.preview.body for request in turn.asked] == [False, True]


async def test_the_user_may_edit_the_patch(turn, agent, workspace):
    edited = "\n".join(["*** Begin Patch", *ADD, "*** End Patch"])
    (call,) = await turn(agent, patch(*EDIT, *ADD), answers=(ApprovalDecision(True, edited_args={"patch": edited}),))
    assert call.output.startswith("[The user edited this call before it ran. It ran as: *** Begin Patch\n")
    assert files(workspace) == {**BEFORE, "new.py": "n = 1\n"}


STALE = "has changed since you read it. Nothing was written."


async def test_a_file_that_changed_since_it_was_read_is_patched_but_not_deleted(turn, trusted, workspace):
    await turn(trusted, tool_call("read_file", path="a.py"), tool_call("read_file", path="gone.py"))
    (workspace / "a.py").write_text("x = 1\ny = 2\nz = 'mine'\n")
    (workspace / "gone.py").write_text("mine\n")
    deleted, edited, overwritten = await turn(trusted, patch(*EDIT, *DELETE), patch(*EDIT), write("a.py"))
    assert (deleted.status, edited.status) == ("error", "ok")
    assert deleted.output.startswith(f"gone.py {STALE}")
    assert overwritten.output.startswith(f"a.py {STALE}")
    assert files(workspace)["a.py"] == "x = 3\ny = 2\nz = 'mine'\n"


async def test_what_a_patch_wrote_is_known_in_the_same_session(turn, trusted):
    read = [tool_call("read_file", path=path) for path in ("a.py", "b.py")]
    calls = await turn(trusted, *read, patch(*EDIT, *ADD, *MOVE), *(write(p) for p in ("a.py", "new.py", "moved/c.py")))
    assert [call.status for call in calls] == ["ok"] * 6


async def test_what_a_patch_wrote_is_known_after_a_resume(turn, config, workspace):
    first = Agent(config, AgentMode.AUTO_APPROVE)
    await turn(first, write("a.py", "x = 1\n"), patch(*EDIT, *ADD, *MOVE, *DELETE))
    await first.aclose()
    second = Agent.resume(config, mode=AgentMode.AUTO_APPROVE)
    (workspace / "gone.py").write_text("again\n")
    calls = await turn(second, *(write(path) for path in ("a.py", "new.py", "moved/c.py", "gone.py")))
    assert [call.status for call in calls] == ["ok"] * 4
    await second.aclose()


async def test_what_someone_changed_after_a_patch_is_not_overwritten_after_a_resume(turn, config, workspace):
    first = Agent(config, AgentMode.AUTO_APPROVE)
    await turn(first, write("b.py", "b = 1\n"), write("a.py", "x = 1\n"), patch(*EDIT, *ADD, *MOVE))
    await first.aclose()
    changed = ("a.py", "new.py", "moved/c.py")
    for path in changed:
        (workspace / path).write_text("somebody's\n")
    second = Agent.resume(config, mode=AgentMode.AUTO_APPROVE)
    calls = await turn(second, *(write(path) for path in changed))
    assert [call.output.startswith(f"{path} {STALE}") for path, call in zip(changed, calls, strict=True)] == [True] * 3
    await second.aclose()


@pytest.mark.parametrize("lines", [EDIT, DELETE, MOVE, ADD, ("*** Update File: a.py", "*** Move to: moved/c.py")])
async def test_nothing_outside_is_touched_when_a_folder_becomes_a_link(turn, trusted, workspace, tmp_path, lines):
    """After the decision, before the tool runs."""
    inside, outside = workspace / "src", tmp_path / "outside"
    for folder in (inside, outside):
        (folder / "moved").mkdir(parents=True)
        for name, text in BEFORE.items():
            (folder / name).write_text(text)
    before = trusted.parts.services.files.before

    async def swap(request):
        found = await before(request)
        inside.rename(workspace / "away")
        inside.symlink_to(outside)
        return found

    trusted.parts.services.files.before = swap
    inner = [line.replace("File: ", "File: src/").replace("to: ", "to: src/") for line in lines]
    (call,) = await turn(trusted, patch(*inner))
    assert call.status == "error"
    assert files(outside) == BEFORE
