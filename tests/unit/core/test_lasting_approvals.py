"""What becomes of an approval that holds for longer than one call."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from kin_nb.core.paths import kin_home, sole_writer
from kin_nb.core.safety.decision import ApprovalDecision
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

CONFIG = "config.toml"


@pytest.fixture
def approving(agent, model_server):
    """One turn with one command, which is approved this way: its record."""

    async def approving(answer: ApprovalDecision, command: str = "touch new"):
        async def ask(request):
            return answer

        agent.set_ask(ask)
        model_server.enqueue(calls=[tool_call("bash", command=command)])
        model_server.enqueue("Done.")
        return (await run_turn(agent))[-1].record

    return approving


async def test_always_is_recorded_when_the_rule_is_saved(approving, agent):
    record = await approving(ApprovalDecision(True, scope="always"))
    assert record.calls[0].decision.scope == "always"
    assert 'allowlist = ["touch"]' in (kin_home() / CONFIG).read_text()
    assert agent.journal.warnings == []


async def test_always_is_recorded_for_the_session_when_the_rule_cannot_be_saved(approving, agent, workspace):
    (kin_home() / CONFIG).mkdir()
    record = await approving(ApprovalDecision(True, scope="always"))
    assert (record.calls[0].status, record.calls[0].decision.scope) == ("ok", "session")
    assert (workspace / "new").exists()
    assert any("Approved for this session only" in line for line in (*record.warnings, *agent.journal.warnings))


@pytest.mark.parametrize(
    ("answer", "recorded"),
    [
        (ApprovalDecision(True, scope="session", grant=1), "session"),
        (ApprovalDecision(True, scope="session", grant=7), "once"),
        (ApprovalDecision(True, scope="always", by="callback"), "session"),
        (ApprovalDecision(True, scope="session", edited_args={"command": "touch other"}), "once"),
        (ApprovalDecision(False, "no", scope="always"), "once"),
    ],
)
async def test_the_record_says_for_how_long_it_really_holds(approving, answer, recorded):
    record = await approving(answer)
    assert record.calls[0].decision.scope == recorded
    assert not (kin_home() / CONFIG).exists()


async def test_the_session_continues_while_another_program_writes_the_settings(agent, model_server):
    other = ExitStack()

    async def ask(request):
        other.enter_context(sole_writer(kin_home() / CONFIG))
        asyncio.get_running_loop().call_later(0.05, other.close)  # never, if the loop were to wait for it
        return ApprovalDecision(True, scope="always")

    agent.set_ask(ask)
    model_server.enqueue(calls=[tool_call("bash", command="touch new")])
    model_server.enqueue("Done.")
    record = (await run_turn(agent))[-1].record
    assert record.calls[0].decision.scope == "always"


def overwrite(path: str) -> dict:
    return tool_call("write_file", path=path, content="model\n", overwrite=True)


@pytest.fixture
def meanwhile(agent, model_server):
    """One turn with one call; `changes` are carried out one by one while the person is asked, who always says yes."""

    async def meanwhile(call: dict, *changes):
        left = list(changes)

        async def ask(request):
            meanwhile.shown.append(request.preview.summary)
            if left:
                left.pop(0)()
            return ApprovalDecision(True)

        meanwhile.shown = []
        agent.set_ask(ask)
        model_server.enqueue(calls=[call])
        model_server.enqueue("Done.")
        return (await run_turn(agent))[-1].record.calls[0]

    return meanwhile


@pytest.mark.parametrize("path", ["a.py", ".env", "../outside.txt"])
async def test_a_file_that_changes_while_the_person_is_asked_is_asked_about_again(meanwhile, workspace, path):
    (workspace / path).write_text("one\n")
    call = await meanwhile(overwrite(path), lambda: (workspace / path).write_text("one\ntwo\nthree\n"))
    assert [summary.rpartition(" (")[2] for summary in meanwhile.shown] == ["+1 -1)", "+1 -3)"]
    assert call.status == "ok"
    assert call.summary == meanwhile.shown[-1]


async def test_a_file_that_is_made_while_the_person_is_asked_is_asked_about_again(meanwhile, workspace):
    await meanwhile(overwrite("new"), lambda: (workspace / "new").write_text("mine\n"))
    assert meanwhile.shown == ["write new (+1 -0)", "overwrite new (+1 -1)"]
    call = await meanwhile(
        tool_call("write_file", path="other", content="x"), lambda: (workspace / "other").write_text("mine\n")
    )
    assert meanwhile.shown == ["write other (+1 -0)"]
    assert (call.status, call.output.partition("\n")[0]) == ("error", "other exists already.")
    assert (workspace / "other").read_text() == "mine\n"


FAILING = [
    tool_call("edit_file", path="a.py", old_string="nowhere", new_string="x"),
    tool_call("search_replace", path="a.py", content="no block"),
    tool_call("write_file", path="a.py", content="x"),
]


@pytest.mark.parametrize("failing", FAILING)
async def test_a_change_that_would_fail_fails_without_a_question(meanwhile, workspace, failing):
    (workspace / "a.py").write_text("one\n")
    call = await meanwhile(failing)
    assert (meanwhile.shown, call.status) == ([], "error")


@pytest.mark.parametrize("path", [".env", "../outside.txt"])
async def test_a_failing_change_of_a_file_that_the_model_may_not_read_asks_before_it_fails(meanwhile, workspace, path):
    """The error quotes the closest lines of the file."""
    (workspace / path).write_text("one\n")
    call = await meanwhile(tool_call("edit_file", path=path, old_string="nowhere", new_string="x"))
    assert len(meanwhile.shown) == 1
    assert call.status == "error"


async def test_a_file_that_changed_since_it_was_read_is_refused_without_a_question(meanwhile, workspace):
    (workspace / "a.py").write_text("one\n")
    await meanwhile(tool_call("read_file", path="a.py"))
    (workspace / "a.py").write_text("one\ntwo\n")
    call = await meanwhile(overwrite("a.py"))
    assert (meanwhile.shown, call.status) == ([], "error")
    assert "has changed since you read it" in call.output


async def test_a_file_that_changes_with_every_question_is_not_written(meanwhile, workspace):
    file = workspace / "a.py"
    changes = [lambda n=n: file.write_text(f"{n}\n" * (n + 2)) for n in range(5)]
    call = await meanwhile(overwrite("a.py"), *changes)
    assert (call.status, len(meanwhile.shown)) == ("refused", 3)
    assert "changed each time" in call.output
    assert file.read_text() == "2\n" * 4


SCRIPTS_OF_COMMANDS = [
    ("python x.py", "x.py"),
    ("python3 -u x.py --fast", "x.py"),
    ("bash run.sh", "run.sh"),
    ("sh deploy", "deploy"),
    (". ./settings", "settings"),
    ("./build", "build"),
    ("make test", "Makefile"),
    ("make -C sub", "sub/Makefile"),
    ("make -f rules all", "rules"),
    ("npm run build", "package.json"),
    ("python -m pack.mod", "pack/mod.py"),
    ("cd sub && python x.py", "sub/x.py"),
    ("(cd sub; ls); python x.py", "x.py"),
    ("env A=1 timeout 5 python x.py", "x.py"),
    ("ls && bash -c 'python x.py'", "x.py"),
    ("uv run x.py", "x.py"),
    ("sudo ./build", "build"),
]


async def test_a_script_that_changes_while_the_person_is_asked_is_asked_about_again(
    subtests, agent, model_server, workspace
):
    for command, script in SCRIPTS_OF_COMMANDS:
        with subtests.test(command=command, script=script):
            path = workspace / script
            path.parent.mkdir(exist_ok=True)
            path.write_text("exit 0\n")
            path.chmod(0o755)
            asked: list[str] = []

            async def ask(request, asked=asked, path=path):
                asked.append(request.reason)
                if len(asked) == 1:
                    path.write_text("rm -rf /\n")
                    return ApprovalDecision(True, scope="session")
                return ApprovalDecision(False, "no")

            agent.set_ask(ask)
            model_server.enqueue(calls=[tool_call("bash", command=command)])
            model_server.enqueue("Done.")
            record = (await run_turn(agent))[-1].record
            assert len(asked) == 2
            assert asked[1].startswith(f"{script} changed while you were asked: ")
            assert record.calls[0].status == "refused"
            assert agent.safety().grants.granted == [], "what the first card offered was not taken"


@pytest.mark.parametrize("change", ["removed", "made", "replaced by a link"])
async def test_a_script_that_is_made_or_removed_meanwhile_is_asked_about_again(meanwhile, workspace, change):
    script = workspace / "x.sh"
    if change != "made":
        script.write_text("exit 0\n")

    def happens() -> None:
        if change == "made":
            script.write_text("exit 0\n")
            return
        script.unlink()
        if change == "replaced by a link":
            (workspace / "other").write_text("exit 1\n")
            script.symlink_to("other")

    await meanwhile(tool_call("bash", command="bash x.sh"), happens)
    assert len(meanwhile.shown) == 2


async def test_what_a_command_only_reads_may_change_while_the_person_is_asked(meanwhile, workspace):
    (workspace / "x.py").write_text("pass\n")
    (workspace / "data.csv").write_text("1\n")
    command = "python x.py data.csv > out.txt"
    await meanwhile(tool_call("bash", command=command), lambda: (workspace / "data.csv").write_text("2\n"))
    assert len(meanwhile.shown) == 1


async def test_a_file_that_stays_as_it_is_shown_is_asked_about_once(meanwhile, workspace):
    await meanwhile(overwrite("a.py"), (workspace / "a.py").touch)
    assert len(meanwhile.shown) == 1


async def test_a_session_in_the_home_folder_says_so_once_and_refuses_reads_where_no_one_is_asked(
    agent, model_server, workspace, monkeypatch
):
    monkeypatch.setenv("HOME", str(workspace))
    for _ in range(2):
        model_server.enqueue(calls=[tool_call("read_file", path="a.py")])
        model_server.enqueue("Then not.")
    first, second = [(await run_turn(agent))[-1].record for _ in range(2)]
    warning = "The workspace is your home folder, so reading files asks too."
    assert [any(text.startswith(warning) for text in record.warnings) for record in (first, second)] == [True, False]
    assert first.calls[0].status == "refused"
    assert "read_file reads files; the workspace is your home folder" in first.calls[0].output
    assert "x = 1" not in first.calls[0].output
