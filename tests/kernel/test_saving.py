"""`%kin save` with its options in a real kernel, and notebooks whose recording is in a cell or in outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from notebook_client import LiveKernel, kept_outputs, run, shown

from kin_nb.core.tools.builtins import sandbox
from kin_nb.replay.book import Book
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import as_node, load_notebook
from tests.model_server import ModelServer, tool_call
from tests.notebook.people import PLAYED

pytestmark = [pytest.mark.kernel, pytest.mark.one_kernel]

ASK = "%%kin\nWhat is in numbers.txt? It is for ACME-7."


@pytest.fixture
def asked(kin, model_server: ModelServer, tmp_path) -> LiveKernel:
    """A turn that reads a file and answers."""
    (tmp_path / "numbers.txt").write_text("4111 1111\n")
    model_server.enqueue("I look.", calls=[tool_call("bash", command="cat numbers.txt")])
    model_server.enqueue("A number for ACME-7.")
    run(kin, ASK)
    return kin


def failed(nb: LiveKernel, code: str, *, allow_stdin: bool = False) -> str:
    cell = nb.run(code, allow_stdin=allow_stdin)
    reply = nb.done(cell)["content"]
    assert reply["status"] == "error"
    return reply["evalue"]


def played(nb) -> list[dict]:
    """The cells that load, name or play the recording: what else this kernel ran for other tests is in there too."""
    begins = ("%load_ext kin_nb", "%%kin")
    return [cell for cell in nb["cells"] if cell["source"].startswith(begins)]


def test_a_portable_notebook_plays_where_the_kernel_sees_no_file(asked, model_server, tmp_path):
    said = shown(asked, run(asked, "%kin save talk.ipynb --portable"))
    assert "Saved" in said
    nb = as_node(load_notebook(tmp_path / "talk.ipynb"))
    (tmp_path / "talk.ipynb").unlink()
    run(asked, "%unload_ext kin_nb")
    for cell in played(nb):
        ran = asked.run(cell["source"], cell=cell["id"])
        assert asked.done(ran)["content"]["status"] == "ok"
        saved = [output["data"] for output in cell["outputs"]]
        assert [output["data"] for output in kept_outputs(asked, ran) if "data" in output] == saved
    assert len(model_server.requests) == 2, "playback calls no model"


def test_a_portable_cell_that_was_changed_plays_nothing_and_calls_no_model(asked, model_server, tmp_path):
    run(asked, "%kin save talk.ipynb --portable")
    holder = load_notebook(tmp_path / "talk.ipynb")["cells"][1]["source"]
    assert "was changed after it was recorded" in failed(asked, holder.replace("A number", "Two numbers"))
    assert "This cell has no saved answer" in failed(asked, "%%kin\nAnything?")
    assert len(model_server.requests) == 2


def test_a_session_that_continues_live_replaces_the_notebook_that_it_continued_from(asked, model_server, tmp_path):
    run(asked, "%kin save talk.ipynb --portable")
    nb = as_node(load_notebook(tmp_path / "talk.ipynb"))
    before = read_recording(nb)
    run(asked, "%unload_ext kin_nb")
    for cell in played(nb):
        run(asked, cell["source"])
    model_server.enqueue("More.")
    for code in ("%kin live", "%%kin\nAnd more?", "%kin save talk.ipynb"):
        run(asked, code)
    after = read_recording(load_notebook(tmp_path / "talk.ipynb"))
    assert (len(after.turns), after.session == before.session) == (2, False)


def test_another_session_that_was_asked_the_same_is_not_written_over(asked, model_server, tmp_path):
    run(asked, "%kin save talk.ipynb")
    before = (tmp_path / "talk.ipynb").read_bytes()
    model_server.enqueue("I do not look.")
    for code in ("%reload_ext kin_nb", ASK):
        run(asked, code)
    assert "talk.ipynb has turn 1 of session" in failed(asked, "%kin save talk.ipynb")
    assert (tmp_path / "talk.ipynb").read_bytes() == before


def test_a_key_that_a_cell_showed_is_not_in_the_saved_notebook(kin, opens, model_server, tmp_path):
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    path = tmp_path / "mine.ipynb"
    shown_key = new_output("execute_result", {"text/plain": f"'{key}'", "text/html": f"<td>{key}</td>"})
    cells = [new_code_cell("row", id="row", outputs=[shown_key]), new_code_cell("%%kin\nWhat is this?", id="ask")]
    path.write_text(json.dumps(new_notebook(cells=cells)))
    model_server.enqueue("A row.")
    run(kin, "%%kin\nWhat is this?")
    opens(path)
    said = shown(kin, run(kin, "%kin save"))
    assert "cell 1, outputs, text/html: 1 secret" in said
    assert key not in (tmp_path / "mine.kin.ipynb").read_text()


def test_results_and_what_a_pattern_matches_stay_out_and_the_cell_says_what_went(asked, tmp_path):
    said = shown(asked, run(asked, r"%kin save talk.ipynb --no-results --redact 'ACME-\d+'"))
    assert "Redacted:" in said
    assert r"turn 1, prompt: 1 match of ACME-\d+" in said
    text = (tmp_path / "talk.ipynb").read_text()
    assert "4111 1111" not in text  # "4111" alone stands in some hashes
    assert "ACME-7" not in text
    recording = read_recording(load_notebook(tmp_path / "talk.ipynb"))
    assert [len(call.withheld) for call in recording.turns[0].calls] == [64]


def test_a_sidecar_stands_beside_the_notebook(asked, tmp_path):
    run(asked, "%kin save talk.kin.ipynb --sidecar")
    assert "blobs" in json.loads((tmp_path / "talk.kin.json").read_text())
    assert len(read_recording(load_notebook(tmp_path / "talk.kin.ipynb")).turns) == 1


def test_a_wrong_option_is_named_with_the_usage(asked):
    assert failed(asked, "%kin save --portible").startswith("%kin save: unknown option --portible.\nUsage: save [")


def test_the_outputs_alone_are_a_recording(kin, model_server, tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    model_server.enqueue("One.")
    model_server.enqueue("Two.")
    cells = [run(kin, code) for code in ("%%kin\none", "%%kin\ntwo", "%kin undo 1", "%kin redo")]
    run(kin, "%kin save talk.ipynb")
    saved = read_recording(load_notebook(tmp_path / "talk.ipynb"))
    nb = new_notebook(
        cells=[new_code_cell("", id=f"c{n}", outputs=kept_outputs(kin, cell)) for n, cell in enumerate(cells)]
    )
    nb = json.loads(json.dumps(nb))
    found = Book.collect(nb).recording
    assert [(t.prompt, t.steps[0].content) for t in found.turns] == [("one", "One."), ("two", "Two.")]
    assert found.moves == saved.moves
    assert found.session == saved.session
    assert Path(found.meta.workspace.path) == Path(saved.meta.workspace.path)


def test_playback_carries_nothing(asked, tmp_path):
    """What is in metadata already need not be in outputs."""
    run(asked, "%kin save talk.ipynb")
    nb = as_node(load_notebook(tmp_path / "talk.ipynb"))
    run(asked, "%unload_ext kin_nb")
    ran = [asked.run(cell["source"], cell=cell["id"]) for cell in played(nb)]
    assert {asked.done(each)["content"]["status"] for each in ran} == {"ok"}
    shown_now = [output for each in ran for output in kept_outputs(asked, each)]
    assert shown_now
    assert not any("kin_recording" in output.get("metadata", {}) for output in shown_now)


def test_saving_does_not_wait_for_the_grammars_of_addresses(asked):
    run(asked, "%kin save talk.ipynb")
    assert (
        asked.text(run(asked, "import sys; print('nbformat' in sys.modules, 'lark' in sys.modules)")) == "True False\n"
    )


def test_the_notice_says_what_was_saved_how_to_run_it_and_how_to_play_it_once(asked, opens, tmp_path):
    own_notebook(tmp_path / "own.ipynb")
    opens(tmp_path / "own.ipynb")
    lines = shown(asked, run(asked, "%kin save 'a b.ipynb'")).split("\n  ")
    assert lines[0] == f"Saved {tmp_path / 'a b.ipynb'}"
    assert re.fullmatch(r"1 turn, recording \S+@\w{12}\.", lines[1])
    assert lines[2] == (
        "A check found nothing that stops a replay. Run it without a key: kin-nb replay 'a b.ipynb', jupyter execute, "
        "pytest --nbval, or open it and Run All."
    )
    assert lines[-1] == "Not run after saving. To play it once in a copy: kin-nb save 'a b.ipynb' --check"
    lines = shown(asked, run(asked, "%kin save plain --plain")).split("\n  ")[:2]
    assert lines == [
        f"Saved {tmp_path / 'plain.ipynb'}",
        "It runs without kin_nb, as ordinary cells, and contains no recording.",
    ]


@pytest.fixture
def playing(kin, tmp_path, request) -> Iterator[LiveKernel]:
    """`asked`, where what it saves is played."""
    why = sandbox.problem(tmp_path, network=False)
    if why:
        pytest.skip(why)
    run(kin, f"import os; before = os.environ['KIN_SAVE']; os.environ['KIN_SAVE'] = {PLAYED!r}")
    yield request.getfixturevalue("asked")
    run(kin, "os.environ['KIN_SAVE'] = before")


def own_notebook(path: Path, *sources: str) -> None:
    cells = [new_code_cell("%load_ext kin_nb"), new_code_cell(ASK), *map(new_code_cell, sources)]
    path.write_text(json.dumps(new_notebook(cells=cells)))


def test_what_is_saved_is_played_and_its_progress_yields_to_the_notice(playing, opens, tmp_path):
    own_notebook(tmp_path / "own.ipynb", "x = 1", "open('sales' + '.csv')")
    opens(tmp_path / "own.ipynb")
    cell = run(playing, "%kin save")
    drawn = [m["content"] for m in playing.of(cell) if m["msg_type"] in {"display_data", "update_display_data"}]
    texts = [content["data"]["text/plain"] for content in drawn]
    assert len({content["transient"]["display_id"] for content in drawn}) == 1
    assert texts[0] == "Saved own.kin.ipynb. Playing it once in a copy, 600 s at most; interrupt ends that"
    assert texts[1:-1] == [f"{texts[0]}: cell {n} of 4" for n in range(1, 5)]
    assert "Stopped at cell 4: FileNotFoundError: [Errno 2] No such file or directory: 'sales.csv'" in texts[-1]
    assert "When that is fixed, anyone can run it without a key" in texts[-1]
    assert "To play it whole: kin-nb save own.kin.ipynb --check" in texts[-1]
    own_notebook(tmp_path / "own.ipynb", "x = 1")
    console = playing.run("%kin save", cell=None)
    playing.done(console)
    assert playing.text(console) == f"… {texts[0]}\n", "it draws nothing twice"
    notice = shown(playing, console)
    assert "Played once, without network, in a copy: 3 of 3 cells ran." in notice
    assert "\n  Run it without a key: kin-nb replay own.kin.ipynb" in notice


def test_interrupting_ends_the_play_and_the_notebook_is_saved(playing, opens, tmp_path):
    own_notebook(tmp_path / "own.ipynb", "import threading; threading.Event().wait()")
    opens(tmp_path / "own.ipynb")
    cell = playing.run("%kin save")
    playing.until(
        lambda m: (
            m["parent_header"].get("msg_id") == cell
            and "cell 3 of" in m["content"].get("data", {}).get("text/plain", "")
        )
    )
    playing.interrupt()
    assert playing.done(cell)["content"]["status"] == "ok"
    assert "Not played after saving: you interrupted it. To play it once in a copy" in shown(playing, cell)
    assert read_recording(load_notebook(tmp_path / "own.kin.ipynb")).turns
