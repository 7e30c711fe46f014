"""`kin-nb run`: what it prints where, how it exits, and what it leaves behind."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from tests.model_server import tool_call
from tests.notebook.people import environment, run, write_config
from tests.table import each_row
from tests.unit.cli.conftest import EDIT, LOOK, conversation, log_records, logs
from tests.unit.cli.processes import has_ended, running


def test_the_answer_is_all_that_goes_to_stdout_and_the_prompt_may_come_on_standard_input(server, home, workspace):
    """In a terminal that cannot show some of it, too."""
    server.enqueue("Let me see.", calls=[LOOK])
    server.enqueue("✓ x is 1. \ud800")
    argv = ("-m", "kin_nb.cli", "run")
    done = run(*argv, home=home, cwd=workspace, stdin="What\nis x?\n", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "\\u2713 x is 1. \\ufffd\n", "")
    assert server.requests[0]["messages"][-1] == {"role": "user", "content": "What\nis x?\n"}


@pytest.mark.parametrize("output", ["json", "streaming"])
def test_all_messages_come_as_json(kin, server, output):
    server.enqueue("Let me see.", calls=[LOOK])
    server.enqueue("x is 1 ✓")
    done = kin("run", "-p", "What is x?", "--output", output)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    messages = json.loads(done.stdout) if output == "json" else [json.loads(line) for line in lines]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert messages[-1]["content"] == "x is 1 ✓"


def test_every_event_comes_as_a_line_of_json(kin, server):
    server.enqueue("Let me see.", calls=[LOOK])
    server.enqueue("x is 1 ✓")
    done = kin("run", "-p", "What is x?", "--output", "events")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0] == {"type": "metadata", "protocol_version": "1"}
    assert (lines[1]["type"], lines[-1]["type"]) == ("TurnStart", "TurnEnd")


def test_a_refused_edit_is_a_failure_that_says_how_to_allow_it(kin, server, workspace):
    server.enqueue(calls=[EDIT])
    server.enqueue("I may not.")
    done = kin("run", "-p", "Make x 3.")
    assert (done.returncode, done.stdout) == (1, "I may not.\n")
    assert done.stderr.startswith("Not run, because no one can approve it here: edit_file.\nedit_file was refused: ")
    assert "choose a mode: --mode accept-edits, --mode auto-approve" in done.stderr
    assert "was refused" in server.requests[1]["messages"][-1]["content"]
    assert (workspace / "a.py").read_text() == "x = 1\n"


WORKFLOW = ".github/workflows/ci.yml"
SECRET_READ = tool_call("read_file", path=".env")


@pytest.mark.parametrize(
    ("call", "advised"),
    [
        (EDIT, {"rule", "accept-edits", "auto-approve"}),
        (tool_call("write_file", path="new.py", content="x"), {"rule", "auto-approve"}),
        (tool_call("write_file", path=WORKFLOW, content="x"), {"auto-approve"}),
        (SECRET_READ, {"auto-approve"}),
        (tool_call("write_file", path="../b.py", content="x"), {"auto-approve"}),
        (tool_call("bash", command="touch b"), {"rule", "auto-approve"}),
    ],
)
def test_what_a_refusal_advises_works_and_nothing_else_would(kin, server, home, workspace, call, advised):
    (workspace / ".github" / "workflows").mkdir(parents=True)
    (workspace / WORKFLOW).write_text("on: push\n")
    (workspace / ".env").write_text("KEY=1\n")
    rule = f'permission = "always" in [tools.{call["function"]["name"]}] of ~/.kin-code/config.toml'

    def refused(*options: str) -> str:
        server.enqueue(calls=[call])
        server.enqueue("Done, or not.")
        done = kin("run", "-p", "Do it.", *options)
        assert (done.returncode == 1) is ("was refused" in done.stderr), done.stderr
        return done.stderr

    advice = refused()
    found = {
        mode for mode in ("accept-edits", "auto-approve") if f"--mode {mode}" in advice.partition("was refused")[2]
    }
    assert found | ({"rule"} if rule in advice else set()) == advised
    original = {path: path.read_text() for path in workspace.rglob("*") if path.is_file()}
    for mode in ("accept-edits", "auto-approve"):
        assert bool(refused("--mode", mode)) is (mode not in advised)
        for path, text in original.items():
            path.write_text(text)
        (workspace / "new.py").unlink(missing_ok=True)
    with (home / ".kin-code" / "config.toml").open("a") as file:
        file.write(f'\n[tools.{call["function"]["name"]}]\npermission = "always"\n')
    assert bool(refused()) is ("rule" not in advised)


@pytest.mark.parametrize("look", [(), (LOOK,) * 50], ids=["alone", "after as many as the record lists"])
def test_a_call_that_was_refused_inside_a_subagent_is_a_failure_too(kin, server, workspace, look):
    task = tool_call("task", description="make x 3", prompt="Make x 3.", profile="general")
    server.enqueue(calls=[task])
    server.enqueue(calls=[*look, EDIT])
    server.enqueue("I may not.")
    server.enqueue("It may not.")
    done = kin("run", "-p", "Make x 3.")
    assert (done.returncode, done.stdout) == (1, "It may not.\n")
    assert done.stderr.startswith("Not run, because no one can approve it here: edit_file.\n")
    assert (workspace / "a.py").read_text() == "x = 1\n"


@pytest.mark.parametrize("mode", ["accept-edits", "auto_approve"])
def test_a_mode_that_allows_edits(kin, server, workspace, mode):
    server.enqueue(calls=[EDIT])
    server.enqueue("Done.")
    assert kin("run", "-p", "Make x 3.", "--mode", mode).returncode == 0
    assert (workspace / "a.py").read_text() == "x = 3\n"


def test_workdir_is_where_the_tools_work(server, kin, workspace, tmp_path):
    server.enqueue("I look.", calls=[LOOK])
    server.enqueue("Done.")
    done = kin("run", "-p", "Look.", "--workdir", workspace, cwd=tmp_path)
    assert done.returncode == 0
    assert "x = 1" in server.requests[1]["messages"][-1]["content"]


def test_without_a_key_it_says_what_to_do(kin):
    done = kin("run", "-p", "Hello?")
    assert (done.returncode, done.stdout) == (1, "")
    for way in ("MISTRAL_API_KEY", "config.toml", "llama.cpp", "kin-nb demo"):
        assert way in done.stderr


def test_a_server_that_refuses_the_key_is_an_error_on_stderr_alone(kin, server):
    server.enqueue(status=401, body={"error": {"message": "who are you?"}})
    done = kin("run", "-p", "Hello?")
    assert (done.returncode, done.stdout) == (1, "")
    assert "401" in done.stderr
    assert "Traceback" not in done.stderr


@each_row(
    ("argv", "said"),
    [
        (["run", "-p", " \n"], "The prompt is empty"),
        (
            ["run", "-p", "x", "--mode", "yolo"],
            'Unknown mode "yolo". That is a policy; its mode is auto-approve.\nModes: default',
        ),
        (["run", "-p", "x", "--output", "xml"], "--output must be one of text, json, streaming, events, got xml"),
        (["run", "-p", "x", "--workdir", "nowhere"], "--workdir nowhere: this folder does not exist"),
        (["replay"], "NOTEBOOK is missing"),
        (["run", "-p", "x", "--max-turns", "-1"], "--max-turns must be 0 or more, got -1."),
        (["run", "-p", "x", "--max-turns", "2.5"], "--max-turns must be a whole number, got '2.5'."),
        (["run", "-p", "x", "--max-price", "-0.5"], "--max-price must be a number in USD such as 0.50, got '-0.5'"),
        (["run", "-p", "x", "--max-price", "nan"], "--max-price must be a number in USD such as 0.50, got 'nan'"),
        (["run", "-p", "x", "--max-price", "$1"], "--max-price must be a number in USD such as 0.50, got '$1'"),
        (["run", "-p", "x", "--resume", "abcd", "--continue"], "Give only one of --resume and --continue."),
        (["config", "--workdir", "nowhere"], "--workdir nowhere: this folder does not exist"),
        (["sessions", "delete"], "unknown command delete"),
        (["run", "--max-request", "x"], "--max-requests must be a whole number, got 'x'."),
        (["run", "--max-pice", "1"], "unknown argument --max-pice 1. Did you mean --max-price?"),
        (["run", "--mod", "plan"], "--mod could mean --mode, --model"),
        (["run", "--mode"], "--mode needs a value."),
        (["rnu", "-p", "x"], "unknown command rnu. Did you mean run?"),
        (["save"], "SESSION is missing.\n`kin-nb sessions` lists the stored sessions"),
        (["frobnicate"], "unknown command frobnicate"),
        ([], "COMMAND is missing"),
    ],
)
def test_wrong_usage_is_exit_2(kin, argv, said):
    done = kin(*argv)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


COMMANDS = "run replay save sessions config trust demo"


@each_row("words", [[], *([name] for name in COMMANDS.split()), ["sessions", "list"], ["sessions", "show"]])
def test_every_command_has_help(kin, words):
    done = kin(*words, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(" ".join(["usage: kin-nb", *words]))
    assert max(map(len, done.stdout.splitlines())) <= 80
    for metavar in ("ALL", "PATH", "MODEL", "AGENT", "WORKDIR", "OUTPUT_DIR", "WORKSPACE"):
        assert f" {metavar}" not in done.stdout, "a name of the code's, not of the person's"


def test_the_help_names_every_command(kin):
    listed = [line.split()[0] for line in kin("--help").stdout.splitlines() if line.startswith("    ")]
    assert [name for name in listed if name in COMMANDS.split()] == COMMANDS.split()


@each_row(
    ("piped", "said"),
    [
        (b"", "The prompt is empty.\nGive one with -p TEXT or on standard input.\n"),
        (b"x\xff", "The prompt is not valid text in this locale's encoding.\n"),
    ],
)
def test_nothing_or_no_text_on_standard_input_is_wrong_usage(kin, server, monkeypatch, piped, said):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped), encoding="utf-8"))
    done = kin("run")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
    assert server.requests == []


@pytest.mark.parametrize("prompt", ["-5", "--help me", "$HOME `x` {y} %s"])
def test_a_prompt_is_taken_verbatim(kin, server, prompt):
    server.enqueue("Well.")
    assert kin("run", f"--prompt={prompt}").returncode == 0
    assert server.requests[0]["messages"][-1]["content"] == prompt


def test_a_negative_number_is_a_prompt_like_any_other(kin, server):
    server.enqueue("Minus five.")
    assert kin("run", "-p", "-5").stdout == "Minus five.\n"


# limits


@pytest.mark.parametrize("option", ["--max-requests", "--max-turns"])
def test_a_limit_of_requests_stops_after_them_with_the_answer_so_far(kin, server, option):
    server.enqueue("I look.", calls=[LOOK])
    done = kin("run", "-p", "What is x?", option, "1")
    assert (done.returncode, done.stdout) == (3, "I look.\n")
    assert done.stderr == (
        "Stopped after 1 model request in this session (--max-requests 1).\n"
        "To continue without this limit: kin-nb run --continue -p Continue.\n"
    )
    assert len(server.requests) == 1


def test_a_limit_that_is_not_reached_is_not_mentioned(kin, server):
    server.enqueue("I look.", calls=[LOOK])
    server.enqueue("x is 1.")
    done = kin("run", "-p", "What is x?", "--max-turns", "2", "--max-price", "0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "x is 1.\n", ""), "a model without prices costs nothing"


def test_a_limit_of_no_turns_asks_no_model(kin, server):
    done = kin("run", "-p", "What is x?", "--max-turns", "0")
    assert (done.returncode, done.stdout) == (3, "")
    assert server.requests == []


def test_a_price_limit_stops_once_it_is_exceeded(kin, server, home):
    config = home / ".kin-code" / "config.toml"
    config.write_text(f"{config.read_text()}input_price = 3.0\noutput_price = 15.0\n")
    usage = {"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200}
    server.enqueue("I look.", calls=[LOOK], usage=usage)
    done = kin("run", "-p", "What is x?", "--max-price", "0.005")
    assert (done.returncode, done.stdout) == (3, "I look.\n")
    assert done.stderr.startswith("Price limit exceeded: $0.0060 > $0.0050"), done.stderr


def test_what_a_limit_stopped_continues_with_a_higher_one(kin, server):
    server.enqueue("I look.", calls=[LOOK])
    assert kin("run", "-p", "What is x?", "--max-requests", "1").returncode == 3
    again = kin("run", "-p", "Continue.", "--continue", "--max-turns", "1")
    assert (again.returncode, again.stdout) == (3, "")
    assert "in this session (--max-requests 1)" in again.stderr
    server.enqueue("x is 1.")
    assert kin("run", "-p", "Please.", "--continue", "--max-turns", "2").stdout == "x is 1.\n"
    assert conversation(server.requests[1]) == [
        ("user", "What is x?"),
        ("assistant", "I look."),
        ("tool", "call00001"),
        ("user", "Continue."),
        ("user", "Please."),
    ]


# modes and agents


def agent_file(home, text: str) -> None:
    path = home / ".kin-code" / "agents" / "reviewer.toml"
    path.parent.mkdir()
    path.write_text(text)


def tools_of(request: dict) -> list[str]:
    return [tool["function"]["name"] for tool in request["tools"]]


def test_a_mode_of_ones_own_brings_its_settings(kin, server, home):
    agent_file(home, 'mode = "plan"\nenabled_tools = ["grep", "read_file"]\n')
    server.enqueue("Reviewed.")
    assert kin("run", "-p", "Review.", "--mode", "reviewer")[:2] == (0, "Reviewed.\n")
    assert sorted(tools_of(server.requests[0])) == ["grep", "read_file"]
    (log,) = logs(home)
    assert '"mode":"reviewer"' in log.read_text()


def test_a_mode_of_ones_own_that_allows_edits(kin, server, home, workspace):
    agent_file(home, 'mode = "accept-edits"\n')
    server.enqueue(calls=[EDIT])
    server.enqueue("Done.")
    assert kin("run", "-p", "Make x 3.", "--mode", "reviewer").returncode == 0
    assert (workspace / "a.py").read_text() == "x = 3\n"


def test_an_unknown_mode_lists_those_that_there_are(kin, server, home):
    agent_file(home, "")
    done = kin("run", "-p", "x", "--mode", "review")
    assert done.returncode == 2
    assert "Modes: default, plan, accept-edits, auto-approve, reviewer." in done.stderr


def test_a_mode_whose_file_is_broken_is_named_with_its_line(kin, server, home):
    agent_file(home, 'description = "x"\nmode = "telepathy"\n')
    done = kin("run", "-p", "x", "--mode", "reviewer")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{home}/.kin-code/agents/reviewer.toml:2: ")


def test_an_agents_settings_without_its_mode(kin, server, home, workspace):
    agent_file(home, 'mode = "auto-approve"\nenabled_tools = ["edit_file"]\n')
    server.enqueue(calls=[EDIT])
    server.enqueue("No.")
    assert kin("run", "-p", "Make x 3.", "--agent", "reviewer").returncode == 1, "--mode is still default"
    assert tools_of(server.requests[0]) == ["edit_file"]
    assert (workspace / "a.py").read_text() == "x = 1\n"


@each_row("option", ["--agent", "--mode", "--model"])
@each_row("name", ["no-such", "../reviewer", "", "a/b"])
def test_a_name_that_there_is_not(kin, server, option, name):
    done = kin("run", "-p", "x", option, name)
    assert done.returncode in {1, 2}
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) <= 2
    assert server.requests == []


# warnings


def test_a_retry_is_shown_on_stderr_with_its_reason_and_time(kin, server):
    server.enqueue(status=429, headers={"Retry-After": "1"}, body={"error": "slow down"})
    server.enqueue("Hello.")
    done = kin("run", "-p", "Hello?")
    assert (done.returncode, done.stdout) == (0, "Hello.\n")
    assert done.stderr == (
        "warning: trying again in 1 s (2 of 3): local server gets too many requests (429: the server asks for 1 s) "
        f"at {server.url}: slow down.\n"
    )


def test_a_server_that_asks_for_a_day_ends_the_run_at_once(kin, server):
    server.enqueue(status=429, headers={"Retry-After": "86400"})
    done = kin("run", "-p", "Hello?")
    assert done.returncode == 1
    assert "(429: the server asks for 24 h)" in done.stderr
    assert "trying again" not in done.stderr
    assert len(server.requests) == 1


def test_what_cannot_be_used_is_a_warning_each_and_the_run_works(kin, server, settings, home):
    path = settings("activ_model = 1\n")
    path.write_text(f'{path.read_text()}\n[[mcp_servers]]\nname = "gone"\ncommand = ["/no/such/program"]\n')
    (home / ".kin-code" / "tools").mkdir()
    (home / ".kin-code" / "tools" / "broken.py").write_text("import json\n1 / 0\n")
    (home / ".kin-code" / "skills" / "bad").mkdir(parents=True)
    (home / ".kin-code" / "skills" / "bad" / "SKILL.md").write_text("no frontmatter\n")
    server.enqueue("All the same.")
    done = kin("run", "-p", "Do it.")
    assert (done.returncode, done.stdout) == (0, "All the same.\n")
    said = done.stderr.splitlines()
    for text in ("activ_model", "/no/such/program", "broken.py:2", "SKILL.md:1"):
        (line,) = [line for line in said if text in line]
        assert line.startswith("warning: ")
    assert len(said) == 4


@pytest.mark.parametrize("output", ["json", "streaming"])
def test_a_warning_is_no_message(kin, server, settings, output):
    settings("activ_model = 1\n")
    server.enqueue("Fine.")
    done = kin("run", "-p", "Do it.", "--output", output)
    assert "activ_model" not in done.stdout
    assert [json.loads(line) for line in done.stdout.splitlines()]
    assert done.stderr.startswith("warning: ")


def test_a_folder_that_is_not_trusted_is_a_warning_that_names_what_was_left_out(kin, server, project):
    server.enqueue("Hello.")
    done = kin("run", "-p", "Hello?")
    assert done.returncode == 0
    assert "AGENTS.md" in done.stderr
    assert "`kin-nb trust`" in done.stderr
    assert "Always write tests." not in server.requests[0]["messages"][0]["content"]
    assert "shout" not in tools_of(server.requests[0])
    kin("trust")
    server.enqueue("Hello.")
    done = kin("run", "-p", "Hello?")
    assert (done.returncode, done.stderr) == (0, "")
    system = server.requests[1]["messages"][0]["content"]
    assert "Always write tests." in system
    assert "Speak like the project." in system
    assert "shout" in tools_of(server.requests[1])


def test_a_skill_is_taken_by_name(kin, server, home):
    skill = home / ".kin-code" / "skills" / "tidy" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: tidy\ndescription: Tidies up\n---\nSweep the floor.\n")
    server.enqueue("Swept.")
    assert kin("run", "-p", "/skill:tidy the kitchen").returncode == 0
    asked = server.requests[0]["messages"][-1]["content"]
    assert "Sweep the floor." in asked
    assert asked.endswith("the kitchen")
    done = kin("run", "-p", "/skill:tidi")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Unknown skill 'tidi'. Did you mean tidy?\n"
    assert len(server.requests) == 1


# how it comes


def test_streaming_writes_each_message_before_the_next_is_asked_for(server, home, workspace):
    hold = threading.Event()
    server.enqueue("I look.", calls=[LOOK])
    server.enqueue("x is 1.", hold=hold)
    argv = [sys.executable, "-m", "kin_nb.cli", "run", "-p", "What is x?", "--output", "streaming"]
    process = subprocess.Popen(argv, cwd=workspace, env=environment(home), stdout=subprocess.PIPE, text=True)
    too_long = threading.Timer(10, process.kill)
    too_long.start()
    try:
        assert process.stdout is not None
        roles = [json.loads(process.stdout.readline())["role"] for _ in range(4)]
        assert roles == ["system", "user", "assistant", "tool"]
        assert not hold.is_set()
        hold.set()
        rest, _ = process.communicate(timeout=60)
        assert json.loads(rest)["content"] == "x is 1."
    finally:
        too_long.cancel()
        process.kill()
        process.communicate(timeout=60)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.long)]
)
def test_a_signal_is_an_exit_code_and_takes_the_running_tool_along(server, home, workspace, number, code):
    with running(server, home, workspace) as (process, child):
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (code, "")
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
    (log,) = logs(home)
    assert log_records(log)[-1]["turn"]["outcome"] == "interrupted"


def test_killed_it_leaves_nothing_running(server, home, workspace):
    command = "(setsid sh -c 'echo $$ > ready; exec sleep 60' >/dev/null 2>&1 &); sleep 60"
    with running(server, home, workspace, command) as (process, child):
        process.kill()
        process.communicate(timeout=60)
        assert has_ended(child)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux shows a process's first environment")
def test_no_command_finds_the_keys_in_the_environment_of_a_process_above_it(server, home, workspace):
    write_config(home, server.url, key_variable="ODDLY_NAMED")
    up = (
        'p=$PPID; for n in 1 2; do tr "\\0" "\\n" < /proc/$p/environ >> seen; '
        "p=$(cut -d' ' -f4 /proc/$p/stat); done; env >> seen"
    )
    server.enqueue("I look.", calls=[tool_call("bash", command=up)])
    server.enqueue("Done.")
    keys = {"ODDLY_NAMED": "secret-of-the-model", "SERVICE_API_KEY": "secret-of-a-service"}
    argv = ("-m", "kin_nb.cli", "run", "-p", "Look.", "--mode", "auto-approve")
    done = run(*argv, home=home, cwd=workspace, **keys)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    seen = (workspace / "seen").read_text(errors="replace")
    assert seen.count("LC_ALL=C.UTF-8") == 3
    assert "secret-of" not in seen
    assert [request.get("authorization") for request in server.headers] == ["Bearer secret-of-the-model"] * 2


def test_a_background_job_that_does_not_hear_ctrl_c_ends_properly_all_the_same(server, home, workspace):
    def in_background() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    with running(server, home, workspace, preexec_fn=in_background) as (process, child):
        process.terminate()
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (143, "")
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


def test_a_hangup_that_is_ignored_stays_so(server, home, workspace):
    """As under nohup."""
    with running(server, home, workspace, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as (
        process,
        child,
    ):
        process.send_signal(signal.SIGHUP)
        server.enqueue("It has ended.")
        os.kill(child, signal.SIGKILL)
        answer, _ = process.communicate(timeout=60)
        assert (process.returncode, answer) == (0, "It has ended.\n")


def test_in_the_home_folder_reads_are_refused_and_stderr_says_why(kin, server, home):
    (home / "notes.txt").write_text("private\n")
    server.enqueue(calls=[tool_call("read_file", path="notes.txt")])
    server.enqueue("I may not.")
    done = kin("run", "-p", "Read my notes.", cwd=home)
    assert (done.returncode, done.stdout) == (1, "I may not.\n")
    assert "The workspace is your home folder, so reading files asks too." in done.stderr
    answer = server.requests[1]["messages"][-1]["content"]
    assert "the workspace is your home folder, and no one can approve it here" in answer
    assert "private" not in answer


def test_the_mode_command_says_that_the_workspace_is_the_home_folder(kin, server, home):
    assert "The workspace is your home folder" in kin("run", "-p", "/mode", cwd=home).stdout


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ('active_model = "ours"\n', (), 'Unknown model "ours"'),
        ("", (), "No key for mistral"),
        ("", ("--mode", "reviewer"), 'Unknown mode "reviewer"'),
        ("", ("--agent", "reviewer"), 'Unknown agent "reviewer"'),
    ],
)
def test_a_run_that_cannot_begin_says_that_a_projects_settings_were_left_out(
    kin, settings, project, text, options, said
):
    settings(text)
    done = kin("run", "-p", "Hello?", *options)
    assert (done.returncode in {1, 2}, done.stdout) == (True, "")
    assert said in done.stderr
    assert (
        done.stderr.count(f"{project} is not trusted, so nothing was read of its AGENTS.md, .kin-code/config.toml") == 1
    )
