"""Cells with the code that the agent ran in the notebook: in playback nothing else binds what later cells use."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeGuard

from kin_nb.core.safety.secrets import WORKSPACE
from kin_nb.core.session.records import MOST_NAMES, RecordedCall, SessionRecord, TurnRecord
from kin_nb.render.summary import PYTHON
from kin_nb.replay.cells.matching import last_run
from kin_nb.replay.cells.placing import asked_key, is_kin_kernel, speaking_key

BOUND = "kin-bound"
IGNORED = "nbval-ignore-output"
HEAD = "# What the agent ran here"
"""How such a cell begins, for where tags are not known."""
RAISES = "raises-exception"
"""Jupyter's tag of a cell that may fail: nbclient, nbval and JupyterLab's Run All go past it. papermill fails at its end."""
_NO_CODE = (SyntaxError, ValueError, RecursionError, MemoryError)


@dataclass(frozen=True)
class _Ran:
    """`bound`: the names of the variables that it bound or deleted. `failed`: it ended in an exception."""

    code: str
    bound: tuple[str, ...]
    failed: bool


def is_bound_cell(nb: Any, cell: Any) -> bool:
    """Whether saving made this cell, and will make it anew. A prompt never is one, whatever its tags say."""
    tags = cell["metadata"].get("tags")
    return cell["cell_type"] == "code" and isinstance(tags, list) and BOUND in tags and asked_key(nb, cell) is None


def drop_bound_cells(nb: Any) -> None:
    """`put_bound_cells` makes them anew."""
    nb["cells"] = [cell for cell in nb["cells"] if not is_bound_cell(nb, cell)]


def put_bound_cells(nb: Any, held: Mapping[int, Sequence[SessionRecord]], folder: str) -> None:
    """Directly after a cell whose last run bound variables: that code. `held`: by index, the records of a cell.

    `folder`: the workspace's, from the notebook's.
    """
    imports: dict[str, str] = {}
    new: dict[int, list[Any]] = {}
    for index in sorted(held):
        key = speaking_key(nb, nb["cells"][index])
        run = last_run(held[index], key) if key is not None else ()
        for turn in (record for record in run if isinstance(record, TurnRecord)):
            for number, part in enumerate(_parts(turn, folder, imports)):
                cell_id = f"bound-{turn.id[:8]}-{number}" if number else f"bound-{turn.id[:8]}"
                new.setdefault(index, []).append(_cell(nb, part, cell_id))
    for index in sorted(new, reverse=True):
        nb["cells"][index + 1 : index + 1] = new[index]


def _parts(turn: TurnRecord, folder: str, imports: dict[str, str]) -> list[list[_Ran]]:
    """What bound variables, by cell: one, unless code failed or cannot follow what came before it."""
    parts: list[list[_Ran]] = []
    for ran in _binding(turn, folder, imports):
        follows = parts and not ran.failed and not parts[-1][-1].failed
        if not (follows and _tree(_joined([*parts[-1], ran]))):
            parts.append([])
        parts[-1].append(ran)
    return parts


def _binding(turn: TurnRecord, folder: str, imports: dict[str, str]) -> Iterator[_Ran]:
    """The code that bound variables, each after the imports that it needs from code that did not.

    `imports`: those statements by the name that they bind; a module counts as no variable. Kept up to date.
    """
    for ran in _python_calls(turn, folder):
        if not ran.bound:
            imports.update(_imports(ran.code))
            continue
        spoken_of = set(re.findall(r"\w+", ran.code)) - _imports(ran.code).keys()
        needed = dict.fromkeys(imports.pop(name) for name in list(imports) if name in spoken_of)
        if needed:
            yield _Ran("\n".join(needed), (), failed=False)
        yield ran


def _python_calls(turn: TurnRecord, folder: str) -> Iterator[_Ran]:
    for call in turn.calls:
        code = _code(call) if call.name == PYTHON and call.status == "ok" else ""
        if code:
            here = code.replace(WORKSPACE, folder) if folder else code
            bound = () if call.is_repeated else call.bound
            yield _Ran(_plain(here).strip("\n"), bound, failed=bool(call.exit))


def _code(call: RecordedCall) -> str:
    """What ran, "" when the record does not say."""
    with suppress(ValueError, RecursionError):
        arguments = json.loads(call.arguments if call.edited_arguments is None else call.edited_arguments)
        if isinstance(arguments, dict) and isinstance(arguments.get("code"), str):
            return str(arguments["code"])
    return ""


def _plain(code: str) -> str:
    """`code` that other code can stand before: the tool, as IPython, takes it indented as a whole, and with prompts."""
    if _tree(code) is None:
        from IPython.core.inputtransformer2 import TransformerManager  # noqa: PLC0415  (rarely used)

        with suppress(*_NO_CODE):
            return str(TransformerManager().transform_cell(code))
    return code


def _imports(code: str) -> dict[str, str]:
    tree = _tree(code)
    found = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)] if tree else []
    return {alias.asname or alias.name.partition(".")[0]: ast.unparse(node) for node in found for alias in node.names}


def _tree(code: str) -> ast.Module | None:
    """None for what does not compile: `from __future__` imports must come first, for one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the code's own: it was told of them when it ran
        with suppress(*_NO_CODE):
            compile(code, "<agent>", "exec", dont_inherit=True)
            return ast.parse(code)
    return None


def _joined(part: list[_Ran]) -> str:
    return "\n\n".join(ran.code for ran in part)


def tolerant(code: str) -> str | None:
    """`code`, which failed when it ran, as code that prints the error and ends: papermill knows no tag for what may fail.

    None where that cannot be: code that does not compile. What it binds stays bound, and no other name is.
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
    """A string, whose further lines are not indented: that would change it."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _named(bound: Sequence[str]) -> list[str]:
    """Each name, and how many more there are than a line should have."""
    more = len(bound) - MOST_NAMES
    return [*bound[:MOST_NAMES], *([f"{more} more"] if more > 0 else [])]


def _cell(nb: Any, part: list[_Ran], cell_id: str) -> Any:
    """What it shows is in the turn's cards already, so nothing is kept of that, and nbval compares nothing."""
    from nbformat.v4 import new_code_cell  # noqa: PLC0415  (first use)

    code, failed = _joined(part), part[-1].failed
    caught = tolerant(code) if failed else None
    names = ", ".join(dict.fromkeys(name for ran in part for name in _named(ran.bound)))
    head = f"{HEAD}{', and it failed' if failed else ''}{f'; it bound: {names}' if names else ''}"
    lines = ["%%python"] if is_kin_kernel(nb) else []
    tags = [BOUND, IGNORED, *([RAISES] if failed and caught is None else [])]
    cell = new_code_cell("\n".join([*lines, head, caught or code]), id=cell_id, metadata={"tags": tags})
    cell["execution_count"] = 1  # nbval runs it anyway, but takes a cell without for one that was never run
    return cell
