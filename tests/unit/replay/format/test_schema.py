"""The JSON schema that is shipped describes what is written, and refuses what the reader refuses for its shape."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kin_nb.replay.format.schema import format_schema
from kin_nb.replay.format.storage import is_recording_cell, sidecar_name
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.writing import write_notebook
from tests.table import each_row
from tests.unit.replay.edits import at, edit, edits, stored
from tests.unit.replay.everything import EVERYTHING
from tests.unit.replay.sessions import carried_of

SHIPPED = files("kin_nb.replay.format").joinpath("session-notebook.schema.json")
EXAMPLES = sorted((Path(__file__).parents[4] / "examples").glob("*.ipynb"))
SCHEMA = json.loads(SHIPPED.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def faults(value: Any, part: str = "") -> list[str]:
    """What the shipped schema has against `value`, which is a notebook, or that part of one."""
    schema = {"$ref": f"#/$defs/{part}", "$defs": SCHEMA["$defs"]} if part else SCHEMA
    found = VALIDATOR.evolve(schema=schema).iter_errors(value)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in found]


def test_it_is_a_schema_and_that_of_the_models_as_they_are():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert format_schema() == SCHEMA, (
        "python -m kin_nb.replay.format.schema > kin_nb/replay/format/session-notebook.schema.json"
    )


@each_row("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_valid(example):
    assert faults(json.loads(example.read_text(encoding="utf-8"))) == []


def test_there_are_examples():
    assert EXAMPLES


@pytest.mark.parametrize(("sidecar", "results"), [(False, True), (True, True)])
def test_a_notebook_with_every_kind_of_record_is_valid_and_so_is_its_sidecar(sidecar, results, tmp_path):
    nb = session_notebook(EVERYTHING, options=SaveOptions(sidecar=sidecar, results=results))
    path = write_notebook(nb, tmp_path / "s.ipynb")
    assert faults(json.loads(path.read_text())) == []
    if sidecar:
        beside = json.loads((tmp_path / sidecar_name(path)).read_text())
        assert beside["blobs"]
        assert faults(beside, "Sidecar") == []


def test_what_a_portable_notebook_has_in_its_cell_is_valid(tmp_path):
    path = write_notebook(session_notebook(EVERYTHING, options=SaveOptions(portable=True)), tmp_path / "s.ipynb")
    cells = json.loads(path.read_text())["cells"]
    (text,) = [
        "".join(cell["source"]) for cell in cells if is_recording_cell({**cell, "source": "".join(cell["source"])})
    ]
    body = json.loads(text.partition("\n")[2])
    assert sum(len(cell["kin"]["records"]) for cell in body["cells"]) == 7
    assert faults(body, "Embedded") == []


@each_row("record", EVERYTHING.records, ids=lambda record: f"{record.type} {record.seq}")
def test_what_an_output_carries_is_valid(record):
    metadata = carried_of(EVERYTHING, record)
    assert faults(metadata["kin_recording"], "Carried") == []
    cell = {"metadata": {}, "outputs": [{"metadata": metadata}]}
    assert faults({"metadata": {}, "cells": [cell]}) == []
    metadata["kin_recording"]["record"]["sha"] = "no hash"
    assert faults({"metadata": {}, "cells": [cell]})


def test_numbers_as_javascript_writes_them_are_valid():
    text = re.sub(r'("\w+": \d+)([,}])', r"\1.0\2", json.dumps(stored()))
    assert '"turn": 1.0' in text
    assert faults(json.loads(text)) == []


@each_row("every", [5], long=[1])
def test_a_value_of_another_type_is_refused_wherever_it_stands(every):
    """Except in a record of a later version, which this one does not know."""
    kinds = {path: at(stored(), path[:6])["type"] for _, path in edits()}
    known = [path for path, kind in kinds.items() if kind != "vote" or path[6] in ("type", "sha")]
    accepted = []
    for path in known[::every]:
        nb = stored()
        edit(nb, "of another type", path)
        if VALIDATOR.is_valid(nb):
            accepted.append(path)
    assert len(known) > 200
    assert accepted == []


@each_row(
    ("part", "key", "value"),
    [
        ("session", "session", "../../x"),
        ("later format", "format", 3),
        ("format 1", "format", 1),
        ("format as text", "format", "2"),
        ("records as a list", "records", []),
        ("a record's hash", "records", {"1" * 16: "0" * 64}),
        ("records that are kept there", "records", {"1" * 16: {"type": "turn"}}),
        ("digest", "digest", "abc"),
        ("sidecar", "sidecar", "../x"),
        ("commit", "workspace", {"path": "", "commit": "HEAD"}),
        ("branch", "workspace", {"path": "", "commit": None, "branch": "a..b"}),
        ("another branch", "workspace", {"path": "", "commit": None, "branch": "-x"}),
        ("blobs", "blobs", {"short": "x"}),
        ("model", "model", 5),
    ],
)
def test_what_no_session_can_have_is_refused(part, key, value):
    nb = stored()
    nb["metadata"]["kin"][key] = value
    assert faults(nb), part


FORMAT_1 = {"records as a list": lambda kin: kin["records"], "records by number": lambda kin: {"1": kin["records"]}}


@pytest.mark.parametrize("what", FORMAT_1)
def test_what_cells_held_in_format_1_is_refused(what):
    nb = stored()
    cell = next(cell for cell in nb["cells"] if "kin" in cell["metadata"])
    cell["metadata"]["kin"] = FORMAT_1[what](cell["metadata"]["kin"])
    assert faults(nb)


@each_row("record", EVERYTHING.records, ids=lambda record: f"{record.type} {record.seq}")
@each_row("field", ["id", "type", "sha"])
def test_a_record_without_id_type_or_hash_is_refused(record, field):
    carried = carried_of(EVERYTHING, record)["kin_recording"]
    assert faults(carried["record"], "Record") == []
    del carried["record"][field]
    assert faults(carried["record"], "Record")
    assert faults(carried, "Carried")


def test_the_shipped_file_is_what_the_module_prints():
    printed = subprocess.run(
        [sys.executable, "-m", "kin_nb.replay.format.schema"], capture_output=True, text=True, check=True
    ).stdout
    assert printed == SHIPPED.read_text(encoding="utf-8")


def test_keys_and_records_of_a_later_version_are_its_own():
    nb = stored()
    nb["metadata"]["kin"]["votes"] = {"any": "thing"}
    nb["cells"][0]["metadata"]["kin"] = {"records": [{"type": "poll", "sha": "0" * 64, "of": [1.5]}]}
    assert faults(nb) == []
