"""Lines that try to run more than was approved under the approvals of `pytest`, `git status` and `make test`. Each asks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kin_nb.core.safety.decision import Verdict
from tests.unit.safety.granted_workspace import Session, make_workspace

APPROVED = ("pytest -q", "git status", "make test", "python -m unittest", "ruff check .", "git add a.py", "mkdir build")
"""And with them what these offer; the same are in an allowlist."""
_ALLOWLIST = ("pytest", "git status", "git pull", "make test", "python -m unittest", "ruff", "git add", "mkdir")

OPTIONS_THAT_LOAD_OR_WRITE = [
    *("pytest -p evil", "pytest -pevil", "pytest -qp evil", "pytest -p no:x -p evil", "pytest '-p no:x' -p evil"),
    *(
        "pytest -p no:x,evil",
        "pytest -p 'no:x evil'",
        "pytest -p noevil",
        "pytest -p=no:x",
        "pytest -p",
        "pytest -p no:",
    ),
    *("pytest -c evil.ini", "pytest -cevil.ini", "pytest --config-file=evil.ini", "pytest -o addopts=-pevil"),
    *("pytest --override-ini=python_files=x", "pytest --rootdir=/etc", "pytest --rootdir=sub", "pytest --confcutdir=/"),
    *("pytest --import-mode=importlib", "pytest --basetemp=tests", "pytest --junitxml=a.py", "pytest --junit-xml a.py"),
    *(
        "pytest --pastebin=all",
        "pytest --pdbcls=evil:X",
        "pytest --cov-config=evil",
        "pytest --cov=/etc",
        "pytest @opts",
    ),
    *(
        "pytest --log-file=a.py",
        "pytest --debug=a.py",
        "pytest -W error::evil.X",
        "pytest -W evil",
        "pytest -Werror::evil.X",
    ),
    *("pytest -W 'ignore -p evil'", "pytest --version -p evil", "pytest --help=x", "pytest --ignore-glob=/etc/*"),
    *("python -m pytest -p evil", ".venv/bin/python -m pytest -p evil", ".venv/bin/pytest -c evil.ini"),
    *("python -m unittest -p no:x --evil", "python -m unittest /etc/evil.py", "ruff check --config=evil.toml"),
    *("git status --git-dir=x", "git add -f .env", "git add .env", "mkdir -m 777 build", "make test SHELL=./evil"),
]
OTHER_PLACES = [
    *(
        "pytest /etc",
        "pytest ..",
        "pytest ../outside",
        "pytest sub/../../outside",
        "pytest lnk",
        "pytest lnk/test_x.py",
    ),
    *(
        "pytest .env",
        "pytest .git/x.py",
        "pytest --ignore=lnk",
        "pytest -klnk/x",
        "pytest ~/x",
        "pytest dirlnk/../../x",
    ),
    *("cd .. && pytest", "cd / && pytest", "cd lnk && pytest", "cd dirlnk && pytest", "cd - && pytest", "cd && pytest"),
    *("cd ~ && pytest", "cd .git && pytest", "cd $HOME && pytest", "cd sub/../.. && pytest", "cd nowhere && pytest"),
    *("cd -P .. && pytest", "cd sub || pytest", "cd sub | pytest", "pytest && cd sub && pytest", "pushd .. && pytest"),
    *(
        "cd sub > x && pytest",
        "cd sub & pytest",
        "(cd .. && pytest)",
        "cd 'sub' '..' && pytest",
        "cd sub && cd ../.. && pytest",
    ),
    *(
        "cd sub && git status",
        "cd sub && make test",
        "cd sub && ruff check .",
        "cd sub && pytest ../a.py",
        "cd s* && pytest",
    ),
    *("make -C sub test", "git -C sub status", "git --work-tree=/ status", "make -f evil.mk test", "make test deploy"),
    *("mkdir /etc/x", "mkdir ../x", "mkdir lnk/x", "git add lnk/x", "ruff check lnk"),
]
OTHER_PROGRAMS = [
    *("./pytest", "sub/pytest", "cd sub && ./pytest", "/usr/bin/pytest", "bin/pytest", "./evil -m pytest", "evil"),
    *(
        ".venv/bin/evil",
        ".venv/bin/python",
        ".venv/bin/python a.py",
        ".venv/bin/python -c x",
        ".venv/bin/python -i -m pytest",
    ),
    *("env/bin/python -m pytest", "fake/bin/python -m pytest", "lnk/bin/python -m pytest", "dirlnk/python -m pytest"),
    *(".venv/bin/../../evil -m pytest", ".venv/bin/../bin2/python -m pytest", ".venv/lib/python -m pytest"),
    *(
        "python -m pytest.evil",
        "python -m evil",
        "python -X dev -m pytest",
        "python -c x",
        "python pytest",
        "python a.py",
    ),
    *(".venv/bin/ruff check .", ".venv/bin/git status", ".venv/bin/make test", "timeout 5 .venv/bin/ruff check ."),
    *("python -m", "cd sub && python -m pytest", "cd sub && ../.venv/bin/python -m pytest", "python -mpytest"),
    *(
        "'git status'",
        "'make test'",
        "pytest-watch",
        "pytestx",
        "git statusx",
        "make testx",
        "make",
        "tox exec -- rm a.py",
    ),
    *("uv run pytest", "uv run --with evil pytest", "npx pytest", "coverage run -m pytest", "git stash", "git"),
]
BEFORE_AND_AROUND = [
    *("PYTHONPATH=/tmp pytest", "PYTEST_ADDOPTS='-p evil' pytest", "PYTEST_PLUGINS=evil pytest", "PATH=/tmp pytest"),
    *("LD_PRELOAD=./evil.so pytest", "BASH_ENV=evil pytest", "GIT_DIR=sub git status", "CI=1 PYTHONPATH=/tmp pytest"),
    *("PYTHONPATH=/tmp CI=1 pytest", "CI=$(rm a.py) pytest", "CI=`rm a.py` pytest", "CI=$X pytest", "CI='1' pytest"),
    *("CI+=1 pytest", "TZ=:/etc/x pytest", "LANG=../../x pytest", "CI=1; PATH=/tmp; pytest", "CI=1 && pytest", "CI=1"),
    *("CI[$(rm a.py)]=1 pytest", "CI=1>x pytest", "export PATH=/tmp; pytest", "env CI=1 pytest", "CI=1 env X=1 pytest"),
    *("timeout 5 sh -c 'rm a.py'", "timeout 5 ./pytest", "timeout pytest", "timeout -s KILL 5 pytest", "timeout 5"),
    *("timeout 5 timeout 5 pytest", "timeout 5 CI=1 pytest", "timeout 5 cd ..", "timeout 5 env pytest", "sudo pytest"),
    *("timeout $(rm a.py) pytest", "timeout 5 -- pytest", "nice pytest", "nohup pytest", "time pytest", "exec pytest"),
    *("command pytest", "builtin cd .. && pytest", "xargs pytest", "eval pytest", "bash -c pytest", "watch pytest"),
    *("source .venv/bin/activate && pytest", ". ./evil && pytest", "alias pytest=rm; pytest a.py", "set -x; pytest"),
    *(
        "pytest() { rm a.py; }; pytest",
        "hash -p ./evil pytest; pytest",
        "trap 'rm a.py' EXIT; pytest",
        "shopt -s x; pytest",
    ),
]
OUTPUT = [
    *("pytest > x", "pytest >> a.py", "pytest 2>file", "pytest 2> a.py", "pytest &> x", "pytest &>> x", "pytest >| x"),
    *("pytest >& x", "pytest 2>&1 > x", "pytest 3> x", "pytest > /dev/tty", "pytest > /dev/null2", "pytest >$X"),
    *("pytest < a.py", "pytest <<< x", "pytest <<EOF\nx\nEOF", "pytest <(rm a.py)", "pytest > >(sh)", "pytest {x}>y"),
    *(
        "pytest | tee x",
        "pytest | tail > x",
        "pytest | sort -o x",
        "pytest | sed -n 'w x'",
        "pytest | sed -i s/x/y/ a.py",
    ),
    *(
        "pytest | sed 's/x/y/e'",
        "pytest | sh",
        "pytest | bash",
        "pytest | python",
        "pytest | xargs rm",
        "pytest |& tee x",
    ),
    *("pytest | uniq - x", "pytest | tail -f a.py", "pytest | grep -f .env x", "pytest | cat ../outside/test_x.py"),
    *("pytest | ./evil", "pytest | sub/tail", "pytest | awk '{system($0)}'", "pytest | pytest", "echo x | make test"),
    *("cat a.py | pytest", "cat .env | pytest", "pytest | cat .env", "pytest | git add a.py"),
]
NEXT_TO_IT = [
    *("pytest; rm a.py", "pytest && rm a.py", "pytest || rm a.py", "pytest\nrm a.py", "pytest & rm a.py", "pytest &"),
    *(
        "rm a.py; pytest",
        "git status; rm a.py",
        "make test && git push",
        "make test; make deploy",
        "pytest && git commit -m x",
    ),
    *(
        "cat .env && pytest",
        "cat ../outside/test_x.py; pytest",
        "head /etc/passwd && pytest",
        "ls .. && pytest",
        "ls lnk && pytest",
    ),
    *(
        "grep -r PASSWORD . && pytest",
        "cat lnk/test_x.py && pytest",
        "pytest; cat a.py",
        "pytest && ls",
        "pytest && ls *",
    ),
    *(
        "pytest; cat .env",
        "make test && grep -r x .",
        "git status && git diff",
        "git diff && pytest",
        "git log -p && pytest",
    ),
    *("ls *.py && pytest", "cat * && pytest", "cat ? && pytest", "echo * && pytest", "pytest | cat a.*"),
    *("pytest; echo $HOME", "pytest; echo $(rm a.py)", "pytest; echo `rm a.py`", "pytest && echo x > a.py"),
    *(
        "git pull && ruff check new/x.py",
        "git pull && mkdir new/x",
        "git add a.py && .venv/bin/pytest",
        "make deploy; pytest",
    ),
    *("pytest && sleep 1", "pytest && find . -delete", "pytest && date -s 2001-01-01", "pytest && curl example.org"),
]
OTHER_THAN_PLAIN = [
    *(
        'pytest "$(rm a.py)"',
        "pytest $(rm a.py)",
        "pytest `rm a.py`",
        "pytest $X",
        'pytest "$X"',
        "pytest ${X:-a}",
        "pytest $'-pevil'",
    ),
    *(
        "pytest *",
        "pytest t?sts",
        "pytest [a]",
        "pytest {-p,evil}",
        "p{ytest,x}",
        "pyte\\st -p evil",
        "\\pytest",
        "pytest \\\n-p evil",
    ),
    *(
        "if pytest; then rm a.py; fi",
        "for i in 1; do pytest; done",
        "while pytest; do pytest; done",
        "! pytest",
        "{ pytest; }",
    ),
    *(
        "[ -f a.py ] && pytest",
        "[[ -f a.py ]] && pytest",
        "((1)) && pytest",
        "coproc pytest",
        "pytest # x",
        "pytest -k x#y # z",
    ),
    *(
        "pytest\u00a0-p evil",
        "pytest\r-p evil",
        "pytest \u202e",
        "pytest 'x",
        'pytest "x',
        "pytest &&",
        "&& pytest",
        "| pytest",
    ),
    *(
        "pytest ;; rm a.py",
        "pytest;;",
        "case x in x) pytest;; esac",
        "function pytest { rm a.py; }",
        "pytest 'a[$(rm a.py)]'",
    ),
    *(
        'ls "x && CI=1 pytest"; rm a.py',
        "echo 'CI=1 pytest' > a.py",
        'pytest "; CI=1 -p" -p evil',
        "CI=1\tPATH=x pytest",
    ),
]
ATTACKS = [
    *OPTIONS_THAT_LOAD_OR_WRITE,
    *OTHER_PLACES,
    *OTHER_PROGRAMS,
    *BEFORE_AND_AROUND,
    *OUTPUT,
    *NEXT_TO_IT,
    *OTHER_THAN_PLAIN,
]


@pytest.fixture
def root(tmp_path) -> Path:
    return make_workspace(tmp_path / "workspace")


def test_no_line_runs_more_than_was_approved(root):
    session = Session(root)
    session.approve(*APPROVED)
    assert [line for line in APPROVED if not session.runs(line)] == []
    assert [line for line in ATTACKS if session.runs(line)] == []


def test_no_line_runs_more_than_an_allowlist_says(root):
    session = Session(root, allowlist=_ALLOWLIST)
    assert [line for line in APPROVED if not session.runs(line)] == []
    assert [line for line in ATTACKS if session.runs(line)] == []


def test_none_of_the_lines_is_offered_a_scope_that_covers_what_it_adds(root):
    """A scope that such a line offers is one of its own: approving it by a mistake does not name another program."""
    session = Session(root)
    wide = (
        "tests: pytest in this project",
        "commands that start with `git status`",
        "tests: make test in this project",
    )
    assert [line for line in ATTACKS if set(session.offered(line)) & set(wide)] == []


@pytest.mark.parametrize("replacement", ["/bin/sh", "../../evil", "../../lnk/python3", "/nowhere/python3"])
def test_an_environments_python_that_leads_elsewhere_asks(root, replacement):
    session = Session(root)
    python = root / ".venv/bin/python"
    python.unlink()
    python.symlink_to(replacement)
    session.approve("pytest")
    for line in (".venv/bin/python -m pytest", ".venv/bin/python3 -m unittest"):
        assert session.decide(line).verdict is Verdict.ASK
        assert session.offered(line) == []


def test_an_environment_with_a_python_of_the_workspace_asks(root):
    python, session = root / ".venv/bin/python", Session(root)
    python.unlink()
    python.symlink_to("../../tools/python3")
    (root / ".venv/pyvenv.cfg").write_text(f"home = {root}/tools\n")
    assert session.offered(".venv/bin/python -m pytest") == []


def test_an_environment_that_is_a_link_or_has_programs_elsewhere_asks(root):
    session = Session(root)
    session.approve("pytest")
    (root / ".venv").rename(root.parent / "moved")
    (root / ".venv").symlink_to("../moved")
    assert not session.runs(".venv/bin/python -m pytest")
    (root / ".venv").unlink()
    (root.parent / "moved").rename(root / ".venv")
    (root / ".venv/bin").rename(root / ".venv/other")
    (root / ".venv/bin").symlink_to("other")
    assert not session.runs(".venv/bin/python -m pytest")
    (root / ".venv/bin").unlink()
    (root / ".venv/other").rename(root / ".venv/bin")
    (root / ".venv/bin/pytest").unlink()
    (root / ".venv/bin/pytest").symlink_to("../../evil")
    assert session.offered(".venv/bin/pytest") == []


def test_a_filter_that_the_workspace_brings_along_asks(root, monkeypatch):
    session = Session(root)
    session.approve("pytest")
    assert session.runs("timeout 5 pytest | tail")
    for program in ("tail", "timeout"):
        own = root / ".venv/bin" / program
        own.write_text("#!/bin/sh\n")
        own.chmod(0o755)
        with monkeypatch.context() as patch:
            patch.setenv("PATH", f"{root}/.venv/bin:{os.environ['PATH']}")
            assert not session.runs("timeout 5 pytest | tail")
        own.unlink()


def test_an_absolute_path_is_no_subcommand_and_no_option(root):
    session = Session(root)
    session.approve(*APPROVED)
    lines = [
        "make {}/test",
        "git {}/status",
        "python -m {}/unittest",
        "pytest {}/-p evil",
        "pytest {}//etc",
        "pytest {}/../x",
    ]
    lines += ["mkdir {}", "pytest {}/lnk/x", "pytest {}/.env", "{}/pytest", "cd {}/.. && pytest"]
    assert [line for line in lines if session.runs(line.format(root))] == []


def test_a_variable_with_options_for_grep_asks(root, monkeypatch):
    session = Session(root)
    session.approve("pytest")
    assert session.runs("pytest | grep x")
    monkeypatch.setenv("GREP_OPTIONS", "-r")
    assert not session.runs("pytest | grep x")


def test_in_a_home_folder_no_file_is_read_next_to_a_granted_command(root, monkeypatch):
    session = Session(root)
    session.approve("pytest")
    assert session.runs("cat a.py && pytest")
    monkeypatch.setenv("HOME", str(root))
    assert not session.runs("cat a.py && pytest")
