"""How a line is divided into commands, which scope each offers, and what one approval then covers."""

from __future__ import annotations

import pytest

from kin_nb.core.modes import Policy
from kin_nb.core.safety.decision import Risk
from kin_nb.core.safety.grants import scopes
from kin_nb.core.safety.policies import risk_of
from kin_nb.core.safety.shell.command_parts import command_parts, kind_of
from tests.table import each_row
from tests.unit.safety.granted_workspace import Session, make_environment, make_workspace

PYTEST = ["tests: pytest in this project"]


@pytest.fixture
def root(tmp_path):
    return make_workspace(tmp_path / "workspace")


@pytest.fixture
def session(root) -> Session:
    return Session(root)


SAME_TEST_RUN = [
    "pytest",
    "pytest -q",
    "pytest -x tests/test_a.py::test_b -k 'one and not two'",
    "pytest -p no:cacheprovider -W ignore::DeprecationWarning -Werror",
    "pytest --version",
    "py.test -q",
    "python -m pytest -q",
    "python3 -m pytest",
    "python3.12 -m pytest tests",
    ".venv/bin/pytest -q",
    "./.venv/bin/pytest",
    ".venv/bin/python -m pytest -q",
    ".venv/bin/python3 -m pytest --help",
    "cd sub && ../.venv/bin/pytest",
    "cd sub && pytest",
    "cd sub; pytest -q",
    "cd sub\npytest -q",
    "cd tests && cd ../sub && pytest",
    "timeout 60 pytest",
    "timeout 2.5m .venv/bin/pytest",
    "CI=1 pytest",
    "CI=1 NO_COLOR=1 COLUMNS=200 timeout 60 pytest -q",
    "cd sub && CI= pytest",
    "pytest 2>&1",
    "pytest 2>/dev/null",
    "pytest >/dev/null 2>&1",
    "pytest </dev/null",
    "pytest -q 2>&1 | tail -20",
    "pytest -q | grep -v warning | sort | uniq -c | head -n 5",
    "pytest -q 2>&1 | sed -n '1,40p'",
    "pytest || true",
    'pytest; echo "exit code $?"',
    "pytest -q && pytest -x tests",
    "ls tests && cat a.py && pytest",
    "cd sub && timeout 60 python3.12 -m unittest; cd ..",
]
"""The last one is not: a `cd` that is not at the beginning."""


def test_one_approval_covers_the_same_test_run_however_it_is_spelled(session):
    assert [line for line in SAME_TEST_RUN[:-1] if session.offered(line) != PYTEST] == []
    assert session.offered(SAME_TEST_RUN[-1]) == []
    assert [line for line in SAME_TEST_RUN if session.runs(line)] == []
    session.approve("pytest -q")
    assert [line for line in SAME_TEST_RUN if not session.runs(line)] == SAME_TEST_RUN[-1:]


def test_absolute_paths_into_the_workspace_are_paths_of_it(session, root):
    session.approve("pytest")
    lines = [f"cd {root} && pytest", f"{root}/.venv/bin/python -m pytest", f"pytest {root}/tests/test_a.py"]
    assert [line for line in lines if not session.runs(line)] == []
    assert session.runs(f"cd {root}/sub && pytest {root}/sub/test_a.py")
    assert not session.runs(f"cd {root}/sub && pytest {root}/tests")


@each_row(
    "line, offered",
    [
        ("python -m unittest -v", ["tests: python -m unittest in this project"]),
        (".venv/bin/python3 -m unittest", ["tests: python -m unittest in this project"]),
        ("make test", ["tests: make test in this project"]),
        ("make test-unit | tail", ["tests: make test-unit in this project"]),
        ("cd sub && make test", ["tests: make test in sub"]),
        ("npm test 2>&1 | tail", ["tests: npm test in this project"]),
        ("npm run test:unit", ["tests: npm run test:unit in this project"]),
        ("tox -e py312 -q", ["tests: tox in this project"]),
        ("nox -s tests", ["tests: nox in this project"]),
        ("uv run pytest -q", ["tests: uv run pytest in this project"]),
        ("cargo test", ["tests: cargo test in this project"]),
        ("make", []),
        ("make build", ["commands that start with `make build`"]),
        ("ruff check . 2>&1 | head", ["commands that start with `ruff`"]),
        ("cd sub && ruff check .", ["commands that start with `ruff` in sub"]),
        (".venv/bin/ruff check .", ["commands that start with `.venv/bin/ruff`"]),
        (".venv/bin/black .", []),
        ("mkdir -p build", ["commands that start with `mkdir`"]),
        (
            "git add -A && git commit -m 'a; b'",
            ["commands that start with `git add`; commands that start with `git commit`"],
        ),
        (
            "ruff check . && pytest -q; pytest -x",
            ["commands that start with `ruff`; tests: pytest in this project"],
        ),
        ("ls && CI=1 ls", []),
        ("pytest && rm x", []),
    ],
)
def test_the_scope_names_tests_or_program_and_subcommand(session, line, offered):
    assert session.offered(line) == offered


def test_a_line_runs_when_each_of_its_commands_is_proven_or_granted(session):
    line = "cd sub && ls && ruff check . && pytest -q 2>&1 | tail -3"
    session.approve("pytest")
    assert not session.runs(line)
    session.approve("ruff check .")
    assert not session.runs(line), "ruff was approved for another folder"
    session.approve(line)
    assert session.runs(line)
    assert session.runs("cd sub && ruff check x.py")
    assert session.decide(line).reason == (
        "approved for this session: commands that start with `ruff` in sub; tests: pytest in this project"
    )


def test_approving_a_line_approves_each_of_its_commands(session):
    session.approve("ruff check . && pytest -q")
    assert session.grants.describe() == ["commands that start with `ruff`", *PYTEST]
    assert session.runs("pytest")
    assert session.runs("ruff format x.py")
    session.grants.forget(1)
    assert not session.runs("ruff check . && pytest -q")


def test_under_the_strict_policy_reading_asks_next_to_what_was_granted(root):
    session = Session(root, Policy.STRICT)
    session.approve("pytest")
    assert session.runs("pytest -q 2>&1 | tail")
    assert not session.runs("cat a.py && pytest")
    session.grants.add(scopes(session.request("cat a.py && pytest"), session.workspace)[-1])
    assert session.runs("cat a.py && pytest"), "exactly this command"


def test_an_allowlist_covers_lines_of_its_commands(root):
    session = Session(root, allowlist=("pytest", "git add", "python -m mypy"))
    lines = [
        "pytest 2>&1 | tail",
        "cd tests && python -m pytest",
        "CI=1 pytest && git add a.py",
        "python -m mypy a.py | head",
    ]
    assert [line for line in lines if not session.runs(line)] == []
    asks = [
        "pytest && git commit -m x",
        "cd sub && git add a.py",
        ".venv/bin/python -m pytest",
        "cat a.py && pytest",
        "pytest -p x | tail",
        "pytest | sh",
    ]
    assert [line for line in asks if session.runs(line)] == []


def test_always_names_every_project_and_is_offered_for_what_a_rule_can_say(session):
    def always(line: str) -> list[str]:
        found = scopes(session.request(line), session.workspace)
        return [grant.label_always or grant.label for grant in found if grant.may_last]

    assert always("python -m pytest | tail") == ["tests: pytest in every project"]
    assert always("git add -A && pytest") == ["commands that start with `git add`; tests: pytest in every project"]
    assert [line for line in (".venv/bin/pytest", "cd sub && make test", "tox", "tox && pytest") if always(line)] == []


def test_an_environment_that_has_changed_asks_again(session, root):
    packages = root / ".venv/lib/python3.12/site-packages"

    def relink(name: str) -> None:
        link = root / ".venv/bin" / name
        link.unlink()
        link.symlink_to(root / ".venv/bin/python")

    changes = [
        lambda: (root / ".venv/bin/pytest").write_text("#!/bin/sh\n"),
        lambda: (root / ".venv/bin/tool").write_text(""),
        lambda: relink("python3"),
        lambda: (packages / "evil.pth").write_text("import evil"),
        lambda: (packages / "_pytest/__init__.py").write_text("import evil"),
        lambda: (packages / "pytest/__main__.py").write_text("import evil"),
        lambda: (packages / "evil-1.0.dist-info").mkdir(mode=0o755),
        lambda: (root / ".venv/pyvenv.cfg").write_text((root / ".venv/pyvenv.cfg").read_text() + "\nx = 1\n"),
    ]
    lines = [".venv/bin/pytest", ".venv/bin/python -m pytest -q | tail"]
    for number, change in enumerate(changes):
        session.approve("pytest")
        assert [line for line in lines if not session.runs(line)] == [], number
        change()
        assert [line for line in lines if session.runs(line)] == [], number
        assert session.runs("pytest"), "this is the pytest that the shell finds"


def test_bytecode_does_not_change_an_environment(session, root):
    session.approve(".venv/bin/pytest")
    for folder in (root / ".venv").rglob("*pytest"):
        if folder.is_dir():
            (folder / "__pycache__").mkdir()
            (folder / "__pycache__" / "x.pyc").write_text("")
    assert session.runs(".venv/bin/pytest -q")


def test_an_environment_that_was_made_since_asks(session, root):
    session.approve("pytest")
    make_environment(root / "venv")
    assert not session.runs("venv/bin/python -m pytest")
    session.approve("venv/bin/python -m pytest")
    assert session.runs("venv/bin/python -m pytest")
    assert session.runs(".venv/bin/pytest")


def test_a_variable_that_says_where_cd_leads_divides_nothing(root):
    environment = {"PATH": "/usr/bin:/bin"}
    assert command_parts("cd sub && pytest", root, environment)
    assert command_parts("cd sub && pytest", root, {**environment, "CDPATH": "/"}) == ()
    assert command_parts("cd sub && pytest", root, {"PATH": "/usr/bin:/bin:."}) == ()
    assert command_parts("pytest", root, {"PATH": "/usr/bin:/bin:."})


def test_an_assignment_within_quotes_is_none(root):
    environment = {"PATH": "/usr/bin:/bin"}
    assert command_parts("ls; CI=1 pytest -k 'a;b'", root, environment)
    assert command_parts("pytest -k 'a;CI=1 b'", root, environment) == ()


@each_row(
    "line, risk",
    [
        ("pytest --version", Risk.MEDIUM),
        ("python -V", Risk.LOW),
        (".venv/bin/python -V", Risk.MEDIUM),
        ("npm --help", Risk.MEDIUM),
        ("mkdir build", Risk.MEDIUM),
        ("mkdir -p a/b && pytest -q | tail", Risk.MEDIUM),
        ("python -m pytest", Risk.MEDIUM),
        ("make test", Risk.MEDIUM),
        ("ruff check --fix .", Risk.MEDIUM),
        ("mypy a.py", Risk.MEDIUM),
        ("ls", Risk.LOW),
        ("mkdir /etc/x", Risk.HIGH),
        ("mkdir ../x", Risk.HIGH),
        ("mkdir lnk/x", Risk.HIGH),
        ("mkdir .git/hooks", Risk.HIGH),
        ("pytest -p evil", Risk.HIGH),
        ("pytest > .bashrc", Risk.HIGH),
        ("pytest && rm a.py", Risk.HIGH),
        ("./evil --version", Risk.HIGH),
        ("evil --version", Risk.HIGH),
        ("env/bin/python --version", Risk.HIGH),
        ("rm --version -rf x", Risk.HIGH),
        ("git commit -m x", Risk.HIGH),
        ("uv run x --version", Risk.HIGH),
        ("make deploy", Risk.HIGH),
    ],
)
def test_risk_follows_what_the_commands_of_a_line_are(session, monkeypatch, line, risk):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert risk_of(session.request(line), session.workspace) is risk


def test_a_command_of_ordinary_risk_is_no_edit(root):
    session = Session(root, Policy.AUTO_EDIT)
    assert [line for line in ("pytest", "mkdir build", "pytest --version") if session.runs(line)] == []


def test_the_kind_is_that_of_the_whole_beginning():
    rows = {
        "pytest": "tests",
        "uv run pytest": "tests",
        "uv run python -m unittest": "tests",
        "make test": "tests",
        "make tester": "",
        "npm run test:e2e": "tests",
        "npm run testify": "",
        "ruff": "checks",
        "python -m mypy": "checks",
        "cargo build": "",
        "mkdir": "folders",
        "git status": "",
    }
    assert {prefix: kind_of(prefix.split()) for prefix in rows} == rows
