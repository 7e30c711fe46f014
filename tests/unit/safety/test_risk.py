"""How risky a call is."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from kin_nb.core.safety.decision import Risk, ToolRequest
from kin_nb.core.safety.policies import risk_of
from kin_nb.core.tool_types import Accesses
from kin_nb.core.workspace import Workspace


class Args(BaseModel):
    path: str = ""


class Command(BaseModel):
    command: str | list[str]


@pytest.fixture
def root(tmp_path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    (tmp_path / "outside.txt").write_text("")
    (root / "link").symlink_to(tmp_path / "outside.txt")
    return root


def test_low_reads_medium_writes_and_all_else_is_high(subtests, root):
    for accesses, risk in [
        (Accesses(), Risk.LOW),
        (Accesses(reads=("a.py", "b.py")), Risk.LOW),
        (Accesses(writes=("a.py",)), Risk.MEDIUM),
        (Accesses(reads=("b.py",), writes=("new/a.py",)), Risk.MEDIUM),
        (Accesses(everything=True), Risk.HIGH),
        (Accesses(everything=True, shared=True), Risk.HIGH),
        (Accesses(network=True), Risk.HIGH),
        (Accesses(writes=("a.py",), network=True), Risk.HIGH),
        (Accesses(reads=("../outside.txt",)), Risk.HIGH),
        (Accesses(reads=("link",)), Risk.HIGH),
        (Accesses(reads=("a.py", "~/.ssh/id_rsa")), Risk.HIGH),
        (Accesses(reads=(".env",)), Risk.HIGH),
        (Accesses(writes=(".git/hooks/pre-commit",)), Risk.HIGH),
    ]:
        with subtests.test(accesses=accesses, risk=risk):
            workspace = Workspace(root)
            reads, writes = (tuple(map(workspace.resolve, paths)) for paths in (accesses.reads, accesses.writes))
            assert risk_of(ToolRequest("x", Args(), "1", accesses, reads, writes), workspace) is risk


def test_a_command_is_one_also_when_it_only_reads(subtests):
    for args, runs in [(Command(command="ls"), True), (Command(command=["a"]), False), (Args(), False)]:
        with subtests.test(args=args, runs=runs):
            request = ToolRequest("x", args, "1", Accesses(reads=(".",)))
            assert (request.command is not None) is runs
