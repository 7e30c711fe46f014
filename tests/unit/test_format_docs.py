"""The page of the format: each example is what saving writes for one small recording, valid, and read as that recording."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from kin_nb.core.records import RecordedCall, RecordedDecision, RecordedStep, Ref, TurnRecord, UndoRecord
from kin_nb.replay.book import Book
from kin_nb.replay.cell_keys import cell_key, command_key
from kin_nb.replay.format import record_codec as reading
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import load_notebook, parse_notebook
from kin_nb.replay.format.output_records import BACKUP_KEY, RECORD_KEY, backup_metadata, output_metadata
from kin_nb.replay.recording import FORMAT, Recording, SessionMeta, WorkspaceMeta
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.writing import write_notebook
from tests.table import each_row

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reference"
PAGE = (PAGES / "format.md").read_text(encoding="utf-8")
DEFINITIONS = json.loads(
    files("kin_nb.replay.format").joinpath("session-notebook.schema.json").read_text(encoding="utf-8")
)["$defs"]
WORDS = 15
SMALL = 64
"""In the example of a sidecar, bytes from which on a text is a long one: with the real limit it would fill pages."""

PROMPT, COMMAND = "Which test fails?", "pytest -q"
ASKED, UNDONE = "a1b2c3d4", "e5f6a7b8"
TURN = TurnRecord(
    id="9f2c41d07ab35e68",
    seq=1,
    turn=1,
    prompt=PROMPT,
    key=cell_key(PROMPT, ""),
    cell_id=ASKED,
    model="devstral",
    steps=(
        RecordedStep(
            content="I run the tests.",
            prompt_tokens=812,
            completion_tokens=21,
            calls=(
                RecordedCall(
                    id="c1",
                    name="bash",
                    arguments=json.dumps({"command": COMMAND}),
                    summary=COMMAND,
                    decision=RecordedDecision(verdict="allow", by="person", reason="runs a command"),
                    status="ok",
                    output="FAILED test_stats.py::test_mean - assert 2 == 2.5\n1 failed, 7 passed in 0.12s",
                    exit=1,
                    milliseconds=640,
                ),
            ),
        ),
        RecordedStep(content="`test_mean` fails.", prompt_tokens=874, completion_tokens=9),
    ),
    outcome="done",
    cost="0.0004",
    milliseconds=2310,
)
UNDO = UndoRecord(
    id="04e8b6a15d9c7f32",
    parent=Ref(id=TURN.id),
    seq=2,
    key=command_key("undo 1"),
    cell_id=UNDONE,
    turn_ids=(TURN.id,),
    turns=(1,),
)
META = SessionMeta(
    session="3f2a81c0-6d1e-4b7a-9c55-0a8e12f47d90",
    kin_nb="0.1.0",
    model="devstral",
    workspace=WorkspaceMeta(path=".", commit="5d3c9a1e07b2486f8c90d1a2b3c4d5e6f7081920"),
)
RECORDING = Recording(META, (TURN, UNDO))


def cells() -> list[Any]:
    return [new_code_cell(f"%%kin\n{PROMPT}", id=ASKED), new_code_cell("%kin undo", id=UNDONE)]


def saved(folder: Path, options: SaveOptions) -> Any:
    """The file that saving writes, as JSON."""
    path = folder / "tests.kin.ipynb"
    write_notebook(session_notebook(RECORDING, source_nb=new_notebook(cells=cells()), options=options), path)
    return json.loads(path.read_text(encoding="utf-8"))


def made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Each example's value, by its name on the page."""
    nb = saved(folder, SaveOptions())
    metadata = {cell["id"]: cell["metadata"] for cell in nb["cells"]}
    live = new_notebook(cells=cells())
    live["cells"][1]["outputs"] = [output(output_metadata(UNDO, META))]
    portable = next(
        cell for cell in saved(folder, SaveOptions(portable=True))["cells"] if "%%kin_recording" in str(cell["source"])
    )
    examples = {
        "cell metadata": metadata[ASKED],
        "cell metadata of an undo": metadata[UNDONE],
        "notebook metadata": {"kin": nb["metadata"]["kin"]},
        "output metadata": output_metadata(UNDO, META),
        "kept copy": backup_metadata(live),
    }
    monkeypatch.setattr(reading, "BLOB_BYTES", SMALL)
    notebook = saved(folder, SaveOptions(sidecar=True))
    assert notebook["metadata"]["kin"] == {**nb["metadata"]["kin"], **example("name of the sidecar")}
    (held,) = (cell["metadata"] for cell in notebook["cells"] if cell["id"] == ASKED)
    return examples | {
        "name of the sidecar": {"sidecar": "tests.kin.json"},
        "long text": called(held)["output"],
        "sidecar": json.loads((folder / "tests.kin.json").read_text(encoding="utf-8")),
        "portable cell": "".join(portable["source"]),
    }


def called(metadata: Any) -> Any:
    """The one call of the turn, as a cell holds it."""
    return metadata["kin"]["records"][0]["steps"][0]["calls"][0]


def output(metadata: dict[str, Any]) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/plain": "shown"}, "metadata": metadata}


def example(name: str) -> Any:
    """What the page shows: the value of JSON, the text of a cell."""
    found = re.search(rf"<!-- example: {name} -->\n\n```(\w+)\n(.*?)\n```\n", PAGE, re.DOTALL)
    assert found is not None, f"docs/reference/format.md has no example {name}"
    return json.loads(found[2]) if found[1] == "json" else found[2]


def notebook(metadata: Mapping[str, Any], cells: list[dict[str, Any]]) -> str:
    """The file with these cells, which say no more than that."""
    whole = [{"cell_type": "code", "outputs": [], "execution_count": None, "metadata": {}, **cell} for cell in cells]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": whole})


def asked(metadata: str = "", outputs: tuple[Any, ...] = ()) -> dict[str, Any]:
    held = {"metadata": example(metadata)} if metadata else {}
    return {"id": ASKED, "source": f"%%kin\n{PROMPT}", "outputs": list(outputs), **held}


def undone(metadata: str = "", outputs: tuple[Any, ...] = ()) -> dict[str, Any]:
    held = {"metadata": example(metadata)} if metadata else {}
    return {"id": UNDONE, "source": "%kin undo", "outputs": list(outputs), **held}


def test_every_example_is_what_saving_writes(tmp_path, monkeypatch):
    expected = made(tmp_path, monkeypatch)
    assert re.findall(r"<!-- example: (.+) -->", PAGE) == list(expected)
    for name, value in expected.items():
        assert example(name) == value, name


@each_row(
    ("name", "part", "keys"),
    [
        ("cell metadata", "Held", ["kin"]),
        ("cell metadata of an undo", "Held", ["kin"]),
        ("notebook metadata", "Notebook", ["kin"]),
        ("output metadata", "Carried", [RECORD_KEY]),
        ("kept copy", "Carried", [BACKUP_KEY, 0, "carried"]),
        ("long text", "Text", []),
        ("sidecar", "Sidecar", []),
        ("portable cell", "Embedded", []),
    ],
)
def test_every_example_is_valid(name, part, keys):
    value = example(name)
    value = json.loads(value.partition("\n")[2]) if part == "Embedded" else value
    for key in keys:
        value = value[key]
    schema = {"$ref": f"#/$defs/{part}", "$defs": DEFINITIONS}
    assert [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(value)] == []


def test_the_metadata_of_the_page_is_read_as_the_recording():
    text = notebook(example("notebook metadata"), [asked("cell metadata"), undone("cell metadata of an undo")])
    assert read_recording(parse_notebook(text, "page")) == RECORDING


def test_what_the_page_shows_in_an_output_is_read_as_the_record():
    text = notebook({}, [asked(), undone(outputs=(output(example("output metadata")),))])
    assert Book.collect(parse_notebook(text, "page")).cell(UNDONE).records == (UNDO,)


def test_the_copy_that_the_page_shows_is_read_for_the_cell_that_lost_its_output():
    first = {"id": "first", "source": "%load_ext kin_nb", "outputs": [output(example("kept copy"))]}
    text = notebook({}, [first, asked(), undone()])
    assert Book.collect(parse_notebook(text, "page")).cell(UNDONE).records == (UNDO,)


def test_the_sidecar_of_the_page_is_read_with_its_notebook(tmp_path):
    named = {"kin": {**example("notebook metadata")["kin"], **example("name of the sidecar")}}
    first = asked("cell metadata")
    called(first["metadata"])["output"] = example("long text")
    text = notebook(named, [first, undone("cell metadata of an undo")])
    (tmp_path / "tests.kin.ipynb").write_text(text)
    (tmp_path / "tests.kin.json").write_text(json.dumps(example("sidecar")))
    assert read_recording(load_notebook(tmp_path / "tests.kin.ipynb")) == RECORDING


def test_the_portable_cell_of_the_page_is_read_as_the_recording():
    cell = {"id": "recording", "source": example("portable cell")}
    text = notebook({}, [cell, asked(), undone()])
    assert read_recording(parse_notebook(text, "page")) == RECORDING


def test_the_page_names_this_format_and_explains_fifteen_words():
    assert PAGE.startswith(f"# The format of session notebooks, version {FORMAT}\n")
    glossary = PAGE.partition("\n## Fifteen words\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", glossary, re.MULTILINE)
    assert len(rows) == len({word for word, _ in rows}) == WORDS


def test_every_link_of_every_page_leads_somewhere():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    assert len(pages) > 25
    assert [link for page in pages for link in broken_links(page)] == []


def broken_links(page: Path) -> list[str]:
    """Those to another page, or to a heading, that are not there."""
    found = []
    for link in re.findall(r"\]\(([^)\s:]+)\)", page.read_text(encoding="utf-8")):
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (heading and heading not in anchors(target)):
            found.append(f"{page.name}: {link}")
    return found


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
