"""The Python that commands use, and the environments that a project has. Nothing is run: files and links tell.

Sources: PEP 405 (pyvenv.cfg), conda's `conda-meta` folder, the `VIRTUAL_ENV` and `CONDA_PREFIX` variables of an active environment.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_PROGRAMS = "Scripts" if os.name == "nt" else "bin"
_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
_NAMES = (".venv", "venv", "env", ".env", ".conda", "conda")
_LARGEST = 200_000
"""Bytes of a file that is looked into."""
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")


@dataclass(frozen=True)
class PythonInterpreter:
    """`version`: such as 3.12.1 or 3.12; "" when no file says it. `source`: where the choice comes from, in a few words."""

    path: Path
    version: str
    source: str


@dataclass(frozen=True)
class ProjectEnvironment:
    """An environment in the workspace. `path`: relative to it. `tool`: what made it, such as uv; "" when unknown."""

    path: str
    version: str
    tool: str


def command_environment(environment: Mapping[str, str], interpreter: Path | None) -> dict[str, str]:
    """Return `environment` with the right programs first on PATH.

    `interpreter`: its folder comes first, and its environment counts as the active one. None: an active environment's
    folder comes first where the shell has not put it on PATH; everything else stays as it is.
    """
    given = dict(environment)
    if interpreter is not None:
        prefix = interpreter.parent.parent
        given.pop("VIRTUAL_ENV", None)
        if (prefix / "pyvenv.cfg").is_file():
            given["VIRTUAL_ENV"] = str(prefix)
        if (prefix / "conda-meta").is_dir():
            given["CONDA_PREFIX"] = str(prefix)
        return given | {"PATH": _first(str(interpreter.parent), given)}
    active = next((given[name] for name in _ACTIVE if given.get(name)), "")
    programs = str(Path(active) / _PROGRAMS)
    if active and programs not in given.get("PATH", "").split(os.pathsep) and Path(programs).is_dir():
        given["PATH"] = _first(programs, given)
    return given


def commands_interpreter(environment: Mapping[str, str], interpreter: Path | None) -> PythonInterpreter | None:
    """Return the Python that `python` means in commands with `environment`, `python3` without one; None without any.

    `interpreter`: as in `command_environment`; a setting may have put another one before it on PATH.
    """
    path = environment.get("PATH", os.defpath)
    found = shutil.which("python", path=path) or shutil.which("python3", path=path)
    if found is None:
        return None
    if interpreter is not None and Path(found).parent == interpreter.parent:
        return PythonInterpreter(interpreter, _version_of(interpreter), "the notebook's kernel")
    active = {environment[name]: f"the active environment, {name}" for name in _ACTIVE if environment.get(name)}
    source = next((text for prefix, text in active.items() if Path(found).is_relative_to(prefix)), "on PATH")
    return PythonInterpreter(Path(found), _version_of(Path(found)), source)


def project_environments(workspace: Path) -> list[ProjectEnvironment]:
    """Return the environments directly in `workspace`, also those that git ignores, in the order of the usual names."""
    found = []
    for name in _NAMES:
        folder = workspace / name
        settings = _settings(folder / "pyvenv.cfg")
        if settings:
            tool = "uv" if "uv" in settings else ""
            version = settings.get("version_info") or settings.get("version", "")
            found.append(ProjectEnvironment(name, _number(version), tool))
        elif (folder / "conda-meta").is_dir():
            found.append(ProjectEnvironment(name, _conda_version(folder), "conda"))
    return found


def project_tools(workspace: Path) -> list[str]:
    """Return how the project runs its programs and tests, as its files say it: `uv run`, `pytest`, `make test` and such."""
    return list(dict.fromkeys([*_runners(workspace), *_test_runners(workspace)]))


def _runners(workspace: Path) -> Iterator[str]:
    pyproject = _text(workspace / "pyproject.toml")
    if (workspace / "uv.lock").is_file() or "[tool.uv" in pyproject:
        yield "uv run"
    if "[tool.poetry" in pyproject or (workspace / "poetry.lock").is_file():
        yield "poetry run"
    if "[tool.hatch.envs" in pyproject or (workspace / "hatch.toml").is_file():
        yield "hatch run"
    if "[tool.pdm" in pyproject:
        yield "pdm run"
    if (workspace / "Pipfile").is_file():
        yield "pipenv run"
    if any((workspace / name).is_file() for name in ("environment.yml", "environment.yaml")):
        yield "conda (environment.yml)"


def _test_runners(workspace: Path) -> Iterator[str]:
    pyproject, setup = _text(workspace / "pyproject.toml"), _text(workspace / "setup.cfg")
    tox = _text(workspace / "tox.ini")
    has_pytest = "[tool.pytest" in pyproject or "[tool:pytest]" in setup or "[pytest]" in tox
    if has_pytest or any((workspace / name).is_file() for name in ("pytest.ini", "conftest.py", "tests/conftest.py")):
        yield "pytest"
    if "[tox]" in tox or "[testenv" in tox or "[tool.tox" in pyproject:
        yield "tox"
    if (workspace / "noxfile.py").is_file():
        yield "nox"
    for name in ("Makefile", "makefile", "GNUmakefile"):
        if re.search(r"^test[\w-]*\s*:(?!=)", _text(workspace / name), re.MULTILINE):
            yield "make test"


def _first(folder: str, environment: Mapping[str, str]) -> str:
    others = [each for each in environment.get("PATH", os.defpath).split(os.pathsep) if each and each != folder]
    return os.pathsep.join([folder, *others])


def _version_of(python: Path) -> str:
    if python == Path(sys.executable):
        return ".".join(map(str, sys.version_info[:3]))
    prefix = python.parent.parent
    settings = _settings(prefix / "pyvenv.cfg")
    version = settings.get("version_info") or settings.get("version") or _conda_version(prefix)
    if version:
        return _number(version)
    try:
        return _number(python.resolve().name)  # /usr/bin/python3 -> python3.12
    except (OSError, RuntimeError):
        return ""


def _settings(path: Path) -> dict[str, str]:
    """Return the keys and values of a pyvenv.cfg; empty when it is not one."""
    pairs = (line.partition("=") for line in _text(path).splitlines())
    found = {key.strip().lower(): value.strip() for key, equals, value in pairs if equals}
    return found if "home" in found else {}


def _conda_version(prefix: Path) -> str:
    try:
        names = [path.name for path in (prefix / "conda-meta").glob("python-3*.json")]
    except OSError:
        return ""
    return _number(names[0].removeprefix("python-")) if names else ""


def _number(text: str) -> str:
    match = _VERSION.search(text)
    return match[0] if match else ""


def _text(path: Path) -> str:
    """Return the beginning of a regular file; "" for anything else."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_LARGEST).decode("utf-8", errors="replace")
    except OSError:
        return ""
