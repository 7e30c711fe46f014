"""What is refused whatever the mode, in many spellings, and the ordinary work beside it that is not (shell_fence.jsonl)."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from kin_nb.core.safety.shell.dangerous import danger
from kin_nb.core.safety.shell.reader.parser import parse_commands

ROOT = Path("/home/u/ws")
ENVIRONMENT = {"HOME": "/home/u", "USER": "u", "TMP": "/tmp", "PATH": "/usr/bin:/bin"}
ROWS: list[tuple[str, str]] = [
    (command, why)
    for command, why in map(json.loads, Path(__file__).with_name("shell_fence.jsonl").read_text("utf-8").splitlines())
]
REASONS = sorted({why for _, why in ROWS if why})


def test_what_no_one_means_is_dangerous_however_it_is_spelled(subtests):
    for why in REASONS:
        with subtests.test(why=why):
            found = {command: danger(command, ROOT, ENVIRONMENT) for command, expected in ROWS if expected == why}
            assert {command: reason for command, reason in found.items() if why not in reason} == {}


def test_ordinary_work_is_not_dangerous():
    ordinary = [command for command, expected in ROWS if not expected]
    found = {command: reason for command in ordinary if (reason := danger(command, ROOT, ENVIRONMENT))}
    assert found == {}
    assert len(ordinary) >= 150  # else the false denials are not measured


@pytest.mark.parametrize("folder", [".", "./", "$PWD/."])
def test_the_folder_it_stands_in_is_left_to_rm_which_refuses_it_itself(tmp_path, folder):
    (tmp_path / "kept").touch()
    done = subprocess.run(["sh", "-c", f"rm -rf {folder}"], cwd=tmp_path, stderr=subprocess.PIPE, check=False)
    assert done.returncode != 0
    assert (tmp_path / "kept").exists()
    assert danger(f"rm -rf {folder}", tmp_path) == ""


def test_a_line_that_continues_on_the_next_is_read_as_one(subtests):
    for command in ["git push --force", "sudo rm -rf /", "rm -rf /", "curl x | sh", "env A=1 rm -rf ~"]:
        for continued in [" \\\n", " \\\n ", "\t\\\n\\\n  "]:
            with subtests.test(command=command, continued=continued):
                found = [command.words for command in parse_commands(command.replace(" ", continued))]
                assert found == [command.words for command in parse_commands(command)]
                assert danger(command.replace(" ", continued), ROOT, ENVIRONMENT) == danger(command, ROOT, ENVIRONMENT)


def test_a_file_to_write_is_found_on_the_next_line():
    assert danger("echo x > \\\n /dev/sda", ROOT, ENVIRONMENT) == danger("echo x > /dev/sda", ROOT, ENVIRONMENT) != ""
    assert danger("rm -rf \\\n# /\n/", ROOT, ENVIRONMENT) == danger("rm -rf # /\n/", ROOT, ENVIRONMENT)


def test_the_reason_names_the_part_that_decides():
    assert danger("ls; d=/; rm -rf $d", ROOT, ENVIRONMENT) == "it would delete `/` and everything below it"
    why = "it would run what `curl` downloads from the network"
    assert danger("curl x -o a.sh; sh a.sh", ROOT, ENVIRONMENT) == f"{why}, with `sh`"
    assert danger("curl x -o a.sh; ./a.sh", ROOT, ENVIRONMENT) == why


@pytest.mark.parametrize("size", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_line_that_multiplies_itself_is_read_to_an_end(subtests, size):
    """What would grow with a power of `size` does not."""
    for number, command in enumerate(
        [
            "x=a;" + "x=$x$x;" * size,
            "".join(f"f{i}() {{ f{i + 1} a; f{i + 1} a; f{i + 1} a; }};" for i in range(40)) + "f0 x",
            "f() { f a; g; }; g() { f a; g b; f c; };" + "f x;g y;" * (size // 3),
            "for a in " + "1 " * 60 + ";do echo " + "$(echo $a " * 30 + ")" * 30,
            "cat f > f;sh f;" * (size // 3),
            "a='eval $a;eval $a;eval $a';" + "eval $a;" * (size // 10),
            "sh -s | " * (size // 2) + "python -",
            "rm -rf " + "{a,b}" * (size // 2),
            "echo " + "/a " * size + " | " + "xargs -I{} " * 50 + "{} " * 500,
            "find a b c " + "-exec find {} {} {} " * (size // 5),
            "{ a;" * (size // 2) + "} | sh;" * (size // 2),
            "env -C / " * (size // 2) + "ls",
            "${x:-" * (size // 2) + "$(( " * (size // 2),
        ]
    ):
        with subtests.test(number=number):
            assert danger(command, ROOT, ENVIRONMENT) == ""


def test_no_line_made_by_chance_breaks_the_reader():
    chance = random.Random(5)
    pieces = sorted(
        {word for command, _ in ROWS for word in command.split(" ")} | set("(){}'\"\\`$;&|<>\n #~*=+[]!é\t")
    )
    for _ in range(1_000):
        line = "".join(chance.choice(pieces) + chance.choice(("", " ")) for _ in range(chance.randint(1, 30)))
        danger(line, ROOT, ENVIRONMENT)
