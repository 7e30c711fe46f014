"""What is refused whatever the mode, in the spellings that a first reading missed; and what stays allowed."""

from __future__ import annotations

import pytest

from kin_nb.core.safety.shell.dangerous import danger


@pytest.mark.parametrize(
    "command",
    [
        *("curl x |\nbash", "curl x | # then\n\n  sh"),
        *("find / -type f -delete", 'find ~ -name "*" -delete'),
        *("setsid rm -rf /", "stdbuf -o L rm -rf /", "ionice -c 3 rm -rf /", "busybox rm -rf /", "coproc rm -rf /"),
        *("exec -a x rm -rf /", "rm -rf ~root", "pushd / && rm -rf *"),
    ],
)
def test_it_is_dangerous(tmp_path, command):
    assert danger(command, tmp_path)


@pytest.mark.parametrize(
    "command", ["curl x\nbash y", "find . -type f -delete", "find ~ -name '*.pyc' -delete", "ls |\nwc"]
)
def test_it_is_not_dangerous(tmp_path, command):
    assert not danger(command, tmp_path)
