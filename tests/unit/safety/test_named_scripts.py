"""Which files a command line runs: those that are compared while a person is asked, and those of a project's servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kin_nb.core.safety.shell.named_scripts import named_files, named_scripts

FILES = ["x", "x.sh", "x.py", "x.go", "rules", "data.csv", "server.toml", "[a].py", "Makefile", "pkg/__main__.py"]
FILES += [f"sub/{name}" for name in ("x", "x.py", "Makefile", "package.json")]


@pytest.fixture
def folder(tmp_path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    return tmp_path.resolve()


SCRIPTS_OF_COMMANDS = [
    ("bash < x", "x"),
    ("bash -s a b <x", "x"),
    ("bash 0< x", "x"),
    ("cat x | sh", "x"),
    ("python - < x", "x"),
    ("sub/x < x", "sub/x"),
    ("python -m pkg", "pkg/__main__.py"),
    ("python -mpkg", "pkg/__main__.py"),
    ("python3 -Bmpkg", "pkg/__main__.py"),
    ("make -Csub", "sub/Makefile"),
    ("make -C sub", "sub/Makefile"),
    ("make --directory=sub", "sub/Makefile"),
    ("make --directory sub test", "sub/Makefile"),
    ("make -frules", "rules"),
    ("make --file=rules", "rules"),
    ("npm --prefix=sub run build", "sub/package.json"),
    ("uv run x.py", "x.py"),
    ("uv run python x", "x"),
    ("uv run --with a python x", "x"),
    ("uv --directory=sub run x.py", "sub/x.py"),
    ("poetry run -C sub python x", "sub/x"),
    ("go run x.go", "x.go"),
    ("strace -f bash x", "x"),
    ("git bisect run ./x", "x"),
]


def test_a_file_that_a_command_runs_is_named(subtests, folder):
    for command, runs in SCRIPTS_OF_COMMANDS:
        with subtests.test(command=command, runs=runs):
            before = named_scripts(command, folder)
            assert str(folder / runs) in before
            (folder / runs).write_text("2")
            assert named_scripts(command, folder) != before
            (folder / runs).write_text("1")


def test_a_file_that_a_command_only_reads_is_not(subtests, folder):
    for command in [
        "gzip data.csv",
        "wc < data.csv",
        "python x.py data.csv",
        "python x.py < data.csv",
        "bash x.sh <data.csv",
        "go run .",
    ]:
        with subtests.test(command=command):
            assert str(folder / "data.csv") not in named_scripts(command, folder)
            assert str(folder / "x.go") not in named_scripts(command, folder)


def test_whatever_the_command_line_of_a_server_names_is_found(subtests, folder):
    for argv, named in [
        (["python", "x"], "x"),
        (["python", "[a].py"], "[a].py"),
        (["sh", "-c", "cd sub && exec python x"], "sub/x"),
        (["bash", "-lc", "A=1 ./x --port 1"], "x"),
        (["sh", "-c", "python < x"], "x"),
        (["uv", "run", "--directory", "sub", "x.py"], "sub/x.py"),
        (["uv", "--directory=sub", "run", "x.py"], "sub/x.py"),
        (["uvx", "thing", "--c=server.toml"], "server.toml"),
        (["uvx", "thing", "--config", "server.toml"], "server.toml"),
        (["uvx", "thing", "-cserver.toml"], "server.toml"),
        (["python", "-m", "pkg"], "pkg/__main__.py"),
    ]:
        with subtests.test(argv=argv, named=named):
            assert folder / named in list(named_files(argv, folder))


def test_nonsense_names_nothing(folder):
    for argv in ([], [""], ["a\0b"], ["$(x)"], ["sh", "-c", "'"], ["~nobody/x"]):
        assert list(named_files(argv, folder)) == []
