"""A call that the user edits before it runs: the parts of its change, the arguments that run instead, what the model is told.

The parts are the hunks of the diff that the user sees, counted from 0.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection
from typing import Any

from kin_nb.core.redaction import WORKSPACE
from kin_nb.core.tool_types import Preview, ToolError
from kin_nb.core.tools.builtins.text_file import split_lines, unified_diff
from kin_nb.core.tools.resolve import ResolvedToolCall

_HUNK = re.compile(r"^(?=@@ )", re.MULTILINE)
_Group = list[tuple[str, int, int, int, int]]


def split_patch(patch: str) -> tuple[str, list[str]]:
    """The lines that name the file, and each hunk of a unified diff of that one file, from its `@@` line on."""
    header, *parts = _HUNK.split(patch)  # a line of the file begins with its mark, so with no `@@`
    return header, parts


def with_hunks(before: str, after: str, chosen: Collection[int]) -> str:
    """`before` with the chosen hunks of its change to `after`: all of them give `after`, none `before`, to the byte.

    Where lines differ in their endings alone, which no diff shows, `before` is kept unless all are chosen.
    Raises ValueError for a hunk that there is not.
    """
    old, new = split_lines(before), split_lines(after)
    groups = _groups(old, new)
    if wrong := sorted(set(chosen) - set(range(len(groups)))):
        raise ValueError(f"there is no part {wrong[0] + 1} of {len(groups)}")
    if len(set(chosen)) == len(groups):
        return after if groups else before
    pieces: list[str] = []
    position = 0
    for number, group in enumerate(groups):
        start, end = group[0][1], group[-1][2]
        pieces += old[position:start]
        pieces += _taken(old, new, group) if number in chosen else old[start:end]
        position = end
    return "".join([*pieces, *old[position:]])


def _taken(old: list[str], new: list[str], group: _Group) -> list[str]:
    return [line for tag, i1, i2, j1, j2 in group for line in (old[i1:i2] if tag == "equal" else new[j1:j2])]


def _groups(old: list[str], new: list[str]) -> list[_Group]:
    """As difflib.unified_diff draws them from lines that all end in LF (text_file.unified_diff)."""
    left, right = ([line.replace("\r\n", "\n") for line in lines] for lines in (old, new))
    return [list(group) for group in difflib.SequenceMatcher(None, left, right).get_grouped_opcodes(3)]


LONGEST = 2_000
"""Characters of what ran instead that the model is told."""


def editable(call: ResolvedToolCall) -> str:
    """The argument that a person may edit, "" when there is none. The tool is anybody's: it may name what is no text."""
    name: Any = call.tool.editable
    return name if isinstance(name, str) and isinstance(getattr(call.args, name, None), str) else ""


def chosen_args(call: ResolvedToolCall, preview: Preview, hunks: tuple[int, ...]) -> dict[str, Any] | None:
    """Arguments for the change that `preview` shows with only those hunks; None when they are all of it.

    Raises ToolError where the tool cannot say that, or there are no such hunks.
    """
    if preview.texts is None:
        raise ToolError("parts of it were approved, and it has none")
    before, after = preview.texts
    try:
        wanted = with_hunks(before, after, hunks)
    except ValueError as error:
        raise ToolError(f"parts of it were approved, but {error}") from error
    if wanted == after:
        return None
    args = call.tool.with_text(call.args, before, wanted)
    if args is None:
        raise ToolError("it cannot make only the parts that were approved")
    return args


def told(
    asked: ResolvedToolCall,
    ran: ResolvedToolCall,
    previews: tuple[Preview, Preview],
    *,
    redact: Callable[[str], str],
    root: str,
) -> str:
    """What the result begins with. `previews`: of `asked` and `ran`; `redact`: as the record is redacted; `root`: the
    workspace. The same calls in the same files give the same text, wherever they run again.
    """
    text = _ran_as(asked, ran, previews)
    recorded = redact(text)
    if len(recorded) > LONGEST:  # cut as it is recorded: half a secret is not recognised, and folders differ in length
        text = f"{recorded[:LONGEST].replace(WORKSPACE, root)}… [{len(recorded) - LONGEST:,} more characters]"
    return f"[The person edited this call before it ran. It ran as: {text}]"


def _ran_as(asked: ResolvedToolCall, ran: ResolvedToolCall, previews: tuple[Preview, Preview]) -> str:
    """Of a change to a file, what differs from the change that was asked for; else the argument that was edited, or all."""
    was, now = (preview.texts for preview in previews)
    if was and now and was[0] == now[0] and asked.request.write_paths == ran.request.write_paths:
        _, parts = split_patch(unified_diff("", was[1], now[1]))
        if parts:
            return f"your change, but for this:\n{''.join(parts)}".removesuffix("\n")
    before, after = (call.args.model_dump(mode="json", exclude_none=True) for call in (asked, ran))
    differ = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    name = editable(ran)
    return str(after[name]) if differ == {name} else json.dumps(after, ensure_ascii=False)
