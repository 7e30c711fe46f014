"""The walls: which package may import which, and what `%load_ext kin_nb` may cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Container, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from tests.table import each_row

PACKAGE = Path(__file__).parents[2] / "kin_nb"
ORDER = ["core", "render", "replay", "notebook", "cli"]
CORE = [
    ("host_facts", "python_environment", "safe_fs", "text"),
    (
        *("bounded_json", "callback_errors", "gitignore", "interrupts", "modes", "paths", "records"),
        *("sensitive_names", "syntax_check", "tool_types", "urls", "usage_stats", "workspace_commit"),
        *("config.errors", "tools.arguments"),
    ),
    ("messages", "processes", "questions", "redaction", "stopping", "turn_hooks", "workspace", "safety.decision"),
    ("environment", "ignore_rules", "usage", "safety.shell", "tools.base"),
    ("autocompletion", "events", "file_history", "project_snapshot"),
    ("config", "event_stream", "wire"),
    ("llm", "memory", "observability", "output_formatters", "safety", "session", "settings", "skills"),
    ("context", "model_response", "system_prompt", "web"),
    ("dmail", "documents", "loop_guard", "middleware"),
    ("conversation", "tools"),
    ("compactor", "compat", "session_toolset", "undo"),
    ("turn_context",),
    ("agent_parts", "resume", "turn"),
    ("subagent",),
    ("agent",),
    ("documents.session", "programmatic"),
    ("__init__", "commands", "types"),
]
"""The floors of core. A module that stands apart from its package is one of values that others need (`config.errors`,
`safety.decision`, `tools.base`), reading that needs no settings (`safety.shell`), or a program's door (`documents.session`)."""
RENDER = [
    ("terminal", "text"),
    ("card", "highlight"),
    ("diff", "images", "markdown"),
    ("approval", "changes", "summary"),
    ("tool_parts",),
    ("call",),
    ("turn",),
    ("command",),
    ("__init__",),
]
REPLAY = [
    ("__init__",),
    ("errors", "recording"),
    ("environment", "cell_keys"),
    ("binding_cells",),
    ("format",),
    ("book", "rerun"),
    ("playback", "run_diff"),
    ("saving",),
    ("plain_export", "merging", "runner"),
    ("commands",),
]
"""Each imports those above it, and none beside it, inside functions too."""
NOTEBOOK = [
    *(
        "__init__",
        "options",
        "cell_io",
        "main_thread_loop",
        "tap",
        "notebook_file",
        "output_backup",
    ),
    *("approval", "streaming", "cell_view", "namespace", "live_agent", "turn_runner", "recorded_answers"),
    *("modes", "commands", "saving", "session", "sessions", "safe_imports", "completion"),
    *("startup_hint", "magics", "extension", "kernel", "papermill"),
]
"""Functions may import upwards: they do, so that `%load_ext` stays light."""
PRIVATE = {
    ("safe_imports.py", "_getframe"): "Python's own; inspect, which has it under a public name, is slow to import",
    ("tap.py", "_kin_tap"): "a name of ours on the kernel: the tap lives as long as that",
    ("tap.py", "_msg_callback"): "of a comm: its public way runs IPython's events in the middle of a cell",
    ("tap.py", "_recv_callback"): "of ipykernel's stream, which has no public way to be read first",
}
"""What a module of kin_nb/notebook reads of an object that is not its own, and why."""
JUPYTER = {"IPython", "ipykernel", "ipywidgets", "jupyter_client", "nbformat", "nbclient", "traitlets", "comm", "zmq"}
HEAVY = ["mcp", "nbformat", "nbclient", "ipywidgets", "httpx", "pydantic", "markdown_it", "nh3"]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Those within `node`, at any depth; expressions hold none, and `ast.walk` would go through all of them."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, field, ()):
            yield child
            yield from statements(child)


@cache
def import_nodes(path: Path) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in statements(parsed(path)) if isinstance(node, ast.Import | ast.ImportFrom)]


@cache
def imports(path: Path) -> set[str]:
    """Every module that a file imports, at its top or inside functions."""
    found: set[str] = set()
    for node in import_nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif node.module:
            found.add(node.module)
    return found


def imports_at_once(path: Path) -> set[str]:
    """What is imported when the file's own module is, by full names: not inside functions, nor for type checkers alone."""
    found: set[str] = set()
    left: list[ast.AST] = [parsed(path)]
    while left:
        node = left.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            left += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            left += ast.iter_child_nodes(node)
    return found


def all_imports(path: Path, modules: Container[str]) -> set[str]:
    """The modules of `modules` that a file imports anywhere; a package's own file where it takes no module of it."""
    found: set[str] = set()
    for node in import_nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif node.module:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else node.module for name in full}
    return {name for name in found if name in modules}


def private_names_of_others(path: Path) -> set[str]:
    """`other._name`, where `other` is neither the object itself nor its class."""
    return {
        node.attr
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and ast.unparse(node.value) not in {"self", "cls", "super()"}
    }


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def modules_in(folder: Path) -> set[str]:
    return {path.name.removesuffix(".py") for path in folder.iterdir()} - {"__pycache__"}


def room(module: str, depth: int = 1) -> str:
    """`core` for kin_nb.core.agent; the file's name for a module of the package itself. `agent` at depth 2."""
    return [*module.split("."), *[""] * depth][depth]


FILES = sorted(PACKAGE.rglob("*.py"))


def wrong_imports(
    folder: Path, order: list[str], package: str, imported: Callable[[Path], set[str]] = imports
) -> dict[str, set[str]]:
    """Of each module below `folder`, what it imports of `package`'s rooms that come after its own in `order`."""
    found = {}
    for path in folder.rglob("*.py"):
        own = path.relative_to(folder).parts[0].removesuffix(".py")
        allowed = order[: order.index(own) + 1] if own in order else order
        inside = {name for name in imported(path) if name.startswith(package)}
        found[str(path.relative_to(folder))] = {
            name for name in inside if room(name, package.count(".") + 1) not in allowed
        }
    return {name: wrong for name, wrong in found.items() if wrong}


def imports_point_one_way() -> None:
    assert wrong_imports(PACKAGE, ["", *ORDER], "kin_nb") == {}


def wrong_levels(package: str, levels: list[tuple[str, ...]]) -> set[tuple[str, str]]:
    """(module, room) where a module imports one that is not above its own room in `levels`."""
    folder = PACKAGE / package
    level_of = {name: number for number, names in enumerate(levels) for name in names}
    wrong = set()
    for path in folder.rglob("*.py"):
        own = path.relative_to(folder).parts[0].removesuffix(".py")
        rooms = {room(name, 2) for name in imports(path) if name.startswith(f"kin_nb.{package}")} - {"", own}
        wrong |= {(str(path.relative_to(folder)), each) for each in rooms if level_of[each] >= level_of[own]}
    return wrong


def core_room(module: str) -> str:
    """The name in CORE that `module`, without `kin_nb.core.`, belongs to."""
    rooms = [name for names in CORE for name in names]
    return max((name for name in rooms if f"{module}.".startswith(f"{name}.")), key=len, default="")


def rooms_of_core_import_those_above_them() -> None:
    """Also inside functions and for type checkers alone: nothing takes the whole of what is built on it."""
    floor_of = {name: floor for floor, names in enumerate(CORE) for name in names}
    names = {dotted(path): path for path in FILES if path.is_relative_to(PACKAGE / "core")}
    wrong = set()
    for module, path in names.items():
        own = core_room(module.removeprefix("kin_nb.core").removeprefix(".") or "__init__")
        for name in all_imports(path, names):
            room = core_room(name.removeprefix("kin_nb.core."))
            if room != own and floor_of[room] >= floor_of[own]:
                wrong.add((module, name))
    assert wrong == set()


def no_import_circles() -> None:
    """Inside functions and for type checkers too. What packages export is left out: it is there for who is outside."""
    names = {dotted(path): path for path in FILES if path.name != "__init__.py"}
    graph = {name: all_imports(path, names) - {name} for name, path in names.items()}
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which has the circle


def modules_of_render_import_those_above_them() -> None:
    assert modules_in(PACKAGE / "render") == {name for names in RENDER for name in names}
    assert wrong_levels("render", RENDER) == set()


def packages_of_replay_import_those_above_them() -> None:
    assert modules_in(PACKAGE / "replay") == {name for names in REPLAY for name in names}
    assert wrong_levels("replay", REPLAY) == set()


def no_modules_import_each_other_when_they_are_imported() -> None:
    """A module whose imports are all known to be without circles is without one itself, until none is left."""
    modules = {dotted(path): imports_at_once(path) for path in FILES}
    left = {
        module: {name if name in modules else name.rpartition(".")[0] for name in names}
        for module, names in modules.items()
    }
    while free := [name for name, imported in left.items() if not imported & set(left)]:
        for name in free:
            del left[name]
    assert left == {}


def modules_of_notebook_import_those_below_them_when_they_are_imported() -> None:
    assert modules_in(PACKAGE / "notebook") == set(NOTEBOOK)
    assert wrong_imports(PACKAGE / "notebook", NOTEBOOK, "kin_nb.notebook", imports_at_once) == {}


def no_module_of_notebook_reads_what_is_private_to_another_object() -> None:
    folder = PACKAGE / "notebook"
    files = sorted(folder.rglob("*.py"))
    found = {(str(path.relative_to(folder)), name) for path in files for name in private_names_of_others(path)}
    assert found == set(PRIVATE)


def core_knows_nothing_of_jupyter() -> None:
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


@each_row(
    "wall",
    [
        imports_point_one_way,
        rooms_of_core_import_those_above_them,
        no_import_circles,
        modules_of_render_import_those_above_them,
        packages_of_replay_import_those_above_them,
        no_modules_import_each_other_when_they_are_imported,
        modules_of_notebook_import_those_below_them_when_they_are_imported,
        no_module_of_notebook_reads_what_is_private_to_another_object,
        core_knows_nothing_of_jupyter,
    ],
)
def test_a_module_imports_only_what_it_may(wall):
    """One test: each worker that runs one of these would parse the whole package."""
    wall()
