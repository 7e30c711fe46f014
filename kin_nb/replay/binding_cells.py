"""The cells with the Python that the agent ran: in playback nothing else binds the variables that later cells use.

Saving writes them (tag `kin-bound`), each directly below the cell whose turn ran the code. Never reads or writes a file."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeGuard

from kin_nb.core.records import MOST_NAMES, RecordedCall, SessionRecord, TurnRecord
from kin_nb.core.redaction import WORKSPACE
from kin_nb.render.summary import PYTHON
from kin_nb.replay.cell_keys import conversation_key, is_kin_kernel, last_run, prompt_key

BINDING_TAG = "kin-bound"


IGNORE_OUTPUT_TAG = "nbval-ignore-output"


BINDING_HEADER = "# What the agent ran here"
"""The first line of such a cell, for tools that do not know the tag."""


RAISES_TAG = "raises-exception"
"""Jupyter's tag of a cell that may fail: nbclient, nbval and JupyterLab's Run All continue after it. papermill fails at its end."""


_NOT_CODE = (SyntaxError, ValueError, RecursionError, MemoryError)


@dataclass(frozen=True)
class _PythonCall:
    """A recorded call that ran Python. `bound`: the variables that it bound or deleted. `failed`: it ended in an exception.

    `timeout`: its limit in seconds, None for no limit.
    """

    code: str
    bound: tuple[str, ...]
    failed: bool
    timeout: int | None = None


@dataclass(frozen=True)
class BindingCode:
    """The code of one cell that binds variables: that of several calls, unless code failed or cannot follow other code."""

    calls: tuple[_PythonCall, ...]

    @property
    def code(self) -> str:
        """Return the code as the agent wrote it."""
        return "\n\n".join(call.code for call in self.calls)

    @property
    def failed(self) -> bool:
        """Whether the code ended in an exception when the agent ran it."""
        return self.calls[-1].failed

    @property
    def may_fail(self) -> bool:
        """Whether `source` fails too: the code failed, and does not compile."""
        return self.failed and catching_errors(self.code) is None

    @property
    def source(self) -> str:
        """Return the code to run. Code that failed is wrapped to catch its error where possible (`catching_errors`)."""
        return (catching_errors(self.code) if self.failed else None) or self.code

    @property
    def bound(self) -> tuple[str, ...]:
        """Return the names of the variables that the code bound or deleted, each once."""
        return tuple(dict.fromkeys(name for call in self.calls for name in call.bound))

    @property
    def timeout(self) -> int | None:
        """Return the limit in seconds for all of the code; None for no limit."""
        limits = [call.timeout for call in self.calls if call.bound]
        known = [limit for limit in limits if limit is not None]
        return sum(known) if known and len(known) == len(limits) else None


def is_binding_cell(nb: Any, cell: Any) -> bool:
    """Return whether saving generated this cell and will generate it again. A prompt is never one, whatever its tags."""
    tags = cell["metadata"].get("tags")
    return (
        cell["cell_type"] == "code" and isinstance(tags, list) and BINDING_TAG in tags and prompt_key(nb, cell) is None
    )


def remove_binding_cells(nb: Any) -> None:
    """Remove the cells that `add_binding_cells` generates."""
    nb["cells"] = [cell for cell in nb["cells"] if not is_binding_cell(nb, cell)]


def add_binding_cells(nb: Any, held: Mapping[int, Sequence[SessionRecord]], folder: str) -> None:
    """Add, directly after each cell whose last run bound variables, a cell with that code. `held`: records by the cell's index.

    `folder`: the workspace, relative to the notebook's folder.
    """
    imports: dict[str, str] = {}
    new: dict[int, list[Any]] = {}
    for index in sorted(held):
        key = conversation_key(nb, nb["cells"][index])
        run = last_run(held[index], key) if key is not None else ()
        for turn in (record for record in run if isinstance(record, TurnRecord)):
            for number, part in enumerate(binding_code(turn, folder, imports)):
                cell_id = f"{_binding_cell_id(turn)}-{number}" if number else _binding_cell_id(turn)
                new.setdefault(index, []).append(_cell(nb, part, cell_id))
    for index in sorted(new, reverse=True):
        nb["cells"][index + 1 : index + 1] = new[index]


def _binding_cell_id(turn: TurnRecord) -> str:
    """Return the id of the first cell that `add_binding_cells` makes for `turn`."""
    return f"bound-{turn.id[:8]}"


def has_binding_cell(nb: Any, turn: TurnRecord, folder: str) -> bool:
    """Whether `nb` has a binding cell for `turn`, found by its id, else by its code."""
    own_id = re.compile(rf"{re.escape(_binding_cell_id(turn))}(-\d+)?")
    codes = [f"\n{BindingCode((ran,)).source}\n" for ran in _python_calls(turn, folder) if ran.bound]
    return any(
        own_id.fullmatch(str(cell.get("id"))) is not None or any(code in f"\n{cell['source']}\n" for code in codes)
        for cell in nb["cells"]
        if is_binding_cell(nb, cell)
    )


def binding_code(turn: TurnRecord, folder: str, imports: dict[str, str]) -> list[BindingCode]:
    """Return the code of `turn` that bound variables, one item per cell. `folder`: the workspace, relative to the notebook's.

    `imports`: import statements of earlier code that bound no variable, by the name that each binds. Those that the code
    needs are added to it, and removed from `imports`.
    """
    parts: list[BindingCode] = []
    for ran in _binding(turn, folder, imports):
        longer = BindingCode((*parts[-1].calls, ran)) if parts and not (ran.failed or parts[-1].failed) else None
        if longer is not None and _tree(longer.code):
            parts[-1] = longer
        else:
            parts.append(BindingCode((ran,)))
    return parts


def collect_imports(turns: Iterable[TurnRecord], folder: str) -> dict[str, str]:
    """Return the import statements of all code that these turns ran, by the name that each binds."""
    found: dict[str, str] = {}
    for turn in turns:
        for ran in _python_calls(turn, folder):
            found.update(_imports(ran.code))
    return found


def _binding(turn: TurnRecord, folder: str, imports: dict[str, str]) -> Iterator[_PythonCall]:
    """Yield the code that bound variables, preceded by the imports that it needs from other code.

    `imports`: those statements by the name that they bind; modules do not count as variables. Updated in place.
    """
    for ran in _python_calls(turn, folder):
        if not ran.bound:
            imports.update(_imports(ran.code))
            continue
        spoken_of = set(re.findall(r"\w+", ran.code)) - _imports(ran.code).keys()
        needed = dict.fromkeys(imports.pop(name) for name in list(imports) if name in spoken_of)
        if needed:
            yield _PythonCall("\n".join(needed), (), failed=False)
        yield ran


def _python_calls(turn: TurnRecord, folder: str) -> Iterator[_PythonCall]:
    for call in turn.calls:
        arguments = _arguments(call) if call.name == PYTHON and call.status == "ok" else {}
        code, timeout = arguments.get("code"), arguments.get("timeout")
        if isinstance(code, str) and code:
            here = code.replace(WORKSPACE, folder) if folder else code
            bound = () if call.is_repeated else call.bound
            limit = timeout if type(timeout) is int and timeout > 0 else None
            yield _PythonCall(_without_prompts(here).strip("\n"), bound, failed=bool(call.exit), timeout=limit)


def _arguments(call: RecordedCall) -> dict[str, Any]:
    """Return the call's arguments, {} when the record lacks them."""
    with suppress(ValueError, RecursionError):
        arguments = json.loads(call.arguments if call.edited_arguments is None else call.edited_arguments)
        if isinstance(arguments, dict):
            return arguments
    return {}


def _without_prompts(code: str) -> str:
    """Return `code` without common indentation and pasted prompts, so that other code can precede it."""
    if _tree(code) is None:
        from IPython.core.inputtransformer2 import TransformerManager  # noqa: PLC0415  (rarely used)

        with suppress(*_NOT_CODE):
            return str(TransformerManager().transform_cell(code))
    return code


def _imports(code: str) -> dict[str, str]:
    tree = _tree(code)
    found = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)] if tree else []
    return {alias.asname or alias.name.partition(".")[0]: ast.unparse(node) for node in found for alias in node.names}


def _tree(code: str) -> ast.Module | None:
    """Parse the code; None when it does not compile (for example a `from __future__` import that is not first)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the code's own warnings were shown when it ran
        with suppress(*_NOT_CODE):
            compile(code, "<agent>", "exec", dont_inherit=True)
            return ast.parse(code)
    return None


def catching_errors(code: str) -> str | None:
    """Wrap code that failed so that it prints its error and ends normally: papermill has no tag for cells that may fail.

    Return None for code that cannot be wrapped, such as code that does not compile. The wrapper binds no names of its own.
    """
    tree = _tree(code)
    if tree is None:
        return None
    lines = code.split("\n")
    first = [
        n for node in tree.body if _is_future(node) for n in range(node.lineno - 1, node.end_lineno or node.lineno)
    ]
    inside = {n for node in ast.walk(tree) if _is_text(node) for n in range(node.lineno, node.end_lineno or 0)}
    body = [
        line if number in inside or not line.strip() else f"    {line}"
        for number, line in enumerate(lines)
        if number not in first
    ]
    made = "\n".join([*(lines[n] for n in first), "try:", *body, *_CAUGHT])
    same = _tree(made)
    wrapped = next((node for node in same.body if isinstance(node, ast.Try)), None) if same else None
    rest = [node for node in tree.body if not _is_future(node)]
    whole = wrapped is not None and list(map(ast.dump, wrapped.body)) == list(map(ast.dump, rest))
    return made if whole else None


_CAUGHT = (
    "except (Exception, SystemExit):  # as it did then",
    '    __import__("traceback").print_exc(limit=0)',
)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _is_text(node: ast.AST) -> TypeGuard[ast.expr]:
    """Whether the node is a string, whose continuation lines must not be indented: that would change it."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _shortened(bound: Sequence[str]) -> list[str]:
    """Return the names that fit on a line, and the number of the others."""
    more = len(bound) - MOST_NAMES
    return [*bound[:MOST_NAMES], *([f"{more} more"] if more > 0 else [])]


def _cell(nb: Any, part: BindingCode, cell_id: str) -> Any:
    """Make the cell, without outputs: the turn's cards show them already, so nbval has nothing to compare."""
    from nbformat.v4 import new_code_cell  # noqa: PLC0415  (first use)

    names = ", ".join(dict.fromkeys(name for call in part.calls for name in _shortened(call.bound)))
    head = f"{BINDING_HEADER}{', and it failed' if part.failed else ''}{f'; it bound: {names}' if names else ''}"
    lines = ["%%python"] if is_kin_kernel(nb) else []
    tags = [BINDING_TAG, IGNORE_OUTPUT_TAG, *([RAISES_TAG] if part.may_fail else [])]
    cell = new_code_cell("\n".join([*lines, head, part.source]), id=cell_id, metadata={"tags": tags})
    cell["execution_count"] = 1  # nbval runs it anyway, but treats a cell without a count as never run
    return cell
