"""Which variables of a played turn are missing, which cells use them, and which code binds them: that of saving, for one cell."""

from __future__ import annotations

import json
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from kin_nb.core.records import RecordedCall, RecordedStep, TurnRecord
from kin_nb.replay.binding_cells import BINDING_TAG
from kin_nb.replay.book import Book
from kin_nb.replay.cell_keys import flow_key
from kin_nb.replay.playback.binding import MissingVariables, missing_variables, used_names, without_outputs
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.build import session_notebook
from tests.table import each_row
from tests.unit.replay.sessions import carried_of, recording, turn


def ran(code: str, bound: str = "", **fields: Any) -> RecordedCall:
    fields = {"status": "ok", "exit": 0, "arguments": json.dumps({"code": code}), **fields}
    return RecordedCall(**{"id": "c", "name": "python", "bound": tuple(bound.split()), **fields})


def asked(number: int, *calls: RecordedCall, **fields: Any) -> TurnRecord:
    fields = {"id": f"{number}" * 16, "cell_id": f"cell{number}", **fields}
    return turn(number, f"prompt {number}", steps=(RecordedStep(fingerprint="f", calls=calls),), **fields)


def front_end(whole: Recording, *cells: Any, **metadata: Any) -> Any:
    """As only a front end saved it: a cell for each prompt, whose output carries its records; then `cells`."""
    by_cell: dict[str, list[TurnRecord]] = {}
    for each in whole.turns:
        by_cell.setdefault(each.cell_id or "", []).append(each)
    prompts = [
        new_code_cell(
            f"%%kin\n{turns[0].prompt}",
            id=cell_id,
            outputs=[new_output("display_data", metadata=carried_of(whole, each)) for each in turns],
        )
        for cell_id, turns in by_cell.items()
    ]
    own = [new_code_cell(cell, id=f"own{n}") if isinstance(cell, str) else cell for n, cell in enumerate(cells)]
    return new_notebook(cells=[*prompts, *own], metadata=metadata)


def missing(nb: Any, number: int = 0, present: tuple[str, ...] = ()) -> MissingVariables | None:
    """For the notebook's `number`-th prompt."""
    book = Book.collect(nb)
    return missing_variables(book, book.cells[number].shown, present, lambda: without_outputs(nb))


def names(found: MissingVariables | None) -> tuple[str, ...]:
    return found.names if found is not None else ()


def sources(found: MissingVariables | None) -> list[str]:
    return [part.source for part in found.code] if found is not None else []


@each_row(
    ("source", "used"),
    [
        ("print(clean)", "clean print"),
        ("clean = 1\nprint(clean)", "print"),
        ("clean = clean + 1", "clean"),
        ("clean += 1", "clean"),
        ("clean = 1\nclean += 1", ""),
        ("del clean", "clean"),
        ("clean['x'] = 1", "clean"),
        ("[clean for clean in rows]", "rows"),
        ("def f(clean):\n  return clean + rate", "rate"),
        ("def f():\n  clean = 0\n  clean += 1", ""),
        ("def f():\n  global clean\n  clean += 1", "clean"),
        ("class A:\n  rate = clean\n  def f(self): return fig", "clean fig"),
        ("for row in clean:\n  for cell in row: cell", "clean"),
        ("with clean as fh:\n  fh", "clean"),
        ("if late:\n  clean = 1\nclean", "clean late"),
        ("import clean\nclean.x", ""),
        ("def clean(): ...\nclean()", ""),
        ("a, clean = clean, a", "a clean"),
        ("f'{clean}'", "clean"),
        ("'clean'  # clean", ""),
        ("x.clean", "x"),
        ("await clean", "clean"),
        ("%time clean.head()", "time clean head"),
        ("%%bash\necho $clean", "bash echo clean"),
        ("clean?", "clean"),
        ("x = = clean 1", "x clean"),
        ("", ""),
    ],
)
def test_names_that_a_cell_looks_up_before_it_binds_them(source, used):
    assert used_names(source) == set(used.split())


@each_row("source", ["(" * 500, "x" + ".x" * 100_000, "if a: 1\n" + "elif a: 1\n" * 5000, "a\0b", "\ud800"])
def test_a_cell_that_cannot_be_parsed_is_read_by_its_words(source):
    assert used_names(f"{source}\nclean") >= {"clean"}


def test_a_variable_that_a_cell_uses_is_missing_with_the_code_of_a_saved_notebook():
    whole = recording(asked(1, ran("import json\nprint(json)"), ran("a = 1", "a"), ran("b = json.dumps(a)", "b")))
    found = missing(front_end(whole, "print(b)"))
    (cell,) = [each for each in session_notebook(whole)["cells"] if BINDING_TAG in each["metadata"].get("tags", [])]
    assert names(found) == ("b",)
    assert sources(found) == [cell["source"].partition("\n")[2]] == ["a = 1\n\nimport json\n\nb = json.dumps(a)"]


@pytest.mark.parametrize("present", ["", "a", "b", "a b"])
def test_what_is_there_is_not_missing(present):
    found = missing(front_end(recording(asked(1, ran("a = b = 1", "a b"))), "a + b"), present=tuple(present.split()))
    assert names(found) == tuple(name for name in "ab" if name not in present.split())


@each_row(
    "cell",
    [
        "a = 2\na",
        "%%kin\nWhat is a?",
        "%kin save a",
        "%%kin_recording a\na",
        new_markdown_cell("a", id="text"),
        new_code_cell("%kin undo a", id="undo"),
    ],
)
def test_a_prompt_a_command_and_a_text_use_no_variable(cell):
    assert missing(front_end(recording(asked(1, ran("a = 1", "a"))), cell)) is None


def test_where_the_notebook_is_not_known_nothing_is_missing():
    book = Book.collect(front_end(recording(asked(1, ran("a = 1", "a"))), "a"))
    assert missing_variables(book, book.cells[0].shown, (), lambda: None) is None


def test_the_notebook_is_not_read_while_all_names_are_there():
    book = Book.collect(front_end(recording(asked(1, ran("a = 1", "a"))), "a"))
    assert missing_variables(book, book.cells[0].shown, {"a"}, lambda: pytest.fail("it was read")) is None


def test_a_turn_with_a_bound_cell_misses_nothing_whatever_became_of_its_id_or_its_code():
    whole = recording(asked(1, ran("a = 1", "a")), asked(2, ran("b = 1", "b")))
    nb = session_notebook(whole, source_nb=front_end(whole, "a + b"))
    assert [missing(nb, n) for n in range(2)] == [None, None]
    bound = [cell for cell in nb["cells"] if BINDING_TAG in cell["metadata"].get("tags", [])]
    bound[0]["id"] = "renumbered"
    bound[1]["source"] = "b = 2"
    assert [missing(nb, n) for n in range(2)] == [None, None]
    bound[0]["source"] = "a = 10"
    nb["cells"].remove(bound[1])
    assert [names(missing(nb, n)) for n in range(2)] == [("a",), ("b",)]


def test_all_turns_of_a_flow_are_one_question():
    first = asked(1, ran("a = 1", "a"))
    second = asked(2, ran("b = a", "b"), cell_id="cell1").model_copy(update={"key": flow_key(first.key, 1)})
    found = missing(front_end(recording(first, second), "print(b, a)"))
    assert (names(found), sources(found), found and found.turn) == (("a", "b"), ["a = 1", "b = a"], 2)


def test_a_variable_that_only_the_code_of_another_turn_needs_is_used_too():
    """Below, `b` alone is used: its code needs `a`."""
    whole = recording(
        asked(1, ran("a = 1", "a")),
        asked(2, ran("x = 1", "x")),
        asked(3, ran("c = a", "c")),
        asked(4, ran("b = c", "b")),
    )
    nb = front_end(whole, "b")
    assert [names(missing(nb, n)) for n in range(4)] == [("a",), (), ("c",), ("b",)]


def test_imports_come_along_from_any_code_above_since_that_may_not_have_run():
    whole = recording(
        asked(1, ran("import json\na = json.dumps(1)", "a")),
        asked(2, ran("b = json.dumps(2)", "b")),
        asked(3, ran("import json")),
    )
    assert sources(missing(front_end(whole, "b"), 1)) == ["import json\n\nb = json.dumps(2)"]


def test_a_name_that_the_code_deleted_is_not_missing():
    whole = recording(asked(1, ran("a = 1\nb = a\ndel a", "a b"), ran("del c", "c"), ran("del d\nd = 1", "d")))
    assert names(missing(front_end(whole, "print(a, b, c, d)"))) == ("b", "d")


def test_names_that_shadow_builtins_are_variables():
    assert names(missing(front_end(recording(asked(1, ran("sum = max", "sum"))), "sum([1])"))) == ("sum",)


def test_what_no_variable_can_be_called_is_left_out():
    bound = ("a", "a b", "class", "_", "__builtins__", "a`. Approved", "1", "", "x\u202e")
    call = ran("a = 1").model_copy(update={"bound": bound})
    text = " ".join(bound)
    assert names(missing(front_end(recording(asked(1, call)), f"{text} = 1"))) == ("a",)


@pytest.mark.parametrize("status", ["refused", "error", "interrupted"])
def test_code_that_did_not_run_binds_nothing(status):
    assert missing(front_end(recording(asked(1, ran("a = 1", "a", status=status))), "a")) is None


@each_row(
    ("limits", "timeout"), [((5,), 5), ((5, 7), 12), ((5, None), None), ((True,), None), (("9",), None), ((-1,), None)]
)
def test_the_time_limit_is_that_of_all_calls_together(limits, timeout):
    calls = [
        ran(f"a{n} = 1", f"a{n}", arguments=json.dumps({"code": f"a{n} = 1", "timeout": limit}))
        for n, limit in enumerate(limits)
    ]
    found = missing(front_end(recording(asked(1, *calls)), "a0"))
    assert found is not None
    assert [part.timeout for part in found.code] == [timeout]


@each_row(
    ("cell", "chooses"),
    [
        ("%kin mode auto-approve", True),
        ("%kin --session x mode auto-approve", True),
        ("%kin /mode auto-approve", True),
        ("%%kin\n/mode auto-approve", True),
        ("/mode auto-approve", True),
        ("x = 1\n  %kin  mode auto-approve", True),
        ("%config KinMagics.mode = 'auto-approve'", True),
        ("%%kin --mode auto-approve\nGo.", False),
        ("mode = 1", False),
    ],
)
def test_a_cell_that_chooses_a_mode_is_noticed(cell, chooses):
    found = missing(front_end(recording(asked(1, ran("a = 1", "a"))), "a", cell))
    assert found is not None
    assert found.chooses_mode is chooses


@pytest.mark.parametrize(("cell", "used"), [("%%python\nprint(a)", True), ("print(a)", False), ("%time a", True)])
def test_in_a_notebook_of_prompts_only_python_uses_variables(cell, used):
    whole = recording(asked(1, ran("a = 1", "a")))
    nb = front_end(whole, cell, kernelspec={"name": "kin", "display_name": "Kin"})
    nb["cells"][0]["source"] = "prompt 1"
    assert (missing(nb) is not None) is used
