"""Calls that the user edits before they run: choose hunks, compute the new arguments, and describe the edit for the model.

Hunks are those of the diff that the user sees, counted from 0.
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
    """Split a unified diff of one file into its header and its hunks, each starting with its `@@` line."""
    header, *parts = _HUNK.split(patch)  # lines of the file start with a mark, so they cannot start with `@@`
    return header, parts


def with_hunks(before: str, after: str, chosen: Collection[int]) -> str:
    """Apply the chosen hunks of the change from `before` to `after`. All hunks give exactly `after`, none gives `before`.

    Lines that differ only in their line endings, which no diff shows, change only if all hunks are chosen.
    Raises ValueError for an unknown hunk.
    """
    old, new = split_lines(before), split_lines(after)
    groups = _groups(old, new)
    if wrong := sorted(set(chosen) - set(range(len(groups)))):
        raise ValueError(f"part {wrong[0] + 1} does not exist: the change has {len(groups)}")
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
    """Group changes as difflib.unified_diff does for lines that all end in LF (text_file.unified_diff)."""
    left, right = ([line.replace("\r\n", "\n") for line in lines] for lines in (old, new))
    return [list(group) for group in difflib.SequenceMatcher(None, left, right).get_grouped_opcodes(3)]


LONGEST = 2_000
"""Characters of the edited call in the note for the model."""


def editable(call: ResolvedToolCall) -> str:
    """The argument that the user may edit, "" for none. A custom tool may name an argument that is not text: "" too."""
    name: Any = call.tool.editable
    return name if isinstance(name, str) and isinstance(getattr(call.args, name, None), str) else ""


def chosen_args(call: ResolvedToolCall, preview: Preview, hunks: tuple[int, ...]) -> dict[str, Any] | None:
    """The arguments that apply only the given hunks of the previewed change; None if they are all of it.

    Raises ToolError if the tool cannot do that, or for an unknown hunk.
    """
    if preview.texts is None:
        raise ToolError("parts of it were approved, but it cannot be split into parts")
    before, after = preview.texts
    try:
        wanted = with_hunks(before, after, hunks)
    except ValueError as error:
        raise ToolError(f"parts of it were approved, but {error}") from error
    if wanted == after:
        return None
    args = call.tool.with_text(call.args, before, wanted)
    if args is None:
        raise ToolError("it cannot apply only the approved parts")
    return args


def edit_note(
    asked: ResolvedToolCall,
    ran: ResolvedToolCall,
    previews: tuple[Preview, Preview],
    *,
    redact: Callable[[str], str],
    root: str,
) -> str:
    """The note for the model at the beginning of an edited call's result.

    `previews`: those of `asked` and `ran`; `redact`: the redaction of the record; `root`: the workspace. The same calls with the
    same files give the same text in every workspace.
    """
    text = _ran_as(asked, ran, previews)
    recorded = redact(text)
    if (
        len(recorded) > LONGEST
    ):  # cut after redaction: half a secret is not recognized, and folder names differ in length
        text = f"{recorded[:LONGEST].replace(WORKSPACE, root)}… [{len(recorded) - LONGEST:,} more characters]"
    return f"[The user edited this call before it ran. It ran as: {text}]"


def _ran_as(asked: ResolvedToolCall, ran: ResolvedToolCall, previews: tuple[Preview, Preview]) -> str:
    """For a file change, the difference from the requested change; otherwise the edited argument, or all arguments."""
    was, now = (preview.texts for preview in previews)
    if was and now and was[0] == now[0] and asked.request.write_paths == ran.request.write_paths:
        _, parts = split_patch(unified_diff("", was[1], now[1]))
        if parts:
            return f"your change, with this difference:\n{''.join(parts)}".removesuffix("\n")
    before, after = (call.args.model_dump(mode="json", exclude_none=True) for call in (asked, ran))
    differ = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    name = editable(ran)
    return str(after[name]) if differ == {name} else json.dumps(after, ensure_ascii=False)
