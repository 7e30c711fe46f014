"""Which Python commands find first, and what a project's files say about its environments and tests."""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path

import pytest

from kin_nb.core.python_environment import (
    ProjectEnvironment,
    command_environment,
    commands_interpreter,
    project_environments,
    project_tools,
)

SHELL = {"PATH": "/usr/local/bin:/usr/bin", "HOME": "/home/ann"}


def make_environment(folder: Path, settings: str = "home = /usr/bin\nversion = 3.12.1\n") -> Path:
    """A virtual environment as far as files tell; returns its interpreter."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(settings)
    python = programs / "python"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    return python


def make_conda(folder: Path) -> Path:
    python = make_environment(folder)
    (folder / "pyvenv.cfg").unlink()
    (folder / "conda-meta").mkdir()
    (folder / "conda-meta" / "python-3.11.5-h955ad1f_0.json").write_text("{}")
    return python


def test_on_the_command_line_the_users_path_is_kept():
    assert command_environment(SHELL, None) == SHELL


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_an_active_environment_that_is_not_on_path_comes_first(tmp_path, variable):
    python = make_environment(tmp_path / "env")
    given = SHELL | {variable: str(tmp_path / "env")}
    assert command_environment(given, None)["PATH"] == f"{python.parent}:/usr/local/bin:/usr/bin"
    found = commands_interpreter(command_environment(given, None), None)
    assert (found.path, found.version, found.source) == (python, "3.12.1", f"the active environment, {variable}")


def test_the_shells_order_is_kept_where_the_active_environment_is_on_path(tmp_path):
    python = make_environment(tmp_path / "env")
    given = {"PATH": f"/opt/shims:{python.parent}", "VIRTUAL_ENV": str(tmp_path / "env")}
    assert command_environment(given, None) == given


def test_in_a_kernel_its_own_environment_is_the_active_one(tmp_path):
    kernel, other = make_environment(tmp_path / "kernel"), make_environment(tmp_path / "other")
    given = {"PATH": f"{other.parent}:/usr/bin:{kernel.parent}", "VIRTUAL_ENV": str(tmp_path / "other")}
    made = command_environment(given, kernel)
    assert made == {"PATH": f"{kernel.parent}:{other.parent}:/usr/bin", "VIRTUAL_ENV": str(tmp_path / "kernel")}
    assert commands_interpreter(made, kernel).source == "the notebook's kernel"
    assert commands_interpreter(made | {"PATH": str(other.parent)}, kernel).path == other, (
        "a setting put another one first"
    )


def test_in_a_kernel_without_an_environment_no_other_is_active(tmp_path):
    python = tmp_path / "usr" / "bin" / "python3"
    assert "VIRTUAL_ENV" not in command_environment(SHELL | {"VIRTUAL_ENV": "/elsewhere"}, python)


def test_a_conda_kernel_is_the_active_conda_environment(tmp_path):
    kernel = make_conda(tmp_path / "conda")
    made = command_environment(SHELL | {"CONDA_PREFIX": "/opt/base"}, kernel)
    assert made["CONDA_PREFIX"] == str(tmp_path / "conda")
    assert commands_interpreter(made, kernel).version == "3.11.5"


def test_a_python_without_an_environment_is_found_on_path(tmp_path):
    real = make_environment(tmp_path / "usr").with_name("python3.10")
    real.write_text("#!/bin/sh\n")
    real.chmod(0o755)
    (tmp_path / "usr" / "pyvenv.cfg").unlink()
    (real.parent / "python").unlink()
    (real.parent / "python3").symlink_to("python3.10")
    found = commands_interpreter({"PATH": str(real.parent)}, None)
    assert (found.path.name, found.version, found.source) == ("python3", "3.10", "on PATH")
    assert commands_interpreter({"PATH": str(tmp_path)}, None) is None


def test_the_version_is_that_of_a_real_environment(tmp_path):
    venv.create(tmp_path / ".venv", symlinks=True, with_pip=False)
    version = ".".join(map(str, sys.version_info[:3]))
    assert project_environments(tmp_path) == [ProjectEnvironment(".venv", version, "")]
    kernel = Path(sys.executable)
    assert commands_interpreter(command_environment(os.environ, kernel), kernel).version == version


def test_environments_of_a_project_are_named_with_their_tool(tmp_path):
    make_environment(tmp_path / ".venv", "home = /usr/bin\nuv = 0.5.1\nversion_info = 3.13.0\n")
    make_conda(tmp_path / "env")
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "pyvenv.cfg").write_text("not one")
    (tmp_path / ".env").write_text("KEY=secret")
    assert project_environments(tmp_path) == [
        ProjectEnvironment(".venv", "3.13.0", "uv"),
        ProjectEnvironment("env", "3.11.5", "conda"),
    ]


FILES = [
    ({}, []),
    ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, ["pytest"]),
    ({"pyproject.toml": "[tool.pytest]\n", "uv.lock": ""}, ["uv run", "pytest"]),
    ({"setup.cfg": "[tool:pytest]\n"}, ["pytest"]),
    ({"pytest.ini": "", "tox.ini": "[tox]\n"}, ["pytest", "tox"]),
    ({"pyproject.toml": "[tool.tox]\n"}, ["tox"]),
    ({"tests/conftest.py": "", "noxfile.py": ""}, ["pytest", "nox"]),
    ({"Makefile": "all:\n\ntest-fast: all\n\tpytest\n"}, ["make test"]),
    ({"Makefile": "test := 1\nall:\n"}, []),
    ({"pyproject.toml": "[tool.poetry]\n"}, ["poetry run"]),
    ({"pyproject.toml": "[tool.hatch.envs.test]\n"}, ["hatch run"]),
    ({"environment.yml": "", "Pipfile": ""}, ["pipenv run", "conda (environment.yml)"]),
]


def test_how_a_project_runs_its_programs_and_tests(tmp_path):
    wrong = []
    for number, (files, expected) in enumerate(FILES):
        for name, text in files.items():
            path = tmp_path / str(number) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        found = project_tools(tmp_path / str(number))
        if found != expected:
            wrong.append((files, found))
    assert wrong == []


def test_a_pipe_in_place_of_a_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pyproject.toml")
    assert project_tools(tmp_path) == []
