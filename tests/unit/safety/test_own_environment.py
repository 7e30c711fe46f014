"""What other processes may read of ours, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux shows a process's first environment")

START = {"SOME_API_KEY": "first-secret", "ODDLY_NAMED": "second-secret", "LANG": "C", "DB": "pg://me:third-one@host"}
KIN = {"KIN_PROVIDERS": '[{"name": "p", "api_key": "fourth-secret"}]'}


def run(program: str, **environment: str) -> str:
    argv = [sys.executable, "-c", program]
    done = subprocess.run(
        argv,
        env={**START, **KIN, **environment},
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        check=True,
    )
    return done.stdout


def test_secrets_are_gone_from_what_others_read_and_stay_for_the_process_itself():
    output = run("""
import ctypes, os, subprocess
from pathlib import Path
from kin_nb.core.environment import hide_secrets
os.environ["SET_LATER_TOKEN"] = "set-later"
names = ["SOME_API_KEY", "ODDLY_NAMED", "DB", "LANG", "SET_LATER_TOKEN", "KIN_PROVIDERS"]
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
before = [getenv(name.encode()) for name in names]
for _ in range(2):
    hide_secrets(["ODDLY_NAMED"])
assert [getenv(name.encode()) for name in names] == before
assert [os.environ[name].encode() for name in names] == before
print(subprocess.run(["printenv", "SOME_API_KEY"], capture_output=True, text=True).stdout)
print(Path("/proc/self/environ").read_bytes())
""")
    own, shown = output.split("\n\n")
    assert own == "first-secret"
    assert "LANG=C" in shown
    for secret in ("first-secret", "second-secret", "third-one", "fourth-secret"):
        assert secret not in shown


def test_what_was_deleted_or_changed_since_stays_so():
    output = run("""
import os
from kin_nb.core.environment import hide_secrets
del os.environ["SOME_API_KEY"]
os.environ["DB"] = "other"
hide_secrets()
os.execvp("env", ["env"])
""")
    assert "SOME_API_KEY" not in output
    assert "DB=other\n" in output


def test_no_process_of_the_same_user_reads_the_environment_of_one_that_keeps_its_memory_private():
    output = run("""
import ctypes, os, subprocess
from kin_nb.core.environment import keep_memory_private
if os.geteuid() == 0:  # who may read everything
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as after an exec
read = ["cat", f"/proc/{os.getpid()}/environ"]
print(subprocess.run(read, capture_output=True).returncode)
keep_memory_private()
print(subprocess.run(read, capture_output=True).returncode)
""")
    assert output == "0\n1\n"
