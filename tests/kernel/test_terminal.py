"""IPython in a terminal, without a kernel: text, and input() where someone is there."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPT = """
ip = get_ipython()
ip.run_line_magic("load_ext", "agent_cells")
ip.run_cell_magic("agent", "", "d = await ask('rm -rf build')\\nio.stream(f'decided {d.approved} by {d.by}\\\\n')")
"""


@pytest.fixture
def ipython(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KIN_")}
    paths = os.pathsep.join([str(HERE.parent.parent), str(HERE)])
    environment |= {"PYTHONPATH": paths, "IPYTHONDIR": str(tmp_path), "TERM": "dumb"}

    def run(stdin) -> str:
        command = [sys.executable, "-m", "IPython", "--no-banner", "--simple-prompt", "-c", SCRIPT]
        return subprocess.run(
            command, stdin=stdin, env=environment, capture_output=True, text=True, timeout=60, check=True
        ).stdout

    return run


def test_a_person_at_the_terminal_is_asked(ipython):
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"y\n")
        text = ipython(theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    assert "rm -rf build" in text
    assert "decided True by person" in text


def test_no_one_at_the_terminal_is_a_refusal(ipython):
    assert "decided False by headless" in ipython(subprocess.DEVNULL)
