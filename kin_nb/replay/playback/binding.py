"""The variables that a played turn bound, that cells of the notebook use, and that are missing; and the code that binds them.

In playback the agent's Python does not run. Where saving wrote its code into a cell, that cell binds the variables. Elsewhere
the code can be offered to the user: the same code, for one cell. Nothing is run or imported here.
"""

from __future__ import annotations

import ast
import keyword
import re
import symtable
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kin_nb.core.records import SessionRecord, TurnRecord
from kin_nb.replay.binding_cells import BindingCode, binding_code, collect_imports, has_binding_cell
from kin_nb.replay.book import Book
from kin_nb.replay.cell_keys import conversation_key, is_kin_kernel

_NOT_CODE = (SyntaxError, ValueError, RecursionError, MemoryError)
_KIN_CELL = re.compile(r"\s*%%kin(_recording)?\b")
_KIN_LINE = re.compile(r"\s*%kin\b")
_CHOOSES_MODE = re.compile(r"(?m)^\s*(?:%kin\b[^\n]*[\s/]|/)mode\b|KinMagics")
_READ = ("id", "cell_type", "source", "metadata")


@dataclass(frozen=True)
class MissingVariables:
    """Variables that a played cell lacks. `names`: in the order in which the turns bound them; `code`: of each cell.

    `turn`: the number of the last turn that bound some. `chooses_mode`: a cell of the notebook chooses the session's mode.
    """

    names: tuple[str, ...]
    code: tuple[BindingCode, ...]
    turn: int
    chooses_mode: bool


def missing_variables(
    book: Book, shown: Sequence[SessionRecord], present: Container[str], notebook: Callable[[], Any]
) -> MissingVariables | None:
    """Return the variables that the turns in `shown` bound and that the namespace lacks; None if it lacks none.

    `present`: the names in the namespace. `notebook`: reads the notebook as it is now, None where it is not known; it is
    called only where a name is missing. A turn whose code is in a cell of the notebook counts as one that binds nothing.
    """
    turns = _turns(shown)
    if all(name in present for name in _bound_by(turns)):
        return None
    nb = notebook()
    if nb is None:
        return None
    folder = book.meta.workspace.path
    uncovered = [turn for turn in turns if not has_binding_cell(nb, turn, folder)]
    if not uncovered:
        return None
    imports = collect_imports(_turns_above(book, shown), folder)
    code = [(turn, part) for turn in uncovered for part in binding_code(turn, folder, imports)]
    bound = _still_bound([part for _, part in code])
    lacking = [name for name in bound if name not in present]
    used = _used_in(nb, book, shown, folder) if lacking else set()
    names = tuple(name for name in lacking if name in used)
    if not names:
        return None
    chooses_mode = any(_CHOOSES_MODE.search(cell["source"]) for cell in nb["cells"] if cell["cell_type"] == "code")
    return MissingVariables(names, tuple(part for _, part in code), code[-1][0].turn, chooses_mode)


def without_outputs(nb: Any) -> Any:
    """Return the part of a notebook that `missing_variables` reads."""
    return {
        "metadata": nb["metadata"],
        "cells": [{key: cell[key] for key in _READ if key in cell} for cell in nb["cells"]],
    }


@lru_cache(4096)
def used_names(source: str) -> frozenset[str]:
    """Return the global names that Python code uses before it binds them; of other text, every word."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
            scopes = list(_scopes(symtable.symtable(source, "<cell>", "exec")))
        early = _Early()
        early.block(tree.body, set())
    except _NOT_CODE:
        return frozenset(re.findall(r"[^\W\d]\w*", source))
    symbols = [each for scope in scopes for each in scope.get_symbols() if _is_global(each, scope)]
    looked_up = {symbol.get_name() for symbol in symbols if symbol.is_referenced()}
    return frozenset(looked_up & early.names | {symbol.get_name() for symbol in symbols} & early.in_place)


def _scopes(scope: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield scope
    for inner in scope.get_children():
        yield from _scopes(inner)


def _is_global(symbol: symtable.Symbol, scope: symtable.SymbolTable) -> bool:
    return scope.get_type() == "module" or symbol.is_global()


class _Early:
    """Collects the names that a module's statements use before one certainly binds them, in any scope.

    `in_place`: of those, the ones that a statement deletes, or assigns to as `x += 1` does.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.in_place: set[str] = set()

    def block(self, statements: Sequence[ast.stmt], bound: set[str]) -> None:
        """Visit the statements of a block. `bound`: the names bound so far; the names that they bind are added."""
        for statement in statements:
            match statement:
                case ast.For() | ast.AsyncFor():
                    self._look([statement.iter], bound)
                    self._bind([statement.target], bound)
                    self.block([*statement.body, *statement.orelse], bound)
                case ast.With() | ast.AsyncWith():
                    for item in statement.items:
                        self._look([item.context_expr], bound)
                        self._bind(filter(None, [item.optional_vars]), bound)
                    self.block(statement.body, bound)
                case ast.If() | ast.While():
                    self._look([statement.test], bound)
                    for branch in (statement.body, statement.orelse):
                        self.block(branch, bound.copy())
                case ast.Assign():
                    self._look([statement.value], bound)
                    self._bind(statement.targets, bound)
                case _:
                    self._look([statement], bound)
                    bound |= set(_defined(statement))

    def _look(self, nodes: Iterable[ast.AST], bound: set[str]) -> None:
        for node in (inner for outer in nodes for inner in ast.walk(outer)):
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self.in_place |= {node.target.id} - bound
            elif isinstance(node, ast.Name) and node.id not in bound:
                if isinstance(node.ctx, ast.Load):
                    self.names.add(node.id)
                elif isinstance(node.ctx, ast.Del):
                    self.in_place.add(node.id)

    def _bind(self, targets: Iterable[ast.expr], bound: set[str]) -> None:
        """Bind the names of assignment targets: `x`, or `x, y`; `x[i].y` only uses x and i."""
        targets = list(targets)
        self._look(targets, bound)
        for node in (inner for outer in targets for inner in ast.walk(outer)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound.add(node.id)


def _defined(statement: ast.stmt) -> Iterator[str]:
    """Return the names that a statement other than an assignment always binds."""
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in names)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name


def _used_in(nb: Any, book: Book, shown: Sequence[SessionRecord], folder: str) -> set[str]:
    """Return the names that cells of `nb` use, and those that other turns need to bind such names."""
    used = {name for cell in nb["cells"] for name in used_names(_code_of(nb, cell))}
    own = {record.id for record in shown}
    others = [_turns(cell.shown) for cell in book.cells if not any(record.id in own for record in cell.shown)]
    waiting = [turn for turns in others for turn in turns]
    while needed := [turn for turn in waiting if used.intersection(_bound_by([turn]))]:
        waiting = [turn for turn in waiting if turn not in needed]
        used |= {name for turn in needed for part in binding_code(turn, folder, {}) for name in used_names(part.source)}
    return used


def _code_of(nb: Any, cell: Any) -> str:
    """Return the code that a cell runs in the namespace; "" for prompts, commands and text."""
    source = str(cell["source"])
    if cell["cell_type"] != "code" or conversation_key(nb, cell) is not None or _KIN_CELL.match(source):
        return ""
    if is_kin_kernel(nb):
        first, _, rest = source.lstrip().partition("\n")
        if first.strip() == "%%python":
            return rest
        if first[:1] not in {"%", "!", "?"}:
            return ""
    return "\n".join(line for line in source.split("\n") if not _KIN_LINE.match(line))


def _turns(records: Iterable[SessionRecord]) -> list[TurnRecord]:
    return [record for record in records if isinstance(record, TurnRecord)]


def _turns_above(book: Book, shown: Sequence[SessionRecord]) -> Iterator[TurnRecord]:
    """Return the turns of the cells above the one that shows `shown`."""
    own = {record.id for record in shown}
    for cell in book.cells:
        if any(record.id in own for record in cell.shown):
            return
        yield from _turns(cell.shown)


def _bound_by(turns: Iterable[TurnRecord]) -> Iterator[str]:
    return (name for turn in turns for call in turn.calls for name in call.bound if _is_variable(name))


def _still_bound(parts: Iterable[BindingCode]) -> list[str]:
    """Return the variables that exist after all parts have run, without names that were deleted last."""
    found: dict[str, None] = {}
    for part in parts:
        found |= dict.fromkeys(filter(_is_variable, part.bound))
        try:
            names = [node for node in ast.walk(ast.parse(part.source)) if isinstance(node, ast.Name)]
        except _NOT_CODE:
            continue
        names.sort(key=lambda node: (node.lineno, node.col_offset))
        last = {node.id: node.ctx for node in names if not isinstance(node.ctx, ast.Load)}
        for name, how in last.items():
            if isinstance(how, ast.Del):
                found.pop(name, None)
    return list(found)


def _is_variable(name: str) -> bool:
    """Whether this is a name that the tool reports: a record may contain any text."""
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")
