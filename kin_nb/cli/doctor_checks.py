"""Checks of `kin-nb doctor` that need no settings: packages, front ends, the Kin kernel, programs. They use no network."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

from kin_nb import __version__
from kin_nb.cli.kernel import installed


@dataclass(frozen=True)
class CheckResult:
    """The result of one check: a line of the report.

    `info`: nothing is wrong, but something is missing or switched off. `what` was checked; `how` it is, without a full stop;
    `advice`: sentences, "" when there is nothing to do.
    """

    status: Literal["ok", "info", "warn", "fail"]
    what: str
    how: str
    advice: str = ""

    def line(self) -> str:
        return f"{self.status:<4}  {self.what}: {self.how}.{f' {self.advice}' if self.advice else ''}"


_SHOWN = ("ipykernel", "ipython", "ipywidgets", "jupyter-client", "mcp", "pydantic")
_FRONT_ENDS = {"jupyterlab": 4, "notebook": 7}
"""The oldest major version that shows our cards."""
_WIDGETS = "jupyterlab_widgets"
_SECONDS = 20


def packages() -> Iterator[CheckResult]:
    """Check Python, and the version of each declared dependency."""
    from packaging.requirements import Requirement  # noqa: PLC0415  (this command only)

    yield CheckResult("ok", "Python", f"{platform.python_version()}, {sys.executable}")
    try:
        declared = [Requirement(text) for text in requires("kin-nb") or ()]
    except PackageNotFoundError:
        place = Path(__file__).resolve().parents[2]
        yield CheckResult("warn", "kin_nb", f"{__version__} runs from {place}, but is not installed", _pip(str(place)))
        return
    yield CheckResult("ok", "kin_nb", ", ".join([__version__, *(f"{name} {_version(name)}" for name in _SHOWN)]))
    for requirement in declared:
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        found, wanted = _version(requirement.name), f"{requirement.name}{requirement.specifier}"
        if found is None:
            yield CheckResult("fail", requirement.name, "not installed", _pip(wanted))
        elif not requirement.specifier.contains(found, prereleases=True):
            yield CheckResult("fail", requirement.name, f"{found} is installed, {wanted} is needed", _pip(wanted))


def front_ends() -> Iterator[CheckResult]:
    """Check JupyterLab and Notebook in this environment, and whether they can show approval buttons."""
    found = {name: shown for name in _FRONT_ENDS if (shown := _version(name)) is not None}
    if not found:
        advice = f"If Jupyter runs in another environment, install {_WIDGETS} there for approval buttons."
        yield CheckResult("info", "front ends", "neither JupyterLab nor Notebook is in this environment", advice)
        return
    for name, shown in found.items():
        oldest = _FRONT_ENDS[name]
        if int(shown.partition(".")[0]) < oldest:
            yield CheckResult("warn", name, f"{shown} is older than {oldest}", _pip(f"{name}>={oldest}"))
        else:
            yield CheckResult("ok", name, shown)
    yield _widgets()


def _widgets() -> CheckResult:
    """Check the front-end half of ipywidgets: a package of its own, with files that Jupyter must find."""
    from jupyter_core.paths import jupyter_path  # noqa: PLC0415  (this command only)

    what, shown = "widgets", _version(_WIDGETS)
    without = "approvals are asked with input() instead of buttons"
    if shown is None:
        return CheckResult("warn", what, f"{_WIDGETS} is missing: {without}", _pip(f"{_WIDGETS}>=3"))
    places = [Path(folder) / "@jupyter-widgets" / "jupyterlab-manager" for folder in jupyter_path("labextensions")]
    if not any((place / "package.json").is_file() for place in places):
        advice = _pip(f"--force-reinstall {_WIDGETS}")
        return CheckResult("warn", what, f"JupyterLab does not find {_WIDGETS} {shown}: {without}", advice)
    if int(shown.partition(".")[0]) < 3:  # noqa: PLR2004  (the version for ipywidgets 8)
        return CheckResult("warn", what, f"{_WIDGETS} {shown} does not work with ipywidgets 8", _pip(f"{_WIDGETS}>=3"))
    return CheckResult("ok", what, f"{_WIDGETS} {shown}")


def kernels() -> Iterator[CheckResult]:
    """Check the Python of each Kin kernel that Jupyter finds from here: does it exist, and does it have kin_nb?"""
    found = installed()
    if not found:
        advice = "%%kin works without it. To have it in the launcher: `kin-nb kernel install`."
        yield CheckResult("info", "Kin kernel", "not installed", advice)
    for folder, argv in found:
        problem = _problem(argv[0])
        advice = "`kin-nb kernel install` installs one for this Python." if problem else ""
        yield CheckResult("warn" if problem else "ok", "Kin kernel", problem or f"in {folder}", advice)


def _problem(program: str) -> str:
    """Why this Python cannot run our kernel; "" when it can."""
    if program in {"python", "python3", sys.executable}:  # jupyter_client replaces bare names by its own interpreter
        return ""
    if shutil.which(program) is None:
        return f"its Python {program} does not exist"
    code = "import kin_nb; print(kin_nb.__version__)"
    try:
        done = subprocess.run(
            [program, "-c", code], cwd=os.sep, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"its Python {program} does not run ({type(error).__name__})"
    if done.returncode:
        return f"its Python {program} has no kin_nb"
    other = done.stdout.strip()
    return "" if other == __version__ else f"its Python {program} has kin_nb {other}, this one {__version__}"


def programs() -> Iterator[CheckResult]:
    """Check optional programs."""
    for program, name, without in (
        (
            "git",
            "git",
            "`kin-nb replay --tools` cannot restore a commit, and the model gets no information about the repository",
        ),
        ("rg", "ripgrep", "searching files is slower"),
    ):
        place = shutil.which(program)
        if place is None:
            yield CheckResult(
                "warn", name, f"not installed: {without}", "Install it with the package manager of your system."
            )
        else:
            yield CheckResult("ok", name, place)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _pip(what: str) -> str:
    return f"{sys.executable} -m pip install '{what}'" if " " not in what else f"{sys.executable} -m pip install {what}"
