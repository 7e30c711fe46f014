"""Hunks of random changes: each is applied exactly, or refused because it fits several places."""

from __future__ import annotations

import difflib
import random

from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.builtins.patch_format import parse_patch, patched
from kin_nb.core.tools.builtins.text_file import TextFile

WORDS = ["", "x", "y", "@@ a", "*** End Patch", "-minus", "+plus", " space", "\x0cform feed"]


def change(rng: random.Random) -> tuple[list[str], list[str]]:
    """The lines of a text, many of them alike, and what a few edits make of it."""
    old = [rng.choice([*WORDS, *[f"line {n}"] * len(WORDS)]) for n in range(rng.randrange(3, 40))]
    new = list(old)
    for _ in range(rng.randrange(1, 5)):
        place = rng.randrange(len(new) + 1)
        new[place : place + rng.randrange(3)] = [rng.choice(["new", *WORDS]) for _ in range(rng.randrange(3))]
    return old, new


def patch(old: list[str], new: list[str], context: int) -> str:
    lines = ["*** Begin Patch", "*** Update File: a"]
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(context):
        lines.append("@@")
        for tag, i1, i2, j1, j2 in group:
            kept = tag == "equal"
            lines += [f"{' ' if kept else '-'}{line}" for line in old[i1:i2]]
            lines += [] if kept else [f"+{line}" for line in new[j1:j2]]
    return "\n".join([*lines, "*** End Patch"])


def test_a_change_is_applied_exactly_or_refused():
    applied, refused = 0, []
    for seed in range(600):
        rng = random.Random(seed)
        old, new = change(rng)
        if old == new:
            continue
        newline, context = rng.choice(["\n", "\r\n"]), rng.choice([1, 3])
        before, after = ("".join(f"{line}{newline}" for line in lines) for lines in (old, new))
        (part,) = parse_patch(patch(old, new, context))
        try:
            result = patched(TextFile(before), part, "a")
        except ToolError as error:
            refused.append(str(error))
            continue
        assert result == after, seed
        applied += 1
    assert applied > 400
    assert refused
    assert [message for message in refused if "places for it" not in message] == []
