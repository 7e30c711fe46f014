"""Find what would stop a saved notebook by reading its cells: missing files and modules, names that no cell above defines,
questions to the user; and paths that exist on this machine only.

Nothing is run or imported. Reading cannot find everything, so an empty result is not a proof: runner/confined.py plays the
notebook for that.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kin_nb.core.text import listed
from kin_nb.render import one_line
from kin_nb.replay.binding_cells import RAISES_TAG
from kin_nb.replay.cell_keys import conversation_key, is_kin_kernel
from kin_nb.replay.saving.build import is_generated

_MOST = 5
"""Most cells that a report names."""
_KNOWN = frozenset(dir(builtins)) | {"get_ipython", "display", "In", "Out", "exit", "quit"}
_KNOWN |= {"_dh", "_ih", "_oh", "_exit_code", "__builtins__"}
_KNOWN_MAGICS = re.compile(
    r"get_ipython\(\)\.(?:system|getoutput"
    r"|run_line_magic\('(?:(?:matplotlib|pip|conda|config|autoreload|kin)'|load_ext', '(?:autoreload|kin_nb)'))"
)
_KINDS = "csv|table|parquet|excel|json|feather|pickle|hdf|stata|sas|spss|orc|xml|fwf|text|bytes|file|ipc|ndjson"
_READS = re.compile(
    rf"open|open_(?:data\w+|zarr|mfdataset)|imread|genfromtxt|fromfile|load(?:txt|mat|_workbook)?|(?:read|scan)_(?:{_KINDS})"
)
_WRITES = re.compile(r"to_(?!_)\w+|save\w*|dump|write\w*|imsave|imwrite|touch|mkdir")
_WRITES_ANYWHERE = re.compile(rf"(?!to_(?!{_KINDS})|write(?:lines|rows?|r)?$).*")
"""Of those, without `to_datetime` and its like and what writes to an open file: any file, where its text has no path."""
_OPENERS = frozenset({"np", "numpy", "io", "codecs", "gzip", "bz2", "lzma", "Image", "joblib", "torch"})
"""Modules whose `open` or `load` reads the file that its argument names."""
_LONGEST = 1000
"""Characters of a path."""
_FILE = re.compile(r"(?!\w+:)[^\n*?<>|{}\[\]\"]*(?:/[^\n*?<>|{}\[\]\"/]+|\.\w{1,10})")
_FINDS_MORE = re.compile(r"sys\.path|PYTHONPATH|addsitedir|\b(?:pip|conda|mamba|uv)\b")
"""After a cell with this, the set of modules is unknown."""
_ASKING = frozenset({"input", "getpass"})
_MAKES_FILES = frozenset(
    {"chdir", "extractall", "urlretrieve", "run", "system", "check_call", "check_output", "copy", "move"}
)
"""Calls after which the set of files is unknown."""
_Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_CELL_MAGIC = re.compile(r"\s*%%(?P<name>\w+)(?P<line>[^\n]*)\n(?P<body>.*)", re.DOTALL)
_ELSEWHERE = frozenset({"bash", "sh", "script", "html", "markdown", "javascript", "js", "svg", "latex", "writefile"})
"""Cell magics whose cell binds no name; some of them make files."""
_TRANSPARENT = frozenset({"time", "timeit", "prun"})
"""Cell magics whose cell is Python of the notebook's own namespace."""


@dataclass
class _State:
    """`names`: those that cells above define; None when unknown. `written`: files that they write."""

    names: set[str] | None = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)
    """Functions and classes that they define, each of which may write any file."""
    moved: bool = False
    """The working directory may be another, or files be there that no call names."""
    finds_more: bool = False
    """There may be more modules."""


@dataclass(frozen=True)
class Preflight:
    """`stops`: (a cell, from 1, that a replay would stop at, why). `notes`: lines about what stops nothing."""

    stops: tuple[tuple[int, str], ...] = ()
    notes: tuple[str, ...] = ()

    def lines(self, beyond: int = 0) -> list[str]:
        """Return the lines. `beyond`: the last cell that a play has run; findings in cells up to it are left out."""
        found = [f"A replay stops at cell {number}: {why}." for number, why in self.stops if number > beyond]
        more = [f"And at {len(found) - _MOST} more cells."] if len(found) > _MOST else []
        return [*found[:_MOST], *more, *self.notes]


def check_cells(nb: Any, folder: Path) -> Preflight:
    """Find the ordinary cells of `nb` at which a replay in `folder` would stop, as far as reading shows it.

    Cells with the tag for an expected error are named too. Nothing is run. Linear.
    """
    found, so_far, never, failing, interrupted, here = [], _State(), [], [], [], {}
    for number, cell in enumerate(nb["cells"], 1):
        if cell["cell_type"] != "code" or not cell["source"].strip() or _is_ours(nb, cell):
            continue
        tags = cell["metadata"].get("tags")
        may_fail = isinstance(tags, list) and RAISES_TAG in tags
        if _was_interrupted(cell):
            interrupted.append(number)
            may_fail = False
        so_far.moved = so_far.moved or _makes_files(cell["source"])
        so_far.finds_more = so_far.finds_more or _FINDS_MORE.search(cell["source"]) is not None
        problems = list(_problems(_code_of(nb, cell["source"]), folder, so_far))
        if may_fail:
            failing.append(number)
        elif problems:
            found.append((number, "; ".join(problems)))
        elif cell.get("execution_count") is None and not cell.get("outputs"):
            never.append(number)
        if path := _path_of_this_machine(cell["source"]):
            here[number] = path
    return Preflight(tuple(found), tuple(_notes(failing, interrupted, never, here)))


def _notes(failing: list[int], interrupted: list[int], never: list[int], here: dict[int, str]) -> Iterator[str]:
    if failing:
        yield f"{_cells(failing)} ended in an error and may fail again: tagged {RAISES_TAG}, so a replay continues."
    for number in interrupted[:_MOST]:
        yield f"Cell {number} was interrupted: a replay runs it to its end."
    if never:
        yield f"{_cells(never)} never ran here: a replay runs {'it' if len(never) == 1 else 'them'}."
    for number, path in list(here.items())[:_MOST]:
        yield f"Cell {number} names {one_line(path, 200)}, which is only on this machine."


def _path_of_this_machine(source: str) -> str:
    """Return the first quoted text that is a path below the user's home, "" for none."""
    try:
        home = str(Path.home())
    except RuntimeError:
        return ""
    homes = [re.escape(each) for each in (home, "~") if len(each) > 1 or each == "~"]
    found = re.search(rf"""(["'])((?:{"|".join(homes)})/[^"'\n]{{1,{_LONGEST}}})\1""", source)
    return found[2] if found else ""


def _was_interrupted(cell: Any) -> bool:
    return any(
        each.get("output_type") == "error" and each.get("ename") == "KeyboardInterrupt" for each in cell["outputs"]
    )


def _is_ours(nb: Any, cell: Any) -> bool:
    return conversation_key(nb, cell) is not None or is_generated(cell)


def _cells(numbers: list[int]) -> str:
    return f"{'Cell' if len(numbers) == 1 else 'Cells'} {listed(list(map(str, numbers)), _MOST)}"


def _code_of(nb: Any, source: str) -> str | None:
    """Return the Python code that a cell runs in the notebook's namespace; None when unknown."""
    magic = _CELL_MAGIC.fullmatch(source)
    if magic is not None:
        if not (magic["name"] in _TRANSPARENT or (magic["name"] == "python" and is_kin_kernel(nb))):
            return "" if magic["name"] in _ELSEWHERE else None
        if magic["name"] == "timeit" and magic["line"].strip():
            return None  # the line is set-up
        source = magic["body"]
    if not re.search(r"(?m)^\s*[%!]|[?]\s*$|^\s*[?]|=\s*[%!]", source):
        return source
    from IPython.core.inputtransformer2 import TransformerManager  # noqa: PLC0415  (rarely used)

    try:
        code = str(TransformerManager().transform_cell(source))
    except SyntaxError:
        return None
    return (
        None
        if code.count("get_ipython().") > len(_KNOWN_MAGICS.findall(code))
        else code.replace("get_ipython()", "None")
    )


def _makes_files(source: str) -> bool:
    """Whether a cell runs a shell or writes itself to a file: then the existing files are unknown for later cells."""
    return re.search(r"(?m)^\s*(?:!|%%(?:bash|sh|script|writefile)\b|%cd\b)|=\s*!", source) is not None


def _problems(code: str | None, folder: Path, so_far: _State) -> Iterator[str]:
    """Describe what stops one cell, and update the state for the cells below."""
    tree = None
    if code is not None:
        try:
            tree = compile(
                code, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
            )
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if isinstance(error, SyntaxError):
                yield f"{one_line(str(error.msg), 100)} (line {error.lineno})"
    if not isinstance(tree, ast.Module):
        so_far.names, so_far.moved = None, True
        return
    for statement in tree.body:
        try:
            found = [
                *_missing_names(statement, so_far),
                *_missing_modules(statement, folder, so_far),
                *_questions(statement, so_far),
                *_missing_files(statement, folder, so_far),
            ]
        except RecursionError:  # a very long sum
            found, so_far.names = [], None
        yield from found


def _missing_names(statement: ast.stmt, so_far: _State) -> Iterator[str]:
    """Yield the names that the statement looks up when it runs and that no earlier code binds, each once."""
    if so_far.names is None:
        return
    scope = _Scope()
    scope.visit(statement)
    missing = scope.loads - scope.binds - so_far.names - _KNOWN
    unknown = sorted(name for name in missing if not re.fullmatch(r"_+i*\d*", name))
    if unknown and not scope.opaque:
        yield f"no cell above it defines {', '.join(f'`{name}`' for name in unknown)}"
    so_far.names = None if scope.opaque else so_far.names | scope.binds | set(unknown)


def _missing_modules(statement: ast.stmt, folder: Path, so_far: _State) -> Iterator[str]:
    """Yield imported top-level modules that neither this interpreter nor the notebook's folder has."""
    if so_far.moved or so_far.finds_more or not isinstance(statement, ast.Import | ast.ImportFrom):
        return
    named = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else [statement.module or ""]
    missing = [name for name in dict.fromkeys(each.partition(".")[0] for each in named) if not _is_module(name, folder)]
    if missing:
        yield f"module {', '.join(f'`{name}`' for name in missing)} is not installed here"


def _is_module(name: str, folder: Path) -> bool:
    if not name or name in sys.modules or _is_there(folder, name) or _is_there(folder, f"{name}.py"):
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return True


def _questions(statement: ast.stmt, so_far: _State) -> Iterator[str]:
    """Yield the questions that the statement asks the user when it runs; those inside functions do not count."""
    for call in _calls(statement) if not _is_guarded(statement) else ():
        name = _called(call)
        if name in _ASKING and name not in so_far.own:
            yield f"it calls {name}(), and no one can answer in a replay"
            return


def _calls(statement: ast.stmt) -> Iterator[ast.Call]:
    return (node for node in ast.walk(statement) if isinstance(node, ast.Call))


def _called(call: ast.Call) -> str:
    """Return the last name of the called expression."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


class _Scope(ast.NodeVisitor):
    """The names of a module's statement, without the bodies of functions, which run later. `opaque`: it may bind any name."""

    def __init__(self) -> None:
        self.loads: set[str] = set()
        self.binds: set[str] = set()
        self.opaque = False

    def visit_Name(self, node: ast.Name) -> None:
        (self.loads if isinstance(node.ctx, ast.Load) else self.binds).add(node.id)
        if node.id in {"exec", "eval", "globals", "locals", "vars", "dir", "get_ipython"}:
            self.opaque = True

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Whether its annotation is looked up depends on `from __future__ import annotations`, and on the Python."""
        for each in filter(None, (node.target, node.value)):
            self.visit(each)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.binds.add(node.name)
        self.binds |= {name for each in ast.walk(node) if isinstance(each, ast.Global) for name in each.names}
        for each in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(each)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  (ast's own names)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for each in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(each)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Visit all except the class body, which has names of its own."""
        self.binds.add(node.name)
        for each in (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)):
            self.visit(each)

    def visit_alias(self, node: ast.alias) -> None:
        self.opaque = self.opaque or node.name == "*"
        self.binds.add(node.asname or node.name.partition(".")[0])

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self.binds |= {node.name} if node.name else set()
        self.generic_visit(node)

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        """Ignore missing names: the statement may exist to handle them."""
        inner = _Scope()
        inner.generic_visit(node)
        self.binds |= inner.binds
        self.opaque = self.opaque or inner.opaque

    def visit_TryStar(self, node: ast.TryStar) -> None:
        self.visit_Try(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self.binds |= {node.name} if node.name else set()
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self.binds |= {node.name} if node.name else set()

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.binds |= {node.rest} if node.rest else set()
        self.generic_visit(node)


def _missing_files(statement: ast.stmt, folder: Path, so_far: _State) -> Iterator[str]:
    """Yield the missing files that a call in the statement reads by a literal path."""
    guarded = _is_guarded(statement)
    so_far.own |= {node.name for node in ast.walk(statement) if isinstance(node, _Defined)}
    for call in _calls(statement):
        name = _called(call)
        paths = [path for node in (*call.args[:2], _path_of(call.func)) if (path := _path(node))]
        if _WRITES.fullmatch(name) or (name == "open" and _mode(call)[:1] in {"w", "a", "x"}):
            so_far.written |= set(paths)
            so_far.moved = so_far.moved or (not paths and _WRITES_ANYWHERE.fullmatch(name) is not None)
        elif name in _MAKES_FILES or name in so_far.own:
            so_far.moved = True
        elif _READS.fullmatch(name) and not so_far.moved and not guarded and _is_known(call.func):
            for path in paths[:1]:
                if path not in so_far.written and not _is_there(folder, path):
                    yield f"{one_line(path, 200)} does not exist"


def _is_guarded(statement: ast.stmt) -> bool:
    """Whether the statement tolerates a missing file, or reads it later (inside a function)."""
    if isinstance(statement, ast.With):
        calls = [item.context_expr.func for item in statement.items if isinstance(item.context_expr, ast.Call)]
        if any(getattr(call, "id", getattr(call, "attr", "")) in {"suppress", "raises"} for call in calls):
            return True
    later = ast.Try | ast.TryStar | ast.If | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return isinstance(statement, later) or any(isinstance(node, ast.Lambda) for node in ast.walk(statement))


def _is_known(function: ast.expr) -> bool:
    """Whether the function is known to read local files; not `x.open` or `x.load` of an object, which may read an archive."""
    if not (isinstance(function, ast.Attribute) and function.attr in {"open", "load"}):
        return True
    return _path_of(function) is not None or getattr(function.value, "id", "") in _OPENERS


def _path_of(function: ast.expr) -> ast.expr | None:
    """Return the `Path("x")` of `Path("x").read_text`."""
    made = function.value if isinstance(function, ast.Attribute) else None
    is_path = isinstance(made, ast.Call) and getattr(made.func, "id", getattr(made.func, "attr", "")) == "Path"
    return made.args[0] if isinstance(made, ast.Call) and is_path and len(made.args) == 1 else None


def _mode(call: ast.Call) -> str:
    on_path = isinstance(call.func, ast.Attribute) and _path_of(call.func) is not None
    given = [*call.args[0 if on_path else 1 :][:1], *(each.value for each in call.keywords if each.arg == "mode")]
    return next((each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)), "r")


def _path(node: ast.expr | None) -> str:
    """Return the text if it looks like a file name (suffix or folder, one line, not a URL or a pattern), else ""."""
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        return ""
    return node.value if len(node.value) <= _LONGEST and _FILE.fullmatch(node.value) else ""


def _is_there(folder: Path, path: str) -> bool:
    """Whether the file exists, or cannot be checked."""
    try:
        return (folder / Path(path).expanduser()).exists()
    except (OSError, ValueError, RuntimeError):
        return True
