"""`kin-nb kernel`: install a kernelspec that runs this Python, by its full path.

The wheel contains a kernelspec that runs `python`: enough where Jupyter runs in the same environment. This one is for Jupyter in
any other environment.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from kin_nb.cli.console import DONE, fail

MODULE = "kin_nb.notebook.kernel"
NAME = "kin"
_NAMES = re.compile(r"kin(-[a-z0-9._-]+)?")


def install(arguments: argparse.Namespace) -> int:
    folder = _folder(arguments)
    if folder.exists() and not is_kin(spec_in(folder)):
        return fail(f"{folder} holds another kernel; it was not replaced.\nChoose another name: --name kin-NAME.")
    try:
        _write(folder)
    except OSError as error:
        return fail(f"The kernel was not installed in {folder}: {error.strerror}.")
    print(f'Installed the kernel "{_display_name(folder.name)}" in {folder}')
    print(f"It runs {sys.executable}. Reload the JupyterLab page to see it in the launcher.")
    return DONE


def uninstall(arguments: argparse.Namespace) -> int:
    folder = _folder(arguments)
    if not is_kin(spec_in(folder)):
        what = "holds another kernel; it was not removed" if folder.exists() else "does not exist"
        others = [path for path, _ in installed() if path != folder]
        known = f"\nKin kernels are in: {', '.join(map(str, others))}." if others else ""
        return fail(f"{folder} {what}.{known}")
    try:
        folder.unlink() if folder.is_symlink() else shutil.rmtree(folder)
    except OSError as error:
        return fail(f"The kernel was not removed from {folder}: {error.strerror}.")
    print(f"Removed {folder}")
    return DONE


def kernel_name(text: str) -> str:
    """Check a kernel name: only notebooks of a kernel named `kin` or `kin-...` are read as prompts (replay.cell_keys)."""
    if not _NAMES.fullmatch(text):
        raise argparse.ArgumentTypeError(f"must be {NAME}, or {NAME}- followed by a-z, 0-9, . _ or -, got {text!r}")
    return text


def installed() -> list[tuple[Path, list[str]]]:
    """Return (folder, command) of each Kin kernel that Jupyter finds from here.

    Jupyter's KernelSpecManager would create ~/.ipython, so it is not used.
    """
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
                found.setdefault(
                    folder.name, (folder, spec["argv"])
                )  # as in Jupyter, the first folder with a name wins
    return list(found.values())


def spec_in(folder: Path) -> dict[str, Any]:
    """Read kernel.json; {} if it is missing or invalid."""
    try:
        spec = json.loads((folder / "kernel.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return spec if isinstance(spec, dict) else {}


def is_kin(spec: dict[str, Any]) -> bool:
    argv = spec.get("argv")
    return isinstance(argv, list) and all(isinstance(word, str) for word in argv) and MODULE in argv


def shipped() -> Path:
    """The kernelspec of this package: `kin_nb/_kernelspec` in a wheel, `kernelspec` in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "_kernelspec"
    return inside if inside.is_dir() else package.parent / "kernelspec"


def _folder(arguments: argparse.Namespace) -> Path:
    """The folder for the kernel of that name, by default in the user's own Jupyter folder."""
    from jupyter_core.paths import jupyter_data_dir  # noqa: PLC0415  (this command only)

    prefix = Path(sys.prefix) if arguments.sys_prefix else arguments.prefix
    data = Path(jupyter_data_dir()) if prefix is None else prefix.expanduser().absolute() / "share" / "jupyter"
    return data / "kernels" / str(arguments.name)


def _write(folder: Path) -> None:
    """Raises OSError."""
    if folder.is_symlink():  # a link to a checkout: replace the link, keep the checkout
        folder.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    for logo in sorted(shipped().glob("logo-*")):
        shutil.copyfile(logo, folder / logo.name)
    spec = json.loads((shipped() / "kernel.json").read_text(encoding="utf-8"))
    spec |= {"argv": [sys.executable, *spec["argv"][1:]], "display_name": _display_name(folder.name)}
    (folder / "kernel.json").write_text(json.dumps(spec, indent=1) + "\n", encoding="utf-8")


def _display_name(name: str) -> str:
    """Kernels must be distinguishable in the launcher."""
    return "Kin" if name == NAME else f"Kin ({name.removeprefix(f'{NAME}-')})"
