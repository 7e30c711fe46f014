"""One way to say that two notebooks show the same."""

from __future__ import annotations

from typing import Any


def assert_same_notebook(executed: Any, stored: Any) -> None:
    """Every cell of `executed` is the one in `stored`, and shows what is stored, its `kin` metadata included.

    What a runner adds of its own (papermill's times, its parameters) is left out.
    """
    assert [cell["source"] for cell in executed["cells"]] == [cell["source"] for cell in stored["cells"]]
    for number, (now, before) in enumerate(zip(executed["cells"], stored["cells"], strict=True), 1):
        if before["cell_type"] == "code":
            assert _outputs(now) == _outputs(before), f"cell {number}"
            assert now["execution_count"] == before["execution_count"], f"cell {number}"
        assert now["metadata"].get("kin") == before["metadata"].get("kin"), f"cell {number}"
    assert executed["metadata"].get("kin") == stored["metadata"].get("kin")


def _outputs(cell: Any) -> list[tuple[Any, ...]]:
    return [
        (output["output_type"], output.get("data"), output.get("text"), output.get("metadata", {}).get("kin"))
        for output in cell["outputs"]
    ]
