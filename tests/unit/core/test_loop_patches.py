"""Patches in the detection of loops: those of other files are other work."""

from __future__ import annotations

import json

from kin_nb.core.context.call_signatures import CallSignature
from kin_nb.core.context.loop_detector import LoopDetector

FAILED = "{name}: its lines are not in the file.\nNo similar lines were found. Read the file again."


def patch(name: str) -> str:
    change = "-from old.module import helper\n+from new.module import helper"
    return f"*** Begin Patch\n*** Update File: {name}\n@@\n{change}\n*** End Patch"


def loops(names: list[str]) -> list[str]:
    """The kinds of loops that are reported when the same change of these files fails."""
    detector = LoopDetector()
    calls = [("apply_patch", json.dumps({"patch": patch(name)}), FAILED.format(name=name)) for name in names]
    return [loop.kind for call in calls if (loop := detector.observe(*call, ok=False))]


def test_the_same_change_of_many_files_is_no_loop():
    assert loops([f"src/package/module_{n}.py" for n in range(12)]) == []


def test_the_same_change_of_one_file_is_a_loop():
    assert loops(["src/package/module_1.py"] * 3) == ["exact"]


def test_its_targets_are_all_its_files():
    text = (
        "*** Begin Patch\n*** Update File: a.py\n*** Move to:  b c.py \n-x\n+*** Add File: no\n*** Add File: d\n+1\n"
        "*** Delete File: e\n*** End Patch"
    )
    signature = CallSignature("apply_patch", json.dumps({"patch": text}), "", ok=True)
    assert signature.targets == {"a.py", "b c.py", "d", "e"}
