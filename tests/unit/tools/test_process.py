"""A program and all that it started end with the call, and with the process that made the call."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import psutil
import pytest

from kin_nb.core.processes import supervisor
from kin_nb.core.processes.supervised import Supervised, run_process, send_signal
from kin_nb.core.tool_types import ToolError
from tests.unit.cli.processes import has_ended, pid_in, words_in

SECONDS = 60.0
KILLED = ("what was started may still run: its supervisor was killed",)
WAITING = "echo $$ > ready; exec sleep 300"
SHAPES = {
    "in the foreground": f"sh -c '{WAITING}'",
    "in the background": f"sh -c '{WAITING}' & wait",
    "orphaned": f"(sh -c '{WAITING}' &); sleep 300",
    "nohup": f"nohup sh -c '{WAITING}' >/dev/null 2>&1 & sleep 300",
    "setsid": f"setsid sh -c '{WAITING}' & sleep 300",
    "setsid and orphaned": f"(setsid sh -c '{WAITING}' >/dev/null 2>&1 &); sleep 300",
    "in a pipeline": f"sh -c '{WAITING}' | cat",
    "deaf to SIGTERM": f"trap '' TERM HUP INT; sh -c 'trap \"\" TERM; {WAITING}'",
    "stopped": "(setsid sh -c 'echo $$ > ready; kill -STOP $$; sleep 300' &); sleep 300",
    "a daemon": (
        f"{sys.executable} -c 'import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); "
        "[os.close(n) for n in (0, 1, 2)]; os.environ.clear(); "
        'open("ready", "w").write(str(os.getpid())); os.execve("/bin/sleep", ["sleep", "300"], {})\'; sleep 300'
    ),
}
if sys.platform != "linux":  # no subreaper: what has left the group and lost its parent is not found
    SHAPES = {name: command for name, command in SHAPES.items() if "setsid" not in command and name != "a daemon"}
LEFT_BEHIND = [
    name for name in SHAPES if name in {"orphaned", "nohup", "setsid", "setsid and orphaned", "stopped", "a daemon"}
]
linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux has subreapers and /proc")

DRIVER = """
import asyncio, os, sys, time
from pathlib import Path
from kin_nb.core.processes.supervised import run_process

async def run(folder, command):
    await run_process(["bash", "-c", command], cwd=folder, environment=os.environ, seconds=300, sink=lambda _: False)

async def main():
    forks, *words = sys.argv[1:]
    calls = asyncio.gather(*(run(Path(folder), command) for folder, command in zip(words[::2], words[1::2])))
    if forks == "forks":
        pid = await asyncio.to_thread(Path("ready").read_text)
        if (fork := os.fork()) == 0:
            time.sleep(300)
        Path("forked").write_text(f"{pid.strip()} {fork}")
    await calls

asyncio.run(main())
"""


@pytest.fixture
def ready(tmp_path):
    """Where a command writes its process id."""
    os.mkfifo(tmp_path / "ready")
    return tmp_path / "ready"


async def run(command: str, folder: Path, seconds: float = SECONDS):
    words = ["bash", "-c", command]
    return await run_process(words, cwd=folder, environment=os.environ, seconds=seconds, sink=lambda _: False)


async def read_pid(ready: Path) -> int:
    return await asyncio.to_thread(pid_in, ready)


def driver(folder: Path, commands: dict[str, str], forks: str = "") -> subprocess.Popen[bytes]:
    """A process that runs commands, each in a folder; it forks before it waits for them if `forks` is "forks"."""
    words = [word for pair in commands.items() for word in pair]
    argv = [sys.executable, "-W", "ignore", "-c", DRIVER, forks, *words]  # 3.12 warns of a fork that has threads
    return subprocess.Popen(argv, cwd=folder, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])})


def folders(root: Path, names: Iterable[str]) -> dict[str, Path]:
    """A folder for each command, in which `ready` is a pipe."""
    made = {name: root / name.replace(" ", "-") for name in names}
    for folder in made.values():
        folder.mkdir()
        os.mkfifo(folder / "ready")
    return made


def test_what_a_killed_process_was_running_ends(subtests, tmp_path):
    places = folders(tmp_path, SHAPES)
    with driver(tmp_path, {str(places[name]): command for name, command in SHAPES.items()}) as process:
        pids = {name: pid_in(folder / "ready") for name, folder in places.items()}
        process.kill()
    for name, pid in pids.items():
        with subtests.test(name=name):
            assert has_ended(pid)


def test_it_ends_although_a_fork_of_the_killed_process_lives_on(tmp_path, ready):
    """Such as a worker of multiprocessing: it holds copies of all descriptors."""
    os.mkfifo(tmp_path / "forked")
    with driver(tmp_path, {".": f"sh -c '{WAITING}'"}, "forks") as process:
        pid, fork = (int(word) for word in words_in(tmp_path / "forked"))
        process.kill()
    try:
        assert has_ended(pid)
        assert psutil.Process(fork).is_running()
    finally:
        os.kill(fork, signal.SIGKILL)


async def test_cancelling_ends_all_of_it(subtests, tmp_path):
    for name, folder in folders(tmp_path, SHAPES).items():
        with subtests.test(name=name):
            call = asyncio.create_task(run(SHAPES[name], folder))
            pid = await read_pid(folder / "ready")
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert not psutil.pid_exists(pid)


@linux
async def test_cancelling_again_kills_and_leaves_no_descriptor_watched(tmp_path, ready, monkeypatch):
    loop, watched, asked = asyncio.get_running_loop(), [], asyncio.Event()
    add_reader = loop.add_reader
    monkeypatch.setattr(loop, "add_reader", lambda fd, *rest: (watched.append(fd), add_reader(fd, *rest)))
    monkeypatch.setattr(Supervised, "terminate", lambda *_: asked.set())  # as where SIGTERM ends nothing
    call = asyncio.create_task(run(WAITING, tmp_path))
    pid = await read_pid(ready)
    with await asyncio.to_thread(Path(f"/proc/{pid}/fd/2").open, "w"):  # no end of file, as if one could not be ended
        call.cancel()
        await asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert not psutil.pid_exists(pid)
    assert len(watched) == 1
    assert not loop.remove_reader(watched[0])  # a later command may get a descriptor of that number


async def test_what_is_still_running_at_the_end_is_ended_and_named(subtests, tmp_path):
    for name, folder in folders(tmp_path, LEFT_BEHIND).items():
        with subtests.test(name=name):
            command = SHAPES[name].replace("; sleep 300", "").replace("& sleep 300", "& sleep 0")
            call = asyncio.create_task(run(command, folder))
            pid = await read_pid(folder / "ready")
            ended = await call
            assert (ended.exit_code, ended.timed_out, ended.remains) == (0, False, ())
            assert len(ended.swept) == 1
            assert not psutil.pid_exists(pid)


@linux
async def test_many_that_are_still_running_are_ended_and_the_report_is_whole(tmp_path):
    # under their own names: until then each is still called setsid
    begun = "[ $(ps -eo args | grep -c '^sleep 713[0-9][0-9][0-9]$') -ge 150 ]"
    ended = await run(
        f"for n in $(seq 150); do setsid sleep $((713000 + n)) & done; until {begun}; do sleep 0.1; done", tmp_path
    )
    assert (ended.exit_code, ended.remains) == (0, ())
    assert "sleep 713001" in ended.swept


async def test_what_ends_by_itself_just_after_the_program_is_let_end(tmp_path):
    ended = await run("echo words > >(sleep 0.05; cat > file)", tmp_path)
    assert (ended.swept, (tmp_path / "file").read_text()) == ((), "words\n")


@linux
async def test_time_up_ends_all_of_it(tmp_path, ready):
    call = asyncio.create_task(run(SHAPES["setsid and orphaned"], tmp_path, seconds=4))
    pid = await read_pid(ready)
    ended = await call
    assert (ended.exit_code, ended.timed_out) == (124, True)
    assert not psutil.pid_exists(pid)


async def test_its_exit_code_is_the_program_s_own(subtests, tmp_path):
    for command, code in [
        ("exit 3", 3),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
        ("kill -SEGV $$", 139),
        ("exit 255", 255),
    ]:
        with subtests.test(command=command, code=code):
            ended = await run(command, tmp_path)
            assert (ended.exit_code, ended.timed_out) == (code, False)
            assert list(tmp_path.iterdir()) == []  # no core file


@linux
async def test_a_program_that_kills_its_supervisor_ends_with_it(tmp_path, ready):
    call = asyncio.create_task(run(f"kill -9 $PPID; {WAITING}", tmp_path))
    ended = await call
    assert ended.exit_code == 137


@linux
async def test_the_group_of_a_program_whose_supervisor_was_killed_is_ended(tmp_path):
    ended = await run("sleep 300 & echo $! > ready; kill -9 $PPID; wait", tmp_path)
    assert has_ended(int((tmp_path / "ready").read_text()))
    assert ended.remains == KILLED


@linux
async def test_a_program_that_stops_its_supervisor_is_ended_when_the_time_is_up(tmp_path, ready):
    call = asyncio.create_task(run(f"kill -STOP $PPID; setsid sh -c '{WAITING}'", tmp_path, seconds=4))
    pid = await read_pid(ready)
    ended = await call
    assert (ended.exit_code, ended.timed_out, ended.remains) == (124, True, ())
    assert has_ended(pid)


@linux
async def test_a_supervisor_without_a_process_left_says_so(tmp_path, monkeypatch):
    program = tmp_path / "supervisor.py"
    program.write_text(Path(supervisor.__file__).read_text().replace("os.fork()", "os.open('/nowhere', 0)"))
    monkeypatch.setattr("kin_nb.core.processes.supervised._PROGRAM", program)
    with pytest.raises(ToolError, match="could not be started"):
        await run("true", tmp_path)


@linux
async def test_sigterm_to_its_supervisor_ends_all_of_it(tmp_path, ready):
    """ipykernel sends it to all that a kernel has started, when it is shut down."""
    before = set(psutil.Process().children())
    call = asyncio.create_task(run(SHAPES["setsid and orphaned"], tmp_path))
    pid = await read_pid(ready)
    (parent,) = set(psutil.Process().children()) - before
    parent.terminate()
    assert (await call).exit_code == 143
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize(("name", "why"), [("no-such-program", "No such file"), ("./text", "Permission denied")])
async def test_what_cannot_be_started_says_why(tmp_path, name, why):
    (tmp_path / "text").touch()
    with pytest.raises(ToolError, match=f"The command could not be started: .*{why}.*{name}"):
        await run_process([name], cwd=tmp_path, environment=os.environ, seconds=9, sink=lambda _: False)


def ignored(status: str) -> int:
    """The signals that a process ignores, by its /proc/PID/status: one bit each."""
    (line,) = (line for line in status.splitlines() if line.startswith("SigIgn:"))
    return int(line.split()[1], 16)


@linux
async def test_it_gets_the_environment_and_the_signals_as_they_are_here(tmp_path):
    output = bytearray()

    def add(chunk: bytes) -> bool:
        output.extend(chunk)
        return False

    environment = {"PATH": os.environ["PATH"], "LC_ALL": "", "ODD": "\udcff"}
    script = (
        "import signal, os; print(sorted(os.environb), signal.getsignal(signal.SIGTERM), os.getsid(0) == os.getpid())"
    )
    argv = [sys.executable, "-X", "utf8", "-E", "-c", script]
    await run_process(argv, cwd=tmp_path, environment=environment, seconds=60, sink=add)
    ran = partial(
        subprocess.run, argv, env=environment, capture_output=True, text=True, check=True, start_new_session=True
    )
    program = (await asyncio.to_thread(ran)).stdout
    assert output.decode() == program
    await run_process(["cat", "/proc/self/status"], cwd=tmp_path, environment={}, seconds=60, sink=add)
    restored = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1  # Python ignores them; its children do not
    assert ignored(output.decode()) == ignored(Path("/proc/self/status").read_text()) & ~restored


async def test_cancelled_while_it_starts_it_leaves_nothing_running(tmp_path, ready):
    """asyncio itself would end the supervisor alone, and not what that has started by then."""
    call = asyncio.create_task(run(f"sh -c '{WAITING}'", tmp_path))
    for _ in range(2):  # to where it waits to hear that the program has been started
        await asyncio.sleep(0)
    pid = pid_in(ready)  # the loop stands still meanwhile
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not psutil.pid_exists(pid)


def test_a_signal_leaves_the_exit_status_to_who_waits_for_it():
    """asyncio's thread would find none, and say "Unknown child process pid" on the user's stderr."""
    process = subprocess.Popen(["sh", "-c", "exit 3"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    send_signal(process, signal.SIGCONT)
    _, status = os.waitpid(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 3
    process.wait()


@linux
def test_without_a_subreaper_the_descendants_and_the_group_are_found(tmp_path, monkeypatch, ready):
    """As on macOS, by ps: one that left the group and lost its parent is not found."""
    found = {process.pid: process for process in supervisor._by_ps()}
    assert found[os.getpid()].parent == os.getppid()
    without_proc = Path(supervisor.__file__).read_text().replace("(_by_proc() or _by_ps())", "_by_ps()")
    assert "in _by_ps()" in without_proc
    without_linux = without_proc.replace('sys.platform != "linux"', "True").replace("os.pidfd_open(pid)", "-1")
    program = tmp_path / "supervisor.py"
    program.write_text(without_linux)
    monkeypatch.setattr("kin_nb.core.processes.supervised._PROGRAM", program)
    command = f"(sh -c '{WAITING}' &); setsid sh -c 'exec sleep 301' & sleep 0.2"

    async def both() -> tuple[object, int]:
        call = asyncio.create_task(run(command, tmp_path))
        return await read_pid(ready), await call

    pid, ended = asyncio.run(both())
    assert has_ended(pid)
    assert ended.exit_code == 0
    assert "sleep 300" in ended.swept
    for process in psutil.process_iter(["cmdline"]):
        if process.info["cmdline"] == ["sleep", "301"]:
            process.send_signal(signal.SIGKILL)
