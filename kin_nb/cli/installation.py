"""What `kin-nb doctor` checks of the machine: packages, Jupyter's front ends, the Kin kernel, programs. No network."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from kin_nb import __version__
from kin_nb.cli.finding import Finding
from kin_nb.cli.kernel import installed

_SHOWN = ("ipykernel", "ipython", "ipywidgets", "jupyter-client", "mcp", "pydantic")
_FRONT_ENDS = {"jupyterlab": 4, "notebook": 7}
"""The oldest major version that draws our cards."""
_WIDGETS = "jupyterlab_widgets"
_SECONDS = 20


def packages() -> Iterator[Finding]:
    """Python, and each of our dependencies against what we declare."""
    from packaging.requirements import Requirement  # noqa: PLC0415  (this command only)

    yield Finding("ok", "Python", f"{platform.python_version()}, {sys.executable}")
    try:
        declared = [Requirement(text) for text in requires("kin-nb") or ()]
    except PackageNotFoundError:
        place = Path(__file__).resolve().parents[2]
        yield Finding("warn", "kin_nb", f"{__version__} runs from {place} without being installed", _pip(str(place)))
        return
    yield Finding("ok", "kin_nb", ", ".join([__version__, *(f"{name} {_version(name)}" for name in _SHOWN)]))
    for requirement in declared:
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        found, wanted = _version(requirement.name), f"{requirement.name}{requirement.specifier}"
        if found is None:
            yield Finding("fail", requirement.name, "not installed", _pip(wanted))
        elif not requirement.specifier.contains(found, prereleases=True):
            yield Finding("fail", requirement.name, f"{found} does not do, {wanted} is needed", _pip(wanted))


def front_ends() -> Iterator[Finding]:
    """JupyterLab and Notebook beside us, and whether they can draw the buttons that ask."""
    found = {name: shown for name in _FRONT_ENDS if (shown := _version(name)) is not None}
    if not found:
        advice = f"Buttons need {_WIDGETS} in the environment of the one that you use."
        yield Finding("ok", "front ends", "neither JupyterLab nor Notebook in this environment", advice)
        return
    for name, shown in found.items():
        oldest = _FRONT_ENDS[name]
        if int(shown.partition(".")[0]) < oldest:
            yield Finding("warn", name, f"{shown} is older than {oldest}", _pip(f"{name}>={oldest}"))
        else:
            yield Finding("ok", name, shown)
    yield _widgets()


def _widgets() -> Finding:
    """ipywidgets has two halves; the one in the front end is a package of its own, with files that Jupyter must find."""
    from jupyter_core.paths import jupyter_path  # noqa: PLC0415  (this command only)

    what, shown = "widgets", _version(_WIDGETS)
    without = "questions come through input() instead of buttons"
    if shown is None:
        return Finding("warn", what, f"{_WIDGETS} is missing: {without}", _pip(f"{_WIDGETS}>=3"))
    places = [Path(folder) / "@jupyter-widgets" / "jupyterlab-manager" for folder in jupyter_path("labextensions")]
    if not any((place / "package.json").is_file() for place in places):
        advice = _pip(f"--force-reinstall {_WIDGETS}")
        return Finding("warn", what, f"JupyterLab does not find {_WIDGETS} {shown}: {without}", advice)
    if int(shown.partition(".")[0]) < 3:  # noqa: PLR2004  (the half that goes with ipywidgets 8)
        return Finding("warn", what, f"{_WIDGETS} {shown} does not go with ipywidgets 8", _pip(f"{_WIDGETS}>=3"))
    return Finding("ok", what, f"{_WIDGETS} {shown}")


def kernels() -> Iterator[Finding]:
    """Each Kin kernel that Jupyter finds from here: is there an interpreter, and does it have kin_nb?"""
    found = installed()
    if not found:
        advice = "`kin-nb kernel install` puts it into the launcher; %%kin works without it."
        yield Finding("warn", "Kin kernel", "Jupyter does not find it from here", advice)
    for folder, argv in found:
        problem = _problem(argv[0])
        advice = "`kin-nb kernel install` makes one for this interpreter." if problem else ""
        yield Finding("warn" if problem else "ok", "Kin kernel", problem or f"in {folder}", advice)


def _problem(program: str) -> str:
    """Why this interpreter runs no Kin kernel of ours, "" when it does."""
    if program in {"python", "python3", sys.executable}:  # jupyter_client puts its own interpreter for bare names
        return ""
    if shutil.which(program) is None:
        return f"its interpreter {program} does not exist"
    code = "import kin_nb; print(kin_nb.__version__)"
    try:
        done = subprocess.run(
            [program, "-c", code], cwd=os.sep, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"its interpreter {program} does not run ({type(error).__name__})"
    if done.returncode:
        return f"its interpreter {program} has no kin_nb"
    other = done.stdout.strip()
    return "" if other == __version__ else f"its interpreter {program} has kin_nb {other}, this one {__version__}"


def programs() -> Iterator[Finding]:
    """What is not needed, and missed."""
    for program, name, without in (
        ("git", "git", "`kin-nb replay --tools` cannot unpack a commit, and the model hears nothing of the repository"),
        ("rg", "ripgrep", "searching is done in Python, which is slower"),
    ):
        place = shutil.which(program)
        if place is None:
            yield Finding("warn", name, f"not found: {without}", "Your system's packages have it.")
        else:
            yield Finding("ok", name, place)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _pip(what: str) -> str:
    return f"{sys.executable} -m pip install '{what}'" if " " not in what else f"{sys.executable} -m pip install {what}"
