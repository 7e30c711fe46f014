"""Where the parts of a line run: what it was judged to read there is what it reads."""

from __future__ import annotations

import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kin_nb.core.safety.shell import classify
from kin_nb.core.tools.builtins.bash import Bash, BashConfig

SIMPLE = (
    *("cat f", "cat f", "cat ../f", "cd a", "cd b", "cd c", "cd a/b", "cd ..", "cd .", "cd link", "cd a/up", "cd *k"),
    *("cd nothing", "cd nothing/../a", "cd ../ws/a", "cd ''", "cd a < nothing", "< nothing cd b", "cd a && cd b"),
    *("true", "false", "test -d a", "[ -d nothing ]", "cat f 2>/dev/null", "echo x", "exit 3", "set -e"),
    "cd a >/dev/null",
)
JOINED = (
    *("{0} && {1}", "{0} && {1}", "{0} || {1}", "{0}; {1}", "{0}; {1}", "{0}\n{1}", "{0}\n{1}", "({0}; {1})", "! {0}"),
    *("{0} 2>/dev/null", "{0} && {1} < nothing", "{0} | cat", "cat f | {0} | cat", "{0} | {1} | cat f && {0}"),
    *("cd a || {0} | cat | cat && cat f", "cd a && cat f | cat | cat && {0}", "cd a && {0} 2>/dev/null | cat f"),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """Folders in which a file `f` says where it is; the one above has one as well."""
    root: Path = tmp_path_factory.mktemp("folders").resolve() / "ws"
    for folder in (".", "a/b/c", "b/c", "c"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "link").symlink_to("a/b")
    (root / "a/up").symlink_to("../b")
    for folder in (root.parent, *(root / name for name in (".", "a", "a/b", "a/b/c", "b", "b/c", "c"))):
        (folder / "f").write_text(f"AT:{folder.resolve() / 'f'}\n")
    return root


def line(chance: random.Random, depth: int) -> str:
    if depth == 0 or chance.random() < 0.45:
        return chance.choice(SIMPLE)
    return chance.choice(JOINED).format(line(chance, depth - 1), line(chance, depth - 1))


def unexpected(command: str, root: Path, environment: dict[str, str]) -> set[str]:
    """The files that a line proven harmless prints and was not judged to read."""
    output = subprocess.run(
        ["bash", "-c", command],
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        text=True,
    ).stdout
    told = {str((root / path).resolve()) for path in classify(command, root, environment).reads}
    return {found.removeprefix("AT:") for found in output.splitlines() if found.startswith("AT:")} - told


@pytest.mark.parametrize("rounds", [500, pytest.param(2_000, marks=pytest.mark.long)])
def test_a_line_reads_where_it_was_judged_to_whatever_joins_its_parts(root, rounds):
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(root.parent)}
    chance = random.Random(11)
    lines = {line(chance, 4) for _ in range(rounds)}
    proven = [each for each in sorted(lines) if "cd" in each and classify(each, root, environment).kind == "read-only"]
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda each: (each, unexpected(each, root, environment)), proven)
    assert {each: files for each, files in found if files} == {}
    assert len(proven) > rounds // 50


def test_a_part_is_judged_in_the_folder_that_bash_runs_it_in(subtests, root):
    for command, read in [
        ("cd a && cat f 2>/dev/null | cat - f", ["a/f"]),
        ("cd a || cat f | sort | head -1 && cat f", ["a/f"]),
        ("cd a && cat f; cd .. && cat f", ["a/f", "a/../f"]),
        ("cat f; cd a && cd .. && cat f; cat f", ["f", "a/../f"]),
    ]:
        with subtests.test(command=command, read=read):
            environment = {"PATH": "/usr/bin:/bin", "HOME": str(root.parent)}
            judged = {(root / path).resolve() for path in classify(command, root, environment).reads}
            assert judged == {(root / path).resolve() for path in read}
            assert unexpected(command, root, environment) == set()


async def test_the_folder_above_is_the_one_above_the_workspace_itself_not_above_a_link_to_it(root, monkeypatch):
    """bash would take the name that it was started under from PWD."""
    link = root.parent / "elsewhere" / "link"
    link.parent.mkdir()
    (link.parent / "ws" / "a").mkdir(parents=True)
    (link.parent / "ws" / "a" / "f").write_text("another's\n")
    link.symlink_to(root)
    monkeypatch.setenv("PWD", str(link))
    tool = Bash.from_config(BashConfig(workdir=root))
    assert classify("cd ../ws/a && cat f", root).reads == ("a/f",)
    assert (await tool.invoke(command="cd ../ws/a && cat f")).output == (root / "a/f").read_text()


def test_a_folder_that_cannot_be_entered_is_not_believed(root, monkeypatch):
    monkeypatch.setattr(
        "kin_nb.core.safety.shell.read_only.working_dir.os.access", lambda path, _mode: not str(path).endswith("/c")
    )
    assert classify("cd c; cat ../f", root).kind == "unknown"
