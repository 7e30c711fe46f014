"""A command at its time limit: it is interrupted first, and the model reads where it was and how to give it more time."""

from __future__ import annotations

import pytest

from kin_nb.core.tools.builtins import bash as bash_module
from kin_nb.core.tools.builtins.bash import Bash, BashArgs, BashConfig, BashResult


@pytest.fixture
def bash(tmp_path) -> Bash:
    return Bash.from_config(BashConfig(workdir=tmp_path))


async def test_python_prints_where_it_hangs(bash):
    code = "import time\ndef wait_for_the_lock():\n    print('begun', flush=True)\n    time.sleep(300)\nwait_for_the_lock()"
    (bash.config.effective_workdir / "hang.py").write_text(code)
    result = await bash.invoke(command="python3 hang.py", timeout=1)
    assert (result.timed_out, result.exit_code) == (True, 124)
    text = bash.to_model(result)
    assert text.startswith("begun\nTraceback")
    assert "in wait_for_the_lock" in text
    assert text.endswith(
        "[stopped at its time limit of 1 s. If it needs more time, pass a longer timeout, at most 3,600 s.]"
    )


async def test_one_that_ignores_the_interrupt_is_ended_all_the_same(bash):
    command = "trap 'echo not yet' INT; echo $$ > pid; while :; do sleep 1; done"
    result = await bash.invoke(command=command, timeout=1)
    assert (result.timed_out, result.exit_code, result.swept, result.remains) == (True, 124, [], [])
    assert "not yet" in result.output


async def test_one_that_ends_by_itself_after_the_interrupt_was_stopped_all_the_same(bash):
    result = await bash.invoke(command="trap 'echo saved; exit 0' INT; while :; do sleep 0.1; done", timeout=1)
    assert (result.timed_out, result.exit_code, result.output) == (True, 124, "saved\n")


async def test_a_longer_limit_than_the_longest_is_shortened_and_the_model_reads_it(bash, monkeypatch):
    monkeypatch.setattr(bash_module, "LONGEST", 1)
    text = bash.to_model(await bash.invoke(command="sleep 300", timeout=10_000))
    assert text == "[stopped at the longest time limit, 1 s; 10,000 s were asked for.]"


def test_the_default_is_two_minutes_and_the_longest_an_hour(bash):
    assert (bash.config.default_timeout, bash_module.LONGEST) == (120, 3_600)
    assert BashArgs(command="x", timeout=10**6).timeout == 10**6
    ended = BashResult(output="", exit_code=0, seconds=3_600, asked_seconds=7_200)
    assert bash.to_model(ended) == "[no output]", "nothing about a limit that was not reached"
