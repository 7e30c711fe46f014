"""The walls: which package may import which, and what `%load_ext kin_nb` may cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "kin_nb"
ORDER = ["core", "render", "replay", "notebook", "cli"]
REPLAY = [
    *("__init__", "errors", "environment", "standing", "recording", "cells", "format", "book", "playback", "saving"),
    *("rerun", "plain", "diffing", "merging", "runner", "commands"),
]
JUPYTER = {"IPython", "ipykernel", "ipywidgets", "jupyter_client", "nbformat", "nbclient", "traitlets", "comm", "zmq"}
HEAVY = ["mcp", "nbformat", "nbclient", "ipywidgets", "httpx", "pydantic", "markdown_it", "nh3"]


def imports(path: Path) -> set[str]:
    """Every module that a file imports, at its top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def room(module: str, depth: int = 1) -> str:
    """`core` for kin_nb.core.agent; the file's name for a module of the package itself. `agent` at depth 2."""
    return [*module.split("."), *[""] * depth][depth]


FILES = sorted(PACKAGE.rglob("*.py"))


def wrong_imports(folder: Path, order: list[str], package: str) -> dict[str, set[str]]:
    """Of each module below `folder`, what it imports of `package`'s rooms that come after its own in `order`."""
    found = {}
    for path in folder.rglob("*.py"):
        own = path.relative_to(folder).parts[0].removesuffix(".py")
        allowed = order[: order.index(own) + 1] if own in order else order
        inside = {name for name in imports(path) if name.startswith(package)}
        found[str(path.relative_to(folder))] = {
            name for name in inside if room(name, package.count(".") + 1) not in allowed
        }
    return {name: wrong for name, wrong in found.items() if wrong}


def test_imports_point_one_way():
    assert wrong_imports(PACKAGE, ["", *ORDER], "kin_nb") == {}


def test_imports_within_replay_point_one_way():
    assert {path.name.removesuffix(".py") for path in (PACKAGE / "replay").iterdir()} - {"__pycache__"} == set(REPLAY)
    assert wrong_imports(PACKAGE / "replay", REPLAY, "kin_nb.replay") == {}


def test_core_knows_nothing_of_jupyter():
    found = {str(path): {name.split(".")[0] for name in imports(path)} for path in (PACKAGE / "core").rglob("*.py")}
    assert {name: roots & JUPYTER for name, roots in found.items() if roots & JUPYTER} == {}


def test_private_names_of_ipykernel_are_in_one_module():
    users = {path.name for path in FILES if "shell_channel" in path.read_text() or "_recv_callback" in path.read_text()}
    assert users == {"tap.py"}


def test_no_module_is_two():
    sizes = {str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {name: lines for name, lines in sizes.items() if lines > 500} == {}


def test_load_ext_imports_nothing_heavy_and_starts_no_thread():
    script = f"""
import sys, threading
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
before = set(threading.enumerate())
names = set(shell.user_ns)
shell.extension_manager.load_extension("kin_nb")
print([name for name in {HEAVY!r} if name in sys.modules])
print(set(threading.enumerate()) == before, set(shell.user_ns) == names)
shell.extension_manager.unload_extension("kin_nb")
print("kin" in shell.magics_manager.magics["cell"], "kin" in shell.magics_manager.magics["line"])
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-3:] == ["[]", "True True", "False False"]
