"""Two tables of shell commands: nasty and plain ones (shell_table.jsonl), and those that agents use (shell_everyday.jsonl)."""

from __future__ import annotations

import hashlib
import random
import subprocess
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kin_nb.core.safety.shell import classify
from kin_nb.core.safety.shell.read_only.working_dir import read_only_environment
from kin_nb.core.workspace import Workspace
from tests.unit.safety import shell_workspace

TABLE, EVERYDAY = shell_workspace.rows("table"), shell_workspace.rows("everyday")
BY_REASON: dict[tuple[str, str], list[str]] = defaultdict(list)
for _command, _expected, _why in TABLE:
    BY_REASON[_why, _expected].append(_command)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return shell_workspace.make(tmp_path_factory.mktemp("shell").resolve())


@pytest.fixture(scope="module")
def environment(root) -> dict[str, str]:
    return shell_workspace.environment(root.parent / "home")


def test_commands_are_judged_as_the_table_says(subtests, root, environment):
    for (why, expected), commands in BY_REASON.items():
        with subtests.test(why=why, expected=expected):
            found = {command: classify(command, root, environment) for command in commands}
            assert {c: f"{j.kind}: {j.reason}" for c, j in found.items() if j.kind != expected} == {}
            assert all(judgement.reason for judgement in found.values())


def test_what_agents_use_every_day_is_mostly_proven_and_the_rest_has_its_reason(root, environment):
    found = [(command, classify(command, root, environment), why) for command, _, why in EVERYDAY]
    misses = {command: judgement.reason for command, judgement, _ in found if judgement.kind != "read-only"}
    assert misses == {command: why for command, expected, why in EVERYDAY if expected != "read-only"}
    assert len(EVERYDAY) >= 60
    assert len(misses) <= 0.18 * len(EVERYDAY)


def fingerprint(*folders: Path) -> dict[str, tuple[int, str]]:
    """Mode and content of everything below. git's index is left out: `git diff` may renew the times in it."""
    found = {}
    for path in (path for folder in folders for path in folder.rglob("*")):
        if path.name == "index" and path.parent.name == ".git":
            continue
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path)] = (path.lstat().st_mode, hashlib.sha256(content).hexdigest())
    return found


def run(command: str, root: Path, environment: dict[str, str]) -> bytes:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=root,
        env=read_only_environment(environment, {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )
    return done.stdout


def leaks(output: bytes, reads: tuple[str, ...], root: Path) -> bool:
    """Whether a secret was printed that the chain would not have asked about."""
    workspace = Workspace(root)
    asks = any(workspace.is_sensitive(path) or not workspace.contains(path) for path in map(workspace.resolve, reads))
    return not asks and (b"SECRET=abc" in output or b"PRIVATE" in output)


def test_what_is_judged_harmless_changes_nothing_and_tells_no_secret_unasked(root, environment):
    before = fingerprint(root, root.parent / "home")
    commands = [command for command, expected, _ in (*TABLE, *EVERYDAY) if expected == "read-only"]
    with ThreadPoolExecutor(4) as pool:
        outputs = list(pool.map(lambda command: run(command, root, environment), commands))
    for command, output in zip(commands, outputs, strict=True):
        assert not leaks(output, classify(command, root, environment).reads, root), command
    assert fingerprint(root, root.parent / "home") == before


def test_spoiled_commands_are_never_judged_harmless_wrongly(root, environment):
    """Lines made by chance from pieces of the table: those judged harmless are run for real."""
    chance = random.Random(4)
    lines = [command for command, expected, _ in TABLE if expected != "dangerous" and len(command) < 200]
    words = sorted({word for line in lines for word in line.split(" ")} | {*";|&(){}'\"\\\n!$#`", ">", ">spoiled"})
    before, ran = fingerprint(root), 0
    for _ in range(600):
        pieces = chance.choice(lines).split(" ")
        for _ in range(chance.randint(1, 3)):
            pieces.insert(chance.randrange(len(pieces) + 1), chance.choice(words))
        line = " ".join(pieces)
        judgement = classify(line, root, environment)
        if judgement.kind == "read-only":
            ran += 1
            assert not leaks(run(line, root, environment), judgement.reads, root), line
    assert ran > 10
    assert fingerprint(root) == before


def test_too_much_to_prove_is_reported(subtests, root, environment):
    for number, (command, why) in enumerate(
        [
            ("ls " + "a" * 10_001, "longer than"),
            ("(" * 200 + "ls" + ")" * 200, "too deeply"),
            (" && ".join(["ls"] * 200), "too deeply"),
            ("ls;" * 2_000, "too many parts"),
            ("pwd;" * 301, "more than 300"),
        ]
    ):
        with subtests.test(number=number):
            judgement = classify(command, root, environment)
            assert (judgement.kind, why in judgement.reason) == ("unknown", True), judgement.reason


@pytest.mark.parametrize(
    "length", [2_000, 12_000, *(pytest.param(length, marks=pytest.mark.long) for length in (9_990, 300_000))]
)
def test_no_line_however_nested_is_proven_or_breaks_the_judge(subtests, root, environment, length):
    for piece in ["(", "$(", "`", "{ ", "[[ ", "if ", "<<A ", "${", '"', "'", "a=(", "a && ", "sudo ", "x(){"]:
        with subtests.test(piece=piece):
            assert classify(piece * (length // len(piece)), root, environment).kind == "unknown"
