"""`kin-nb kernel`: the Kin kernel as Jupyter finds it, a kernelspec that names this interpreter by its full path.

The wheel brings one that says `python`, which is right where Jupyter runs in the same environment. This one is for all others.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from kin_nb.cli.exits import DONE, fail

MODULE = "kin_nb.notebook.kernel"
NAME = "kin"
_NAMES = re.compile(r"kin(-[a-z0-9._-]+)?")


def install(arguments: argparse.Namespace) -> int:
    folder = _folder(arguments)
    if folder.exists() and not is_kin(spec_in(folder)):
        return fail(f"{folder} holds another kernel, which stays. Choose another --name.")
    try:
        _write(folder)
    except OSError as error:
        return fail(f"{folder}: the kernel was not installed: {error.strerror}.")
    print(f'Installed the kernel "{_display_name(folder.name)}" in {folder}')
    print(f"It runs {sys.executable}. JupyterLab's launcher shows it after a reload.")
    return DONE


def uninstall(arguments: argparse.Namespace) -> int:
    folder = _folder(arguments)
    if not is_kin(spec_in(folder)):
        what = "holds another kernel, which stays" if folder.exists() else "does not exist"
        others = [path for path, _ in installed() if path != folder]
        known = f" Kin kernels are in: {', '.join(map(str, others))}." if others else ""
        return fail(f"{folder} {what}.{known}")
    try:
        folder.unlink() if folder.is_symlink() else shutil.rmtree(folder)
    except OSError as error:
        return fail(f"{folder}: the kernel was not removed: {error.strerror}.")
    print(f"Removed {folder}")
    return DONE


def kernel_name(text: str) -> str:
    """Names under which a notebook is known to hold prompts (replay.cell_keys.is_kin_kernel). Raises argparse.ArgumentTypeError."""
    if not _NAMES.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r}: name it {NAME}, or {NAME}- and letters, digits, . _ -")
    return text


def installed() -> list[tuple[Path, list[str]]]:
    """(folder, command) of each Kin kernel that Jupyter finds from here. Its own KernelSpecManager would make ~/.ipython."""
    from jupyter_core.paths import jupyter_path  # noqa: PLC0415  (this command only)

    found: dict[str, tuple[Path, list[str]]] = {}
    for place in map(Path, jupyter_path("kernels")):
        try:
            folders = sorted(place.iterdir())
        except OSError:
            continue
        for folder in folders:
            spec = spec_in(folder)
            if is_kin(spec):
                found.setdefault(folder.name, (folder, spec["argv"]))  # the first of a name hides the others
    return list(found.values())


def spec_in(folder: Path) -> dict[str, Any]:
    """The kernel.json there; {} when there is none that makes sense."""
    try:
        spec = json.loads((folder / "kernel.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return spec if isinstance(spec, dict) else {}


def is_kin(spec: dict[str, Any]) -> bool:
    argv = spec.get("argv")
    return isinstance(argv, list) and all(isinstance(word, str) for word in argv) and MODULE in argv


def shipped() -> Path:
    """The kernelspec that ships: `kin_nb/_kernelspec` in an installed wheel, `kernelspec` in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "_kernelspec"
    return inside if inside.is_dir() else package.parent / "kernelspec"


def _folder(arguments: argparse.Namespace) -> Path:
    """Where Jupyter looks for the kernel of that name: the user's own folder when nothing else is wanted."""
    from jupyter_core.paths import jupyter_data_dir  # noqa: PLC0415  (this command only)

    prefix = Path(sys.prefix) if arguments.sys_prefix else arguments.prefix
    data = Path(jupyter_data_dir()) if prefix is None else prefix.expanduser().absolute() / "share" / "jupyter"
    return data / "kernels" / str(arguments.name)


def _write(folder: Path) -> None:
    """Raises OSError."""
    if folder.is_symlink():  # to somebody's checkout, which keeps its own
        folder.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    for logo in sorted(shipped().glob("logo-*")):
        shutil.copyfile(logo, folder / logo.name)
    spec = json.loads((shipped() / "kernel.json").read_text(encoding="utf-8"))
    spec |= {"argv": [sys.executable, *spec["argv"][1:]], "display_name": _display_name(folder.name)}
    (folder / "kernel.json").write_text(json.dumps(spec, indent=1) + "\n", encoding="utf-8")


def _display_name(name: str) -> str:
    """Several stand side by side in the launcher."""
    return "Kin" if name == NAME else f"Kin ({name.removeprefix(f'{NAME}-')})"
