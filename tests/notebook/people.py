"""Who runs a notebook: someone with this interpreter and an otherwise empty machine, with or without a model."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "examples" / "quickstart.ipynb"
SECONDS = 120
UNPLAYED = '{"check_seconds": 0}'
"""KIN_SAVE for tests that are not about the play after a save."""
PLAYED = '{"check_seconds": 600}'


def environment(home: Path, **more: str) -> dict[str, str]:
    """No key, no settings: what a teammate has. `home` is made."""
    home.mkdir(exist_ok=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
    # TMPDIR: `kin-nb replay` leaves its executed notebook in a temporary folder
    return {"HOME": str(home), "TMPDIR": str(home), "PATH": path, "LC_ALL": "C.UTF-8", "KIN_SAVE": UNPLAYED, **more}


def run(
    *argv: str | Path,
    home: Path,
    cwd: Path,
    before: Sequence[str] = (),
    stdin: str = "",
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """`python ARGV...` of that person, to its end; `before` is what starts it.

    Once more when a kernel found its port taken: jupyter_client lets go of a free port before the kernel binds it.
    """
    command = [*before, sys.executable, *map(str, argv)]
    how = {"cwd": cwd, "env": environment(home, **more), "input": stdin}
    for _ in range(2):
        done = subprocess.run(command, **how, capture_output=True, text=True, timeout=SECONDS, check=False)
        if "zmq.error.ZMQError: Address already in use" not in done.stdout + done.stderr:
            break
    return done


def kin_nb(*argv: str | Path, home: Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return run("-m", "kin_nb.cli", *argv, home=home, cwd=cwd, **more)


def kin_nb_here(*argv: str | Path, home: Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """As `kin_nb`, without a process of its own, which takes half a second to begin. The kernels that it starts are real."""
    from kin_nb.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    command = list(map(str, argv))
    with standing_in(environment(home, **more), cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(command)
        except SystemExit as end:  # argparse
            code = end.code if isinstance(end.code, int) else 1
    printed = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(command, code, *printed)


@contextlib.contextmanager
def standing_in(environ: Mapping[str, str], folder: Path | str) -> Iterator[None]:
    """Have that environment and that folder in this process, as a process of that person has them; with Python's own filter
    of warnings, about as good as none."""
    before, here, temporary = dict(os.environ), Path.cwd(), tempfile.tempdir
    _replace_environ(environ)
    os.chdir(folder)
    tempfile.tempdir = None  # found anew from TMPDIR
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        tempfile.tempdir = temporary
        os.chdir(here)
        _replace_environ(before)


def _replace_environ(environ: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)


def write_config(home: Path, url: str, *, key_variable: str = "", model: str = "scripted") -> Path:
    """`~/.kin-code/config.toml` of a person whose model server is at `url`; `key_variable` "" for one without keys."""
    path = home / ".kin-code" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'active_model = "{model}"\n\n[[providers]]\nname = "here"\napi_base = "{url}"\n'
        f'api_key_env_var = "{key_variable}"\n\n[[models]]\nname = "{model}"\nprovider = "here"\n'
    )
    return path
