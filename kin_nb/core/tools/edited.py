"""A call that a person changes before it runs: the arguments that run instead, and what the model is told of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kin_nb.core.redaction import WORKSPACE
from kin_nb.core.tool_types import Preview, ToolError
from kin_nb.core.tools.hunks import split_patch, with_hunks
from kin_nb.core.tools.resolve import ResolvedToolCall

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
        from kin_nb.core.tools.builtins.text_file import unified_diff  # noqa: PLC0415  (for a call that was edited)

        _, parts = split_patch(unified_diff("", was[1], now[1]))
        if parts:
            return f"your change, but for this:\n{''.join(parts)}".removesuffix("\n")
    before, after = (call.args.model_dump(mode="json", exclude_none=True) for call in (asked, ran))
    differ = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    name = editable(ran)
    return str(after[name]) if differ == {name} else json.dumps(after, ensure_ascii=False)
