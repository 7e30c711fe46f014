"""What would stop a saved notebook, found by reading its cells: missing files, and names that no cell above defines.

Nothing is run: a cell may take an hour, write to a database or send a message, and saving is no consent to that. What reading
cannot tell is left out, so no finding is no proof: `kin-nb save --check` runs the cells.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kin_nb.render import one_line
from kin_nb.replay.cells.bound import RAISES
from kin_nb.replay.cells.placing import asked_key, is_kin_kernel
from kin_nb.replay.cells.undos import undoes
from kin_nb.replay.saving.making import is_made_anew

_MOST = 5
"""Cells that are named."""
_KNOWN = frozenset(dir(builtins)) | {"get_ipython", "display", "In", "Out", "exit", "quit"}
_KNOWN |= {"_dh", "_ih", "_oh", "_exit_code", "__builtins__"}
_KNOWN_MAGICS = re.compile(
    r"get_ipython\(\)\.(?:system|getoutput"
    r"|run_line_magic\('(?:(?:matplotlib|pip|conda|config|autoreload|kin)'|load_ext', '(?:autoreload|kin_nb)'))"
)
_READS = re.compile(
    r"open|open_(?:data\w+|zarr|mfdataset)|imread|genfromtxt|fromfile|load(?:txt|mat|_workbook)?"
    r"|(?:read|scan)_(?:csv|table|parquet|excel|json|feather|pickle|hdf|stata|sas|spss|orc|xml|fwf|text|bytes|file|ipc|ndjson)"
)
_WRITES = re.compile(r"to_(?!_)\w+|save\w*|dump|write\w*|imsave|imwrite|touch|mkdir")
_OPENERS = frozenset({"np", "numpy", "io", "codecs", "gzip", "bz2", "lzma", "Image", "joblib", "torch"})
"""What reads the file of the name that it is given, with `open` or `load`."""
_LONGEST = 1000
"""Characters of a path."""
_FILE = re.compile(r"(?!\w+:)[^\n*?<>|{}\[\]\"]*(?:/[^\n*?<>|{}\[\]\"/]+|\.\w{1,10})")
_MAKES_FILES = frozenset(
    {"chdir", "extractall", "urlretrieve", "run", "system", "check_call", "check_output", "copy", "move"}
)
"""Calls after which what is there cannot be told."""
_CELL_MAGIC = re.compile(r"\s*%%(?P<name>\w+)(?P<line>[^\n]*)\n(?P<body>.*)", re.DOTALL)
_ELSEWHERE = frozenset({"bash", "sh", "script", "html", "markdown", "javascript", "js", "svg", "latex", "writefile"})
"""Cell magics whose cell binds no name; some of them make files."""
_TRANSPARENT = frozenset({"time", "timeit", "prun"})
"""Cell magics whose cell is Python of the notebook's own namespace."""


@dataclass
class _SoFar:
    """`names`: those that cells above define; None once that cannot be told. `written`: files that they write."""

    names: set[str] | None = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    moved: bool = False
    """The working directory may be another."""


def about_run(nb: Any, folder: Path) -> list[str]:
    """A line for each ordinary cell of `nb`, to be run in `folder`, that a replay would stop at, as far as reading tells.

    Cells that are tagged as what may fail are named too: their error is no surprise. Nothing is run. Linear.
    """
    found, so_far, never, failing, interrupted = [], _SoFar(), [], [], []
    for number, cell in enumerate(nb["cells"], 1):
        if cell["cell_type"] != "code" or not cell["source"].strip() or _is_ours(nb, cell):
            continue
        tags = cell["metadata"].get("tags")
        may_fail = isinstance(tags, list) and RAISES in tags
        if _was_interrupted(cell):
            interrupted.append(number)
            may_fail = False
        so_far.moved = so_far.moved or _makes_files(cell["source"])
        problems = list(_problems(_code_of(nb, cell["source"]), folder, so_far))
        if may_fail:
            failing.append(number)
        elif problems:
            found.append(f"A replay stops at cell {number}: {'; '.join(problems)}.")
        elif cell.get("execution_count") is None and not cell.get("outputs"):
            never.append(number)
    more = [f"And at {len(found) - _MOST} more cells."] if len(found) > _MOST else []
    lines = found[:_MOST] + more
    if failing:
        lines.append(f"{_cells(failing)} ended in an error and may fail again: tagged {RAISES}, so a replay runs on.")
    for number in interrupted[:_MOST]:
        lines.append(f"Cell {number} was interrupted: a replay runs it to its end.")
    if never:
        lines.append(f"{_cells(never)} never ran here: a replay runs {'it' if len(never) == 1 else 'them'}.")
    return lines


def stops(lines: list[str]) -> bool:
    """Whether what `about_run` found stops a replay."""
    return any(line.startswith("A replay stops") for line in lines)


def _was_interrupted(cell: Any) -> bool:
    return any(
        each.get("output_type") == "error" and each.get("ename") == "KeyboardInterrupt" for each in cell["outputs"]
    )


def _is_ours(nb: Any, cell: Any) -> bool:
    return asked_key(nb, cell) is not None or undoes(nb, cell) is not None or is_made_anew(nb, cell)


def _cells(numbers: list[int]) -> str:
    named = ", ".join(map(str, numbers[:_MOST])) + (" and more" if len(numbers) > _MOST else "")
    return f"{'Cell' if len(numbers) == 1 else 'Cells'} {named}"


def _code_of(nb: Any, source: str) -> str | None:
    """The Python that a cell runs in the notebook's namespace; None where that cannot be told."""
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
    """Whether a cell runs a shell, or writes itself to a file: what is there below it cannot be told."""
    return re.search(r"(?m)^\s*(?:!|%%(?:bash|sh|script|writefile)\b|%cd\b)|=\s*!", source) is not None


def _problems(code: str | None, folder: Path, so_far: _SoFar) -> Iterator[str]:
    """What stops one cell, in words; `so_far` is kept up to date."""
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
            found = [*_missing_names(statement, so_far), *_missing_files(statement, folder, so_far)]
        except RecursionError:  # a very long sum
            found, so_far.names = [], None
        yield from found


def _missing_names(statement: ast.stmt, so_far: _SoFar) -> Iterator[str]:
    """Names that are looked up when the statement runs, and that nothing before it binds, each once."""
    if so_far.names is None:
        return
    scope = _Scope()
    scope.visit(statement)
    missing = scope.loads - scope.binds - so_far.names - _KNOWN
    unknown = sorted(name for name in missing if not re.fullmatch(r"_+i*\d*", name))
    if unknown and not scope.opaque:
        yield f"no cell above it defines {', '.join(f'`{name}`' for name in unknown)}"
    so_far.names = None if scope.opaque else so_far.names | scope.binds | set(unknown)


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
        """Its body has names of its own, which are not told apart here."""
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
        """A name that is missing there may be just what it is for."""
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


def _missing_files(statement: ast.stmt, folder: Path, so_far: _SoFar) -> Iterator[str]:
    """Files that a call in the statement reads by a path in its text, and that are not there."""
    guarded = _is_guarded(statement)
    for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in _MAKES_FILES:
            so_far.moved = True
        paths = [path for node in (*call.args[:2], _path_of(call.func)) if (path := _path(node))]
        if _WRITES.fullmatch(name) or (name == "open" and _mode(call)[:1] in {"w", "a", "x"}):
            so_far.written |= set(paths)
        elif _READS.fullmatch(name) and not so_far.moved and not guarded and _is_known(call.func):
            for path in paths[:1]:
                if path not in so_far.written and not _is_there(folder, path):
                    yield f"{one_line(path, 200)} is not there"


def _is_guarded(statement: ast.stmt) -> bool:
    """Whether what it reads may be missing, or is read later if at all."""
    if isinstance(statement, ast.With):
        calls = [item.context_expr.func for item in statement.items if isinstance(item.context_expr, ast.Call)]
        if any(getattr(call, "id", getattr(call, "attr", "")) in {"suppress", "raises"} for call in calls):
            return True
    later = ast.Try | ast.TryStar | ast.If | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return isinstance(statement, later) or any(isinstance(node, ast.Lambda) for node in ast.walk(statement))


def _is_known(function: ast.expr) -> bool:
    """False for `x.open` and `x.load` of any object: it may read an archive, or another computer's files."""
    if not (isinstance(function, ast.Attribute) and function.attr in {"open", "load"}):
        return True
    return _path_of(function) is not None or getattr(function.value, "id", "") in _OPENERS


def _path_of(function: ast.expr) -> ast.expr | None:
    """`Path("x")` of `Path("x").read_text`."""
    made = function.value if isinstance(function, ast.Attribute) else None
    is_path = isinstance(made, ast.Call) and getattr(made.func, "id", getattr(made.func, "attr", "")) == "Path"
    return made.args[0] if isinstance(made, ast.Call) and is_path and len(made.args) == 1 else None


def _mode(call: ast.Call) -> str:
    on_path = isinstance(call.func, ast.Attribute) and _path_of(call.func) is not None
    given = [*call.args[0 if on_path else 1 :][:1], *(each.value for each in call.keywords if each.arg == "mode")]
    return next((each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)), "r")


def _path(node: ast.expr | None) -> str:
    """A text that looks like a file's name: with an ending or a folder, on one line, no URL and no pattern; else ""."""
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        return ""
    return node.value if len(node.value) <= _LONGEST and _FILE.fullmatch(node.value) else ""


def _is_there(folder: Path, path: str) -> bool:
    """True also for what cannot be looked at."""
    try:
        return (folder / Path(path).expanduser()).exists()
    except (OSError, ValueError, RuntimeError):
        return True
