"""When a kernel ends, or a turn is interrupted: no process that the agent has started is left."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from notebook_client import LiveKernel, run, write_config

from tests.model_server import ModelServer, tool_call
from tests.unit.cli.processes import has_ended, pid_in, words_in
from tests.unit.mcp.conftest import SCRIPT

pytestmark = [pytest.mark.kernel, pytest.mark.one_kernel]

WAITING = "echo $$ > ready; exec sleep 300"
ASK = "%%kin --mode auto-approve\nDo it."
BACKGROUND = f"import subprocess\nsubprocess.run(['bash', '-c', \"sh -c '{WAITING}' & sleep 300\"])"
OF_ITS_OWN = f"import subprocess\nsubprocess.run(['bash', '-c', \"(setsid sh -c '{WAITING}' &); sleep 300\"])"


@dataclass(frozen=True)
class Scene:
    """A kernel with an MCP server, in `folder`; its model is at `model`."""

    kernel: LiveKernel
    model: ModelServer
    folder: Path

    @property
    def ready(self) -> Path:
        return self.folder / "ready"

    def ask(self, tool: str, /, **arguments: object) -> str:
        """A prompt whose answer is that call of a tool; the message id of its cell."""
        self.model.enqueue(calls=[tool_call(tool, **arguments)])
        return self.kernel.run(ASK, cell=f"cell-{len(self.model.requests)}")

    def server_pid(self) -> int:
        return int((self.folder / "starts").read_text())

    def print(self, code: str) -> str:
        return self.kernel.text(run(self.kernel, code))


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    with ModelServer.start() as model:
        home = folder / "kin-home"
        write_config(home, model)
        command = json.dumps([sys.executable, "-ES", str(SCRIPT), "normal"])
        with (home / "config.toml").open("a") as config:
            config.write(f'\n[[mcp_servers]]\nname = "test"\ncommand = {command}\n')
        folders = {"KIN_HOME": str(home), "HOME": str(home), "IPYTHONDIR": str(home / "ipython")}
        environment = {**folders, "SERVICE_API_KEY": "secret-of-a-service"}
        kernel = LiveKernel([Path(__file__).parents[2]], environment, subshells=False, cwd=folder)
        try:
            run(kernel, "%load_ext kin_nb")
            yield Scene(kernel, model, folder)
        finally:
            kernel.close()
        assert model.violations == []


@pytest.fixture(scope="module")
def _shared(tmp_path_factory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("shared")) as shared:
        yield shared


@pytest.fixture
def live(_shared: Scene) -> Scene:
    """Of a kernel that outlives the test."""
    _shared.ready.unlink(missing_ok=True)
    os.mkfifo(_shared.ready)
    return _shared


@pytest.fixture
def ending(tmp_path) -> Iterator[Scene]:
    """Of a kernel that the test ends."""
    os.mkfifo(tmp_path / "ready")
    with scene(tmp_path) as own:
        yield own


def test_the_environment_of_the_kernel_is_whole_for_the_user_and_without_secrets_for_commands(live):
    up = 'tr "\\0" "\\n" < /proc/$(cut -d" " -f4 /proc/$PPID/stat)/environ > seen'
    cell = live.ask("bash", command=up)
    live.model.enqueue(calls=[tool_call("python", code="import os; os.environ['SERVICE_API_KEY']")])
    live.model.enqueue("Done.")
    live.kernel.done(cell)
    assert "KIN_HOME=" in (live.folder / "seen").read_text()
    assert "secret-of-a-service" not in (live.folder / "seen").read_text()
    assert live.model.requests[-1]["messages"][-1]["content"] == "'[secret]'"
    assert live.print("print(os.environ['SERVICE_API_KEY'])") == "secret-of-a-service\n"


@pytest.mark.parametrize("code", [BACKGROUND, OF_ITS_OWN], ids=["in the background", "in a session of its own"])
def test_what_python_has_started_ends_when_it_is_interrupted(live, code):
    users_own = int(
        live.print("import subprocess; p = subprocess.Popen(['sleep', '300'], start_new_session=True); print(p.pid)")
    )
    cell = live.ask("python", code=code)
    pid, server = pid_in(live.ready), live.server_pid()
    live.kernel.interrupt()
    assert live.kernel.done(cell)["content"]["status"] == "error"
    assert has_ended(pid)
    assert psutil.Process(users_own).status() == psutil.STATUS_SLEEPING
    assert psutil.Process(server).status() == psutil.STATUS_SLEEPING
    run(live.kernel, "import os; assert 'KIN_NB_CALL' not in os.environ; p.kill(); p.wait()")


def test_what_python_has_started_ends_when_its_time_is_up(live):
    cell = live.ask("python", code=OF_ITS_OWN, timeout=4)
    live.model.enqueue("Too long.")
    pid = pid_in(live.ready)
    assert live.kernel.done(cell)["content"]["status"] == "ok"
    assert has_ended(pid)


def test_what_python_has_started_stays_when_it_ends_by_itself(live):
    cell = live.ask("python", code="import subprocess; p = subprocess.Popen(['sleep', '300'])")
    live.model.enqueue("Started.")
    assert live.kernel.done(cell)["content"]["status"] == "ok"
    assert live.print("print(p.poll()); p.kill(); p.wait();") == "None\n"


def test_commands_and_servers_end_with_a_kernel_that_is_killed(ending):
    ending.ask("bash", command=f"(setsid sh -c '{WAITING}' &); sleep 300", timeout=600)
    pid, server = pid_in(ending.ready), ending.server_pid()
    kernel = psutil.Process(ending.kernel.manager.provisioner.pid)
    os.kill(kernel.pid, signal.SIGKILL)
    assert has_ended(kernel.pid)
    assert has_ended(pid)
    assert has_ended(server)


def test_sigterm_ends_commands_servers_the_turn_and_the_kernel(ending):
    ending.ask("bash", command=f"(setsid sh -c '{WAITING}' &); sleep 300", timeout=600)
    pid, server = pid_in(ending.ready), ending.server_pid()
    assert_ends_by_sigterm(ending)
    assert has_ended(pid)
    assert has_ended(server)
    (log,) = (ending.folder / "kin-home").rglob("log.jsonl")
    last = [json.loads(line) for line in log.read_text().splitlines()][-1]
    assert last["turn"]["outcome"] == "interrupted"


def test_servers_end_with_a_kernel_that_is_idle(ending):
    ending.model.enqueue("Hello.")
    assert ending.kernel.done(ending.kernel.run("%%kin\nHello?"))["content"]["status"] == "ok"
    server = ending.server_pid()
    os.kill(ending.kernel.manager.provisioner.pid, signal.SIGTERM)
    assert has_ended(server)


def test_what_python_has_started_ends_when_the_kernel_gets_sigterm(ending):
    ending.ask("python", code=OF_ITS_OWN)
    pid = pid_in(ending.ready)
    assert_ends_by_sigterm(ending)
    assert has_ended(pid)


def test_code_that_does_not_stop_does_not_keep_the_kernel_alive_after_sigterm(ending):
    code = (
        "while True:\n    try:\n        open('ready', 'w').close()\n        while True: pass\n"
        "    except KeyboardInterrupt: pass"
    )
    ending.ask("python", code=code)
    words_in(ending.ready)
    assert_ends_by_sigterm(ending)


def assert_ends_by_sigterm(ending: Scene) -> None:
    """As a kernel without kin_nb does."""
    process = ending.kernel.manager.provisioner.process
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM
