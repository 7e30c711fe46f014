"""The equivalence rules: which command lines they are for, that the page has them, and programs that really run twice."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kin_nb.core.records import RecordedCall
from kin_nb.replay.rerun.drift import MATCHING, compare_call
from kin_nb.replay.rerun.patterns import Pattern
from kin_nb.replay.rerun.rules import OPAQUE, built_in_rules, command_programs
from kin_nb.replay.runner.run_environment import RECORDED_ENVIRONMENT
from tests.table import each_row

RULES = built_in_rules()
PAGE = Path(__file__).parents[4] / "docs" / "reference" / "comparing-runs.md"


def test_rules_are_numbered_from_one_on():
    assert [rule.name for rule in RULES] == [f"R{number}" for number in range(1, len(RULES) + 1)]


def test_the_page_has_every_rule_in_the_same_words():
    rows = re.findall(r"^\| (R\d+) \| (.+?) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(rule.name, ", ".join(rule.commands) or "any", rule.description) for rule in RULES]


def test_the_page_says_which_rules_need_their_program_named():
    named = [rule.name for rule in RULES if rule.commands and rule.signature is None]
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"; {', '.join(named[:-1])} and {named[-1]} are not." in text
    assert [rule.name for rule in RULES if not rule.commands] == ["R3"]  # for any command


NAMED = {
    "pytest -q": {"pytest"},
    "python -m pytest -q": {"python", "pytest"},
    "python3.13 -W error -m unittest": {"python", "unittest"},
    "venv/bin/python -m pip install x": {"python", "pip"},
    "venv/bin/pytest": {"pytest"},
    "node_modules/.bin/jest": {"jest", OPAQUE},
    "/usr/bin/git diff": {"git"},
    "cd a && PYTHONPATH=. timeout 60 pytest 2>&1 | tail -3": {"cd", "timeout", "pytest", "tail"},
    "npx --yes jest --ci": {"npx", "jest"},
    "coverage run -m pytest": {"coverage", "run", "pytest"},
    "uv run --no-sync python3.12 -m unittest": {"uv", "run", "python", "unittest"},
    "poetry run python tests/all.py": {"poetry", "run", "python", "all.py", OPAQUE},
    "uv run make test": {"uv", "run", "make", "test", OPAQUE},
    "python -m coverage run -m pytest": {"python", "coverage", "pytest"},
    "python a.py": {"python", OPAQUE},
    "python -c 'print(1)'": {"python"},
    "make -C sub": {"make", OPAQUE},
    "npm test": {"npm", OPAQUE},
    "./run.sh": {"run.sh", OPAQUE},
    "bash run.sh": {"bash", OPAQUE},
    "for f in a b; do go test $f; done": {"for", "go"},
    "x=$(cargo test)": {"cargo"},
    "echo pytest; cat pytest.log": {"echo", "cat"},
    "grep -rn 'go test' .": {"grep"},
    "cat <<E\npytest\nE": {"cat"},
    "": set(),
    "'": set(),
}


@each_row("line", NAMED)
def test_the_programs_that_a_line_names(line):
    names = {name for name in command_programs(line) if re.fullmatch(r"[\w.-]+", name)}
    assert names == NAMED[line]


def hostile_texts(n: int) -> dict[str, str]:
    return {
        "digits": "1" * (40 * n),
        "counts": "1 passed, " * (4 * n),
        "equals": "=" * (40 * n),
        "dashes": ("-" * 70 + "\n") * (n // 2),
        "blanks": " " * (40 * n),
        "folders": "/pytest-of-a" * (3 * n),
        "addresses": " at 0x7f01" * (4 * n),
        "hexadecimal": "." * 3 + "0" * (40 * n),
        "tracebacks": '  File "a", line 1, in f\n    x\n' * n,
        "statements": '  File "a", line 1, in f\n' + "    ~\n    x\n" * (3 * n),
        "rows": "=== slowest durations ===\n" + "0.01s call     a\n" * (2 * n),
        "a long row": "ok  \tm\t0.1s\t" + "\t" * (40 * n),
        "tests": "test a ... ok\n" * (3 * n),
        "half a result": "test " * (8 * n),
        "marks": ("  ✓ " + "a (1 " * 20 + "\n") * (n // 3),
        "a long mark": "  ✓ a" + " (1 ms" * (6 * n),
        "a long gap": "  ✓ a" + " " * (40 * n) + "b",
        "results without end": "test a" + " ... ignored" * (12 * n),
        "packages": "added 1 package" + ", and removed 1 package" * (2 * n),
        "bars": "  Downloading a (1)\n  " + "━" * (40 * n),
        "brackets": "[" * (20 * n) + "a " * (10 * n),
        "notices": "\n" * (20 * n) + "[notice] A new release of pip is available: " * (n // 2),
    }


@each_row("n", [100], long=[1_000])
@each_row("what", hostile_texts(1))
def test_every_rule_reads_hostile_text_to_its_end(what, n):
    text = hostile_texts(n)[what]
    for rule in RULES:
        Pattern(rule.pattern, rule.compare).apply((text, text[::-1]))


TEST = """
import time, unittest

class T(unittest.TestCase):
    def test_slow(self):
        time.sleep(0.02)
    def test_wrong(self):
        self.assertEqual(object(), [1])
"""
PYTEST = """
def test_object(tmp_path):
    assert object() == tmp_path
def test_cut():
    assert {1: object()} == {}
"""
GO = 'package m\nimport "testing"\nfunc TestA(t *testing.T) {}\nfunc TestB(t *testing.T) { var m map[int]int; m[1] = 1 }\n'
RUST = """
pub fn f() -> i32 { 1 }
#[test] fn ok() {}
#[test] fn bad() { assert_eq!(f(), 2); }
"""
NODE = "const t = require('node:test');\nt('a', () => {});\nt('b', () => { throw new Error('x'); });\n"
FILES = {
    "test_u.py": TEST,
    "checks/test_p.py": PYTEST,
    "app.py": "class A: pass\nprint(A(), [A().__init__])\nraise ValueError(A())\n",
    "Makefile": "all:\n\t@$(MAKE) -C sub\n\t@python -m unittest test_u\n",
    "sub/Makefile": "all:\n\techo hi\n",
    "go.mod": "module example.org/m\n\ngo 1.18\n",
    "m_test.go": GO,
    "Cargo.toml": '[package]\nname = "m"\nversion = "0.1.0"\nedition = "2018"\n',
    "src/lib.rs": RUST,
    "test/n.test.js": NODE,
}
COMMIT = "git -c user.name=a -c user.email=a@b.c commit -qm x; git -c user.name=a -c user.email=a@b.c commit --allow-empty -m y"
QUICK = {
    "pytest": "python -m pytest -p no:cacheprovider checks --durations=2",
    "unittest": "python -m unittest",
    "python": "python app.py",
    "make": "make -w",
    "time": "time true",
    "git": f"git init -q . && git add app.py && {COMMIT}; echo >> app.py; git diff; git status",
    "a script": "printf 'python -m unittest\\n' > run.sh; bash run.sh",
}
LONG = {
    "go": "go vet . ; go test -v ./...",
    "cargo": "cargo test; cargo build --offline",
    "node": "node --test test/",
    "npm": "npm install --offline; echo {} > package.json; npm install --offline",
}
NEEDED = {"make": "make", "time": "bash", "a script": "bash", **{name: name for name in ("git", *LONG)}}


def ran(folder: Path, command: str, **environment: str) -> RecordedCall:
    """As the agent would record it: its folder is a placeholder."""
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    env = {
        **os.environ,
        **RECORDED_ENVIRONMENT,
        **environment,
        "TERM": "dumb",
        "PATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    env.pop("FORCE_COLOR", None)
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    output = done.stdout.decode(errors="replace").replace(str(folder), "{workspace}").rstrip()
    arguments = json.dumps({"command": command})
    return RecordedCall(id="c", name="bash", arguments=arguments, status="ok", output=output, exit=done.returncode)


def assert_no_false_alarm(tmp_path: Path, what: str, command: str) -> None:
    if what in NEEDED and shutil.which(NEEDED[what]) is None:
        pytest.skip(f"needs {NEEDED[what]}")
    first = ran(tmp_path / "here", command, GIT_COMMITTER_DATE="2001-01-01T00:00:00+00:00")
    second = ran(tmp_path / "another place" / "and a longer one", command)
    assert first.output
    assert (drift := compare_call(first, second)).kind in MATCHING, (
        f"{drift.detail}\n{first.output}\n---\n{second.output}"
    )


@each_row("what", QUICK)
def test_a_program_that_runs_twice_in_two_places_gives_no_alarm(what, tmp_path):
    assert_no_false_alarm(tmp_path, what, QUICK[what])


@pytest.mark.long
@pytest.mark.parametrize("what", LONG)
def test_nor_does_a_program_of_another_language(what, tmp_path):
    assert_no_false_alarm(tmp_path, what, LONG[what])
