"""`kin-nb demo`: what it prints, and its exit code."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from kin_nb.replay.commands.steps import Steps, say
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.playback.shipped import examples_folder, is_shipped
from kin_nb.replay.runner.one import replay_notebook
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.runner.report import ReplayReport

FAILED = 1
QUICKSTART = "quickstart.ipynb"


def demo() -> int:
    """Re-execute the quickstart: the model from the recording, the tools for real, in a temporary copy."""
    path = examples_folder() / QUICKSTART
    if not is_shipped(path):
        # Only what came with this version may run commands unasked.
        print(f"{path} is not the quickstart that came with this version of kin_nb.", file=sys.stderr)  # noqa: T201
        return FAILED
    say("Re-executing the quickstart session: the model's replies come from the recording, the tools really run,")
    say("in a temporary copy of its workspace. No key, no network.\n")
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="kin-demo-"))
    try:
        report = replay_notebook(path, ReplayOptions(tools=True, approve_recorded=True, output_dir=folder), Steps())
    except (ReplayError, OSError) as error:
        print(str(error), file=sys.stderr)  # noqa: T201
        return FAILED
    say(f"\n{report.text()}")
    say(f"Took {time.monotonic() - started:.1f} s. {_open_with(report)}")
    return report.exit_code


def demo_in_lab() -> int:
    """Open a copy of the quickstart in JupyterLab, or say how to install it."""
    import importlib.util  # noqa: PLC0415
    import os  # noqa: PLC0415
    import shutil  # noqa: PLC0415

    if importlib.util.find_spec("jupyterlab") is None:
        say(f"JupyterLab is not installed here. Install it with:  {sys.executable} -m pip install jupyterlab")
        return FAILED
    folder = Path(tempfile.mkdtemp(prefix="kin-demo-"))
    shutil.copytree(examples_folder() / "workspaces" / "quickstart", folder / "workspaces" / "quickstart")
    shutil.copy(examples_folder() / QUICKSTART, folder)
    argv = [sys.executable, "-m", "jupyterlab", str(folder / QUICKSTART)]
    return os.execv(argv[0], argv)  # noqa: S606  (in this process's place: who ends it ends JupyterLab)


def _open_with(report: ReplayReport) -> str:
    return f"Open it with: jupyter lab {report.executed}"
