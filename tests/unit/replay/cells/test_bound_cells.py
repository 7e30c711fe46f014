"""The agent's code as cells: what bound variables stands below its turn, once, in an order in which it runs."""

from __future__ import annotations

import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from kin_nb.core.records import RecordedCall, RecordedDecision, RecordedStep
from kin_nb.replay.binding_cells import BINDING_TAG, catching_errors
from kin_nb.replay.cell_keys import flow_key
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import as_node
from kin_nb.replay.saving.build import ExecutedCell, session_notebook
from tests.table import each_row
from tests.unit.replay.sessions import recording, turn, undo

TAGS = [BINDING_TAG, "nbval-ignore-output"]


def ran(code: str, bound: str = "", **fields) -> RecordedCall:
    """A call of the tool; `bound`: names of variables, separated by blanks."""
    names = tuple(bound.split())
    fields = {"status": "ok", "exit": 0, "bound": names, "arguments": json.dumps({"code": code}), **fields}
    return RecordedCall(**{"id": "c", "name": "python", **fields})


def asked(number: int, *calls: RecordedCall, **fields):
    """Its id as a kernel makes it: no two begin alike."""
    fields = {"id": f"{number}" * 16, "cell_id": f"cell{number}", **fields}
    return turn(number, f"prompt {number}", steps=(RecordedStep(fingerprint="f", calls=calls),), **fields)


def saved(*calls: RecordedCall, **meta):
    return session_notebook(recording(asked(1, *calls), **meta))


def bound_sources(nb) -> list[str]:
    return [cell["source"] for cell in nb["cells"] if BINDING_TAG in cell["metadata"].get("tags", [])]


def code_of(nb) -> str:
    """The one such cell, its first line apart."""
    (source,) = bound_sources(nb)
    return source.partition("\n")[2]


def test_code_that_bound_variables_is_a_cell_below_its_turn():
    nb = session_notebook(
        recording(asked(1, ran("a = 1", "a"), ran("print(a)"), ran("b = a + 1\nb", "b")), asked(2, ran("print(b)")))
    )
    assert [cell["id"] for cell in nb["cells"]] == ["kin-replay", "cell1", "bound-11111111", "cell2"]
    cell = nb["cells"][2]
    assert cell["source"] == "# What the agent ran here; it bound: a, b\na = 1\n\nb = a + 1\nb"
    assert (cell["metadata"]["tags"], cell["outputs"]) == (TAGS, [])
    assert [cell["execution_count"] for cell in nb["cells"]] == [1, 2, 3, 4]
    nbformat.validate(nb)


@pytest.mark.parametrize("stored", [dict, as_node])
def test_saving_again_changes_nothing(stored):
    whole = recording(asked(1, ran("a = 1", "a")), asked(2, ran("b = 1", "b")))
    nb = session_notebook(whole)
    assert session_notebook(read_recording(nb), source_nb=stored(json.loads(json.dumps(nb)))) == nb


def test_a_cell_that_was_edited_or_has_lost_its_code_is_made_again():
    nb = saved(ran("a = 1", "a"))
    nb["cells"][-1]["source"] = "a = 2"
    assert code_of(session_notebook(read_recording(nb), source_nb=nb)) == "a = 1"


def test_a_cell_that_was_run_and_whose_tags_are_not_known_is_not_doubled():
    whole = recording(asked(1, ran("a = 1", "a")))
    nb = session_notebook(whole)
    cells = [ExecutedCell(cell["source"]) for cell in nb["cells"]]
    assert [cell["source"] for cell in session_notebook(whole, cells=cells)["cells"]] == [cell.source for cell in cells]


def test_a_prompt_is_never_taken_for_such_a_cell():
    own = new_code_cell("%%kin\nprompt 1", id="cell1", metadata={"tags": [BINDING_TAG]})
    nb = session_notebook(recording(asked(1)), source_nb=new_notebook(cells=[own]))
    assert [cell["source"] for cell in nb["cells"][1:]] == ["%%kin\nprompt 1"]


@pytest.mark.parametrize("tags", [None, "kin-bound", [1, None], {"kin-bound": 1}])
def test_tags_that_are_no_list_of_names_harm_nothing(tags):
    own = {"id": "own", "cell_type": "code", "source": "mine()", "metadata": {"tags": tags}}
    own |= {"outputs": [], "execution_count": None}
    nb = nbformat.from_dict({"cells": [own], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    assert "mine()" in [cell["source"] for cell in session_notebook(recording(asked(1)), source_nb=nb)["cells"]]


@each_row(
    "call",
    [
        ran("a = 1", "a", status="refused"),
        ran("a = 1", "a", status="interrupted"),
        ran("a = 1", "", uncovered="variables that it had changed when it was stopped"),
        ran("a = 1", "a").model_copy(update={"name": "bash"}),
        *(ran("", "a", arguments=text) for text in ("not json", "[1]", '{"code": 1}', "{}", "[" * 100_000)),
    ],
)
def test_what_did_not_run_here_or_cannot_be_told_has_no_cell(call):
    assert bound_sources(saved(call)) == []


def test_what_the_person_made_of_the_code_is_what_ran():
    assert code_of(saved(ran("a = 1", "a", edited_arguments='{"code": "a = 2"}'))) == "a = 2"


def test_many_names_are_counted_and_each_is_reported_once():
    names = [f"v{number}" for number in range(33)]
    nb = saved(ran("a = 1", " ".join(names), uncovered="big.bin is over 10 MB"), ran("a = 2", "v1 c"))
    said = ", ".join([*names[:30], "3 more", "c"])
    assert bound_sources(nb)[0].startswith(f"# What the agent ran here; it bound: {said}\n")


def test_what_else_a_call_changed_names_no_variable():
    assert bound_sources(saved(ran("a = 1", uncovered="not covered: notes; variables: a"))) == []


def test_a_call_that_was_run_once_for_two_is_one_cell():
    repeated = RecordedDecision(verdict="allow", by="identical", reason="the same call as c: run once")
    assert code_of(saved(ran("a = 1", "a"), ran("a = 1", "a", id="d", decision=repeated))) == "a = 1"


def test_an_import_that_stood_in_other_code_comes_along_when_its_name_is_used():
    first = asked(1, ran("import json\nimport os.path\nfrom textwrap import dedent as plain\nprint(os)"))
    nb = session_notebook(recording(first, asked(2, ran("a = json.loads(plain(' 1'))", "a"), ran("b = json", "b"))))
    assert code_of(nb) == (
        "import json\nfrom textwrap import dedent as plain\n\na = json.loads(plain(' 1'))\n\nb = json"
    )


def test_code_that_failed_has_a_cell_of_its_own_that_may_fail():
    nb = saved(ran("a = 1", "a"), ran("b = 1\n1 / 0", "b", exit=1), ran("c = b", "c"), ran("d = c", "d"))
    cells = nb["cells"][2:]
    assert [cell["source"] for cell in cells] == [
        "# What the agent ran here; it bound: a\na = 1",
        "# What the agent ran here, and it failed; it bound: b\n" + str(catching_errors("b = 1\n1 / 0")),
        "# What the agent ran here; it bound: c, d\nc = b\n\nd = c",
    ]
    assert [cell["metadata"]["tags"] for cell in cells] == [TAGS, TAGS, TAGS]
    assert len({cell["id"] for cell in nb["cells"]}) == len(nb["cells"])


def test_code_that_must_come_first_has_a_cell_of_its_own():
    future = "from __future__ import annotations\nb = json"
    nb = saved(ran("a = 1", "a"), ran("import json\nprint(json)"), ran(future, "b"), ran("c = 1", "c"))
    assert [source.partition("\n")[2] for source in bound_sources(nb)] == [
        "a = 1\n\nimport json",
        f"{future}\n\nc = 1",
    ]


def test_imports_alone_say_no_names():
    nb = saved(ran("import json\nprint(json)"), ran("from __future__ import annotations\nb = json", "b"))
    assert bound_sources(nb)[0] == "# What the agent ran here\nimport json"


@pytest.mark.parametrize("code", ["    a = 1\n    b = 2", ">>> a = 1\n>>> b = 2"])
def test_code_is_written_as_it_was_understood(code):
    assert code_of(saved(ran(code, "a, b"))) == "a = 1\nb = 2"


def test_a_warning_of_the_code_is_none_of_saving():
    assert code_of(saved(ran(r"a = '\d'", "a"))) == r"a = '\d'"


def test_the_workspace_is_where_it_is_seen_from_the_notebook():
    call = ran("a = open('{workspace}/a.txt').read()", "a")
    assert code_of(saved(call, workspace={"path": "work/here"})) == "a = open('work/here/a.txt').read()"
    assert "{workspace}" in code_of(saved(call))


def test_in_a_notebook_of_prompts_the_code_is_python():
    nb = new_notebook(metadata={"kernelspec": {"name": "kin", "display_name": "Kin"}})
    nb["cells"] = [new_code_cell("prompt 1", id="cell1")]
    whole = recording(asked(1, ran("a = 1", "a")))
    nb = session_notebook(whole, source_nb=nb)
    assert nb["cells"][-1]["source"] == "%%python\n# What the agent ran here; it bound: a\na = 1"
    assert session_notebook(whole, source_nb=nb) == nb


def test_undo_brings_no_variables_back_so_the_cell_stands_before_it():
    first = asked(1, ran("a = 1", "a"))
    undone = recording(first, undo(first), asked(2, seq=3))
    nb = session_notebook(undone)
    assert [cell["id"] for cell in nb["cells"]] == ["kin-replay", "cell1", "bound-11111111", "undo-2", "cell2"]
    assert session_notebook(undone, source_nb=nb) == nb


def test_of_a_cell_that_was_asked_again_only_what_it_shows_is_below_it():
    first = asked(1, ran("a = 1", "a"))
    room = undo(first, key=first.key, cell_id="cell1")
    again = asked(1, ran("a = 2", "a"), ran("b = 2", "b"), id="3" * 16, seq=3)
    nb = session_notebook(recording(first, room, again), cells=[ExecutedCell("%%kin\nprompt 1", "cell1")])
    assert [cell["id"] for cell in nb["cells"]] == ["kin-replay", "cell1", "bound-33333333"]
    assert code_of(nb) == "a = 2\n\nb = 2"
    assert session_notebook(read_recording(nb), source_nb=nb) == nb


def test_of_a_flow_each_turn_has_its_cell_in_order():
    first = asked(1, ran("a = 1", "a"))
    second = asked(2, ran("b = a", "b"), cell_id="cell1").model_copy(update={"key": flow_key(first.key, 1)})
    nb = session_notebook(
        recording(first, second), cells=[ExecutedCell("%%kin\nprompt 1", "cell1"), ExecutedCell("print(b)")]
    )
    assert [cell["id"] for cell in nb["cells"]] == [
        "kin-replay",
        "cell1",
        "bound-11111111",
        "bound-22222222",
        nb["cells"][-1]["id"],
    ]
    assert [source.partition("\n")[2] for source in bound_sources(nb)] == ["a = 1", "b = a"]


def test_two_turns_whose_ids_begin_alike_have_two_cells():
    alike = [asked(n, ran(f"a = {n}", "a"), id=f"{'5' * 15}{n}") for n in (1, 2)]
    nb = session_notebook(recording(*alike))
    assert [source.partition("\n")[2] for source in bound_sources(nb)] == ["a = 1", "a = 2"]
    assert len({cell["id"] for cell in nb["cells"]}) == len(nb["cells"])
    assert session_notebook(read_recording(nb), source_nb=nb) == nb


@each_row(
    ("code", "bound"),
    [
        ("x = 1\nraise ValueError('boom')", {"x": 1}),
        ('x = """a\n  b\n"""\n\n1 / 0', {"x": "a\n  b\n"}),
        ("error = 2\nraise SystemExit(3)", {"error": 2}),
        (
            "from __future__ import annotations\ndef f(a: nothing): ...\nx = f.__annotations__\n1 / 0",
            {"x": {"a": "nothing"}},
        ),
        ("y = 5\nx = f'''{y}\n{y}'''\n1 / 0", {"x": "5\n5"}),
        ("if True:\n\tx = 1\n\t1 / 0", {"x": 1}),
    ],
)
def test_code_that_failed_prints_the_error_and_binds_what_it_bound(code, bound, capsys):
    scope: dict = {}
    exec(catching_errors(code), scope)
    assert {name: scope[name] for name in bound} == bound
    assert capsys.readouterr().err.count("\n") == 1
    assert "error" not in scope or "error" in bound


@pytest.mark.parametrize("code", ["x = = 1", "await nothing()", "x = 1\n  y = 2", ""])
def test_code_that_cannot_be_caught_is_left_to_the_tag(code):
    assert catching_errors(code) is None
