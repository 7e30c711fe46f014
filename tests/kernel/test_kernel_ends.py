"""When a kernel ends, or a turn is interrupted: no process that the agent has started is left."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from notebook_client import LiveKernel, run, write_config

from tests.model_server import tool_call
from tests.unit.cli.processes import has_ended, pid_in, words_in
from tests.unit.mcp.conftest import SCRIPT

pytestmark = [pytest.mark.kernel, pytest.mark.one_kernel]

WAITING = "echo $$ > ready; exec sleep 300"
ASK = "%%kin --mode auto-approve\nDo it."
BACKGROUND = f"import subprocess\nsubprocess.run(['bash', '-c', \"sh -c '{WAITING}' & sleep 300\"])"
OF_ITS_OWN = f"import subprocess\nsubprocess.run(['bash', '-c', \"(setsid sh -c '{WAITING}' &); sleep 300\"])"


@pytest.fixture
def ready(tmp_path):
    os.mkfifo(tmp_path / "ready")
    return tmp_path / "ready"


@pytest.fixture
def live(tmp_path, model_server, ready):
    """A kernel of the test's own, with an MCP server."""
    home = tmp_path / "kin-home"
    write_config(home, model_server)
    command = json.dumps([sys.executable, "-ES", str(SCRIPT), "normal"])
    with (home / "config.toml").open("a") as config:
        config.write(f'\n[[mcp_servers]]\nname = "test"\ncommand = {command}\n')
    folders = {"KIN_HOME": str(home), "HOME": str(home), "IPYTHONDIR": str(home / "ipython")}
    environment = {**folders, "SERVICE_API_KEY": "secret-of-a-service"}
    kernel = LiveKernel([Path(__file__).parents[2]], environment, subshells=False, cwd=tmp_path)
    run(kernel, "%load_ext kin_nb")
    yield kernel
    kernel.close()


def server_pid(tmp_path: Path) -> int:
    return int((tmp_path / "starts").read_text())


def test_the_environment_of_the_kernel_is_whole_for_the_user_and_without_secrets_for_commands(
    live, model_server, tmp_path
):
    up = 'tr "\\0" "\\n" < /proc/$(cut -d" " -f4 /proc/$PPID/stat)/environ > seen'
    model_server.enqueue(calls=[tool_call("bash", command=up)])
    model_server.enqueue(calls=[tool_call("python", code="import os; os.environ['SERVICE_API_KEY']")])
    model_server.enqueue("Done.")
    live.done(live.run(ASK))
    assert "KIN_HOME=" in (tmp_path / "seen").read_text()
    assert "secret-of-a-service" not in (tmp_path / "seen").read_text()
    assert model_server.requests[2]["messages"][-1]["content"] == "'[secret]'"
    assert live.text(run(live, "print(os.environ['SERVICE_API_KEY'])")) == "secret-of-a-service\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_commands_and_servers_end_with_the_kernel(live, model_server, tmp_path, ready, number):
    model_server.enqueue(calls=[tool_call("bash", command=f"(setsid sh -c '{WAITING}' &); sleep 300", timeout=600)])
    live.run(ASK)
    pid, server = pid_in(ready), server_pid(tmp_path)
    kernel = psutil.Process(live.manager.provisioner.pid)
    os.kill(kernel.pid, number)
    assert has_ended(kernel.pid)
    assert has_ended(pid)
    assert has_ended(server)


def test_sigterm_ends_the_turn_properly_and_the_kernel_as_ever(live, model_server, tmp_path, ready):
    model_server.enqueue(calls=[tool_call("bash", command=WAITING, timeout=600)])
    live.run(ASK)
    words_in(ready)
    process = live.manager.provisioner.process
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM
    (log,) = (tmp_path / "kin-home").rglob("log.jsonl")
    last = [json.loads(line) for line in log.read_text().splitlines()][-1]
    assert last["turn"]["outcome"] == "interrupted"


def test_servers_end_with_a_kernel_that_is_idle(live, model_server, tmp_path):
    model_server.enqueue("Hello.")
    assert live.done(live.run("%%kin\nHello?"))["content"]["status"] == "ok"
    server = server_pid(tmp_path)
    os.kill(live.manager.provisioner.pid, signal.SIGTERM)
    assert has_ended(server)


@pytest.mark.parametrize("code", [BACKGROUND, OF_ITS_OWN], ids=["in the background", "in a session of its own"])
def test_what_python_has_started_ends_when_it_is_interrupted(live, model_server, tmp_path, ready, code):
    users_own = run_and_read(
        live, "import subprocess; p = subprocess.Popen(['sleep', '300'], start_new_session=True); print(p.pid)"
    )
    model_server.enqueue(calls=[tool_call("python", code=code)])
    cell = live.run(ASK)
    pid, server = pid_in(ready), server_pid(tmp_path)
    live.interrupt()
    assert live.done(cell)["content"]["status"] == "error"
    assert has_ended(pid)
    assert psutil.Process(users_own).status() == psutil.STATUS_SLEEPING
    assert psutil.Process(server).status() == psutil.STATUS_SLEEPING
    run(live, "import os; assert 'KIN_NB_CALL' not in os.environ; p.kill(); p.wait()")


def test_what_python_has_started_ends_when_its_time_is_up(live, model_server, ready):
    model_server.enqueue(calls=[tool_call("python", code=OF_ITS_OWN, timeout=8)])
    model_server.enqueue("Too long.")
    cell = live.run(ASK)
    pid = pid_in(ready)
    assert live.done(cell)["content"]["status"] == "ok"
    assert has_ended(pid)


def test_what_python_has_started_ends_when_the_kernel_gets_sigterm(live, model_server, ready):
    model_server.enqueue(calls=[tool_call("python", code=OF_ITS_OWN)])
    live.run(ASK)
    pid = pid_in(ready)
    process = live.manager.provisioner.process
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM
    assert has_ended(pid)


def test_code_that_does_not_stop_does_not_keep_the_kernel_alive_after_sigterm(live, model_server, ready):
    code = (
        "while True:\n    try:\n        open('ready', 'w').close()\n        while True: pass\n"
        "    except KeyboardInterrupt: pass"
    )
    model_server.enqueue(calls=[tool_call("python", code=code)])
    live.run(ASK)
    words_in(ready)
    process = live.manager.provisioner.process
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM


def test_what_python_has_started_stays_when_it_ends_by_itself(live, model_server):
    model_server.enqueue(calls=[tool_call("python", code="import subprocess; p = subprocess.Popen(['sleep', '300'])")])
    model_server.enqueue("Started.")
    assert live.done(live.run(ASK))["content"]["status"] == "ok"
    assert run_and_read(live, "print(-1 if p.poll() is None else 1); p.kill(); p.wait();") == -1


def run_and_read(live: LiveKernel, code: str) -> int:
    return int(live.text(run(live, code)))
