"""What saving takes out: secrets always, patterns and results on request, from records and cells alike, and says so."""

from __future__ import annotations

import base64
import html
import json
import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from kin_nb.core.context.history import messages_of_step
from kin_nb.core.records import (
    CallOrigin,
    CompactRecord,
    FileChange,
    KeptFile,
    RecordedCall,
    RecordedCompaction,
    RecordedImage,
    RecordedStep,
    sha256,
)
from kin_nb.core.redaction import REDACTED, Redactor
from kin_nb.render import render_turn
from kin_nb.replay.book import Book
from kin_nb.replay.cell_keys import cell_key, command_key, flow_key
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.output_records import BACKUP_KEY
from kin_nb.replay.recording import Recording
from kin_nb.replay.rerun.drift import compare_call
from kin_nb.replay.saving import privacy
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.privacy import NotebookRedactor, clean_notebook, known_secrets, without_results
from tests.table import each_row
from tests.unit.replay.sessions import carried_of, recording, turn, undo

ACME = re.compile(r"ACME-\d+")
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
FORMS = {
    "text/plain": f"'{KEY}'",
    "text/html": f'<td title="{KEY}">{KEY}</td>',
    "text/markdown": f"**{KEY}**",
    "image/svg+xml": f"<text>{KEY}</text>",
    "application/json": {KEY: [KEY], "name": KEY, "data": KEY},
    "application/vnd.plotly.v1+json": {"data": [{"x": [KEY]}]},
}
"""A key as a program may show it: `Out[]`, a DataFrame, a plot."""


def call(**fields) -> RecordedCall:
    known = {"id": "c1", "name": "bash", "arguments": '{"command": "ls"}', "status": "ok", "output": "a.py", "exit": 0}
    return RecordedCall(**{**known, **fields})


def told_everywhere():
    """ACME-1 in every text that a recording has."""
    patch = FileChange(
        path="ACME-1.py", before="1" * 64, after="2" * 64, patch="--- a\n+++ b\n@@ -1 +1 @@\n-x\n+ACME-1\n"
    )
    asked = call(
        arguments='{"command": "grep ACME-1 \\"x\\""}', output="found ACME-1\n", files=(patch,), summary="ACME-1"
    )
    step = RecordedStep(fingerprint="f1", content="I look for ACME-1.", reasoning="ACME-1?", calls=(asked,))
    first = turn(1, "Find ACME-1", steps=(step,), attached=("ACME-1.csv",), warnings=("no ACME-1",), message="ACME-1")
    first = first.model_copy(update={"stop_reason": "max_steps"})
    undone = undo(first, kept=(KeptFile(path="ACME-1.py", why="yours"),), files=(patch,))
    summary = RecordedCompaction(summary="About ACME-1.")
    compacted = CompactRecord(id="c" * 16, seq=3, key=command_key("compact"), compaction=summary)
    other = '{"note":"ACME-1","type":"later"}'
    workspace = {"path": "ACME-1", "commit": "a" * 40, "branch": "fix/ACME-1"}
    return recording(first, undone, compacted, unknown_records=(other,), workspace=workspace)


def cells():
    outputs = [new_output("stream", text="ACME-1 and ACME-2"), new_output("display_data", {"image/png": "QUNNRS0x"})]
    return new_notebook(
        metadata={"mine": "ACME-1"},
        cells=[
            new_markdown_cell("About ACME-1", id="md"),
            new_code_cell("%%kin\nFind ACME-1", id="ask"),
            new_code_cell("x = 'ACME-2'", id="py", outputs=outputs),
        ],
    )


def test_what_a_pattern_matches_is_nowhere_in_the_saved_notebook_and_the_report_says_where_it_was():
    nb, cleaner = cells(), NotebookRedactor((ACME,))
    clean = clean_notebook(nb, told_everywhere(), cleaner)
    saved = session_notebook(clean, source_nb=nb)
    saved["metadata"].pop("mine")  # other keys are never touched
    assert not ACME.search(json.dumps(saved))
    assert f"%%kin\nFind {REDACTED}" in [cell["source"] for cell in saved["cells"]]
    report = cleaner.report()
    assert report[0] == "Redacted:"
    assert "  turn 1, prompt: 1 match of ACME-\\d+" in report
    assert "  cell 3, outputs, text: 2 matches of ACME-\\d+" in report
    stays = ["Not redacted, in metadata of other programs:", "  notebook metadata: 1 match of ACME-\\d+"]
    assert report[-3:-1] == stays
    assert report[-1] == "Code was redacted and may fail now: cell 3. Run the notebook once before you share it."
    assert not any("ACME-1" in line or "ACME-2" in line for line in report)


def test_a_branch_that_a_pattern_matches_is_unknown_and_any_other_stays():
    talk, cleaner = told_everywhere(), NotebookRedactor((ACME,))
    clean = clean_notebook(new_notebook(), Recording(talk.meta), cleaner)
    assert (clean.meta.workspace.commit, clean.meta.workspace.branch) == ("a" * 40, None)
    assert "  notebook metadata, branch: 1 match of ACME-\\d+" in cleaner.report()
    assert clean_notebook(new_notebook(), talk, NotebookRedactor((re.compile("Find"),))).meta == talk.meta


def test_what_a_pattern_matches_goes_from_what_moved_the_conversation_too():
    talk, cleaner = told_everywhere(), NotebookRedactor((ACME,))
    clean_notebook(new_notebook(), Recording(talk.meta, talk.moves), cleaner)
    assert sorted(cleaner.report()[1:]) == [
        "  compact, summary: 1 match of ACME-\\d+",
        "  notebook metadata, branch: 1 match of ACME-\\d+",
        "  notebook metadata, path: 1 match of ACME-\\d+",
        "  undo, patch: 1 match of ACME-\\d+",
        "  undo, path: 2 matches of ACME-\\d+",
    ]


@pytest.mark.parametrize("kernel", ["python3", "kin"])
@pytest.mark.parametrize("in_cells", [True, False])
def test_the_name_of_a_session_goes_from_its_prompts_and_from_its_commands_and_they_continue_playing(kernel, in_cells):
    first = turn(1, "go", options="--session ACME-1", cell_id="a")
    undone = undo(first, cell_id="b")
    whole = recording(first, undone)
    talk = Recording(whole.meta, whole.records, session_names=dict.fromkeys(whole.shas, "ACME-1"))
    sources = ["%%kin --session ACME-1\ngo", "%%kin --session=ACME-1\n/undo"]
    cells = [new_code_cell(source, id=name) for name, source in zip("ab", sources, strict=True)]
    nb = new_notebook(metadata={"kernelspec": {"name": kernel, "display_name": "x"}}, cells=cells * in_cells)
    cleaner = NotebookRedactor((ACME, re.compile("session|undo")))
    saved = session_notebook(clean_notebook(nb, talk, cleaner), source_nb=nb)
    assert not ACME.search(json.dumps(saved))
    saved_cells = [
        (each["source"], [record["id"] for record in each["metadata"]["kin"]["records"]]) for each in saved["cells"][1:]
    ]
    last = f"%%kin --session={REDACTED}\n/undo" if in_cells else f"%kin --session {REDACTED} undo 1"
    assert saved_cells == [(f"%%kin --session {REDACTED}\ngo", [first.id]), (last, [undone.id])]
    book = Book.collect(saved)
    assert [cell.shown[0].id for cell in book.cells] == [first.id, undone.id]
    assert [cell.session for cell in book.cells] == [REDACTED, REDACTED]
    assert not any("changed code" in line for line in cleaner.report())


@pytest.mark.parametrize("kept", [False, True])
def test_whatever_a_pattern_matches_ids_stay_and_each_cell_holds_what_its_outputs_carried(kept):
    """Also where the cells are not those that asked: the file was made again by another program."""
    talk = recording(turn(1, "a", cell_id="x1"), turn(2, "a", cell_id="x2"), turn(3, "b", cell_id="x3"))
    carried = {f"y{each.turn}": carried_of(talk, each) for each in reversed(talk.turns)}
    cells = {name: new_code_cell("%%kin\na", id=name) for name in carried}
    for name, metadata in carried.items():
        cells[name]["outputs"] = [new_output("display_data", {"text/plain": "x"}, metadata={} if kept else metadata)]
    if kept:
        all_of_it = [{"cell": name, "carried": each} for name, of in carried.items() for each in of.values()]
        cells["y3"]["outputs"][0]["metadata"] = {BACKUP_KEY: all_of_it}
    nb, cleaner = new_notebook(cells=list(cells.values())), NotebookRedactor((re.compile(r"\d+"),))
    clean = clean_notebook(nb, talk, cleaner)
    assert [(each.id, each.parent, each.ancestors) for each in clean.turns] == [
        (each.id, each.parent, each.ancestors) for each in talk.turns
    ]
    assert "Answer" not in json.dumps(nb)
    assert cleaner.report()[1:] == [f"  turn {n}, step 1, content: 1 match of \\d+" for n in (1, 2, 3)]
    saved = session_notebook(clean, source_nb=nb)
    held = [[record["turn"] for record in cell["metadata"]["kin"]["records"]] for cell in saved["cells"][1:]]
    assert held == [[3], [2], [1]]


def test_a_cell_continues_playing_its_turns_when_its_text_changed():
    flow = [
        turn(1, "Find ACME-1"),
        turn(2, "next").model_copy(update={"key": flow_key(cell_key("Find ACME-1", ""), 1)}),
    ]
    nb = new_notebook(cells=[new_code_cell("%%kin\nFind ACME-1", id="ask")])
    clean = clean_notebook(nb, recording(*flow), NotebookRedactor((ACME,)))
    key = cell_key(f"Find {REDACTED}", "")
    assert [each.key for each in clean.turns] == [key, flow_key(key, 1)]


def test_many_prompts_that_change_cost_as_much_each_as_a_few(monkeypatch):
    made = []
    monkeypatch.setattr(privacy, "flow_key", lambda *of: made.append(of) or flow_key(*of))
    asked = [f"Find ACME-{n}" for n in range(100)]
    nb = new_notebook(cells=[new_code_cell(f"%%kin\n{text}", id=f"c{n}") for n, text in enumerate(asked)])
    clean = clean_notebook(
        nb, recording(*(turn(n, text) for n, text in enumerate(asked, 1))), NotebookRedactor((ACME,))
    )
    assert {each.key for each in clean.turns} == {cell_key(f"Find {REDACTED}", "")}
    assert len(made) <= 2 * len(asked)


def test_arguments_stay_json_and_names_and_hashes_stay_as_they_are():
    clean = clean_notebook(cells(), told_everywhere(), NotebookRedactor((re.compile(r"\w+"),)))
    (step,) = clean.turns[0].steps
    assert json.loads(step.calls[0].arguments) == {REDACTED: f'{REDACTED} {REDACTED}-{REDACTED} "{REDACTED}"'}
    assert (step.fingerprint, step.calls[0].name, step.calls[0].id, step.calls[0].status) == ("f1", "bash", "c1", "ok")
    assert (step.calls[0].files[0].before, clean.turns[0].outcome) == ("1" * 64, "done")
    assert clean.turns[0].stop_reason == "max_steps"


def test_nothing_to_take_out_changes_nothing():
    before = told_everywhere()
    cleaner = NotebookRedactor((re.compile("nowhere"),), secrets=lambda text: text)
    assert clean_notebook(cells(), before, cleaner) == before
    assert cleaner.report() == []


def test_secrets_are_counted_and_never_shown():
    cleaner = NotebookRedactor((), secrets=lambda text: text.replace("hunter22", "[secret]"))
    nb = new_notebook(cells=[new_code_cell("login('hunter22', 'hunter22')", id="x")])
    clean_notebook(nb, recording(turn(1, "a")), cleaner)
    assert cleaner.report()[:-1] == ["Redacted:", "  cell 1: 2 secrets"]


@each_row("kind", FORMS)
@each_row("output_type", ["display_data", "execute_result"])
def test_a_secret_goes_from_every_form_of_what_a_cell_showed(kind, output_type):
    output = new_output(output_type, {kind: FORMS[kind], "image/png": "QUNNRS0x"})
    nb = new_notebook(cells=[new_code_cell("look()", id="py", outputs=[output])])
    cleaner = NotebookRedactor((), secrets=Redactor((), Path("/")).text)
    clean_notebook(nb, recording(turn(1, "a")), cleaner)
    nbformat.validate(nb)
    assert KEY not in json.dumps(nb)
    assert nb["cells"][0]["outputs"][0]["data"]["image/png"] == "QUNNRS0x"
    assert any(line.startswith(f"  cell 1, outputs, {kind}: ") for line in cleaner.report())


def test_what_was_printed_in_two_pieces_is_one_text():
    printed = [("stdout", "token hunt"), ("stdout", "er22 x"), ("stderr", "hunt"), ("stdout", "er22"), ("stdout", "\n")]
    outputs = [new_output("stream", name=name, text=text) for name, text in printed]
    nb = new_notebook(cells=[new_code_cell("look()", id="py", outputs=outputs)])
    clean_notebook(
        nb, recording(turn(1, "a")), NotebookRedactor(secrets=lambda text: text.replace("hunter22", "[secret]"))
    )
    nbformat.validate(nb)
    shown = [(output["name"], output["text"]) for output in nb["cells"][0]["outputs"]]
    assert shown == [("stdout", "token [secret] x"), ("stderr", "hunt"), ("stdout", "er22\n")]


def test_metadata_of_an_output_is_cleaned_under_every_name():
    metadata = {"key": "ACME-1", "name": "ACME-1", "id": {"sha": "ACME-1"}, "ACME-1": 1, "kin": {"name": "of ACME-1"}}
    output = new_output("display_data", {"text/plain": "x"}, metadata=metadata)
    nb = new_notebook(cells=[new_code_cell("look()", id="py", outputs=[output])])
    clean_notebook(nb, recording(turn(1, "a")), NotebookRedactor((ACME,)))
    assert not ACME.search(json.dumps(nb))


@pytest.mark.parametrize("stored", [str, lambda text: base64.b64encode(text.encode()).decode()])
def test_attachments_that_are_text_are_cleaned_and_named(stored):
    cell = new_markdown_cell("![a](attachment:a.svg)", id="md")
    forms = {"image/svg+xml": stored("<text>R&amp;D-7</text>"), "text/plain": stored("R&D-7"), "image/png": "QUNNRS0x"}
    cell["attachments"] = {"a.svg": forms}
    nb, cleaner = new_notebook(cells=[cell]), NotebookRedactor((re.compile(r"R&D-\d"),))
    clean_notebook(nb, recording(turn(1, "a")), cleaner)
    svg, text = stored(f"<text>{REDACTED}</text>"), stored(REDACTED)
    kept = {"image/svg+xml": svg, "text/plain": text, "image/png": "QUNNRS0x"}
    assert nb["cells"][0]["attachments"] == {"a.svg": kept}
    assert "  cell 1, attachments, text/plain: 1 match of R&D-\\d" in cleaner.report()


@pytest.mark.parametrize("kind", ["image/png", "image/jpeg", "audio/wav", "application/pdf"])
def test_what_is_no_text_stays_as_it_is(kind):
    nb = new_notebook(cells=[new_code_cell("", id="py", outputs=[new_output("display_data", {kind: "ACME-1"})])])
    clean_notebook(nb, recording(turn(1, "a")), NotebookRedactor((ACME,)))
    assert nb["cells"][0]["outputs"][0]["data"] == {kind: "ACME-1"}


@each_row(
    ("output", "clean"),
    [
        ({"text/html": "<td>R&amp;D-7 &amp; more</td>"}, {"text/html": f"<td>{REDACTED} &amp; more</td>"}),
        ({"text/html": '<a title="&lt;R&#38;D-7">x</a>'}, {"text/html": f'<a title="&lt;{REDACTED}">x</a>'}),
        ({"image/svg+xml": "<text>R&amp;D-7</text>"}, {"image/svg+xml": f"<text>{REDACTED}</text>"}),
        ({"text/html": "<td>it's R&amp;D-7, &amp;</td>"}, {"text/html": f"<td>it&#x27;s {REDACTED}, &amp;</td>"}),
        ({"text/html": "<td>&quot;a&quot; &nbsp;</td>"}, {"text/html": "<td>&quot;a&quot; &nbsp;</td>"}),
        ({"text/plain": "&amp; R&amp;D-7"}, {"text/plain": "&amp; R&amp;D-7"}),
        ({"text/plain": "\x1b[31mR&\x1b[0m\x1b[KD-7\x1b[1m!"}, {"text/plain": f"{REDACTED}!"}),
        ({"text/plain": "\x1b[31mR&D\x1b[0m"}, {"text/plain": "\x1b[31mR&D\x1b[0m"}),
    ],
)
def test_what_html_escapes_and_what_colours_split_is_found_too(output, clean):
    nb = new_notebook(cells=[new_code_cell("", id="py", outputs=[new_output("display_data", output)])])
    clean_notebook(nb, recording(turn(1, "a")), NotebookRedactor((re.compile(r"R&D-\d"),)))
    assert nb["cells"][0]["outputs"][0]["data"] == clean


@pytest.mark.parametrize("secret", ["tok&en'12345678", 'a&b"c 99887766', "x<y's key>"])
def test_a_secret_with_signs_that_html_escapes_goes_as_pandas_writes_it(secret):
    shown = html.escape(secret, quote=False)
    nb = new_notebook(
        cells=[new_code_cell("", id="py", outputs=[new_output("display_data", {"text/html": f"<td>{shown}</td>"})])]
    )
    cleaner = NotebookRedactor((), secrets=Redactor((secret,), Path("/")).text)
    clean_notebook(nb, recording(turn(1, "a")), cleaner)
    assert nb["cells"][0]["outputs"][0]["data"] == {"text/html": "<td>[secret]</td>"}
    assert cleaner.report() == ["Redacted:", "  cell 1, outputs, text/html: 1 secret"]


def test_a_secret_that_tags_split_takes_the_markup_with_it_and_is_counted_once():
    shown = {"text/html": "<p>key: <b>hun</b>ter22</p>", "image/svg+xml": "<svg>hunter22 <b>hun</b></svg>"}
    nb = new_notebook(cells=[new_code_cell("", id="py", outputs=[new_output("display_data", shown)])])
    cleaner = NotebookRedactor((), secrets=Redactor(("hunter22",), Path("/")).text)
    clean_notebook(nb, recording(turn(1, "a")), cleaner)
    data = nb["cells"][0]["outputs"][0]["data"]
    assert data == {"text/html": "key: [secret]", "image/svg+xml": "<svg>[secret] <b>hun</b></svg>"}
    places = [f"  cell 1, outputs, {kind}: 1 secret" for kind in shown]
    assert cleaner.report() == ["Redacted:", *places]


def test_a_match_that_colours_split_goes_from_tracebacks_and_from_what_a_tool_printed():
    coloured = "\x1b[31mACME\x1b[0m-1"
    error = new_output("error", ename="E", evalue="", traceback=[coloured])
    nb = new_notebook(cells=[new_code_cell("", id="py", outputs=[error])])
    step = RecordedStep(calls=(call(output=f"found {coloured}"),))
    clean = clean_notebook(nb, recording(turn(1, "a", steps=(step,))), NotebookRedactor((ACME,)))
    assert nb["cells"][0]["outputs"][0]["traceback"] == [REDACTED]
    assert clean.turns[0].calls[0].output == f"found {REDACTED}"


@each_row("pattern", ["kin", "x", r"\n", ".", r"\w+", "replay", "undo", "%"])
@each_row("portable", [False, True])
def test_whatever_a_pattern_matches_the_notebook_continues_loading_and_playing(pattern, portable):
    turns = turn(1, "Fix x in kin"), turn(2, "more", options="--mode plan")
    talk = recording(*turns, undo(turns[1], to=turns[0]))
    options = SaveOptions(portable=portable)
    own = new_code_cell("y = 1", id="py", outputs=[new_output("stream", text="x of kin\n")])
    asked = new_code_cell("%%kin --mode plan\nmore", id="more")
    nb = session_notebook(talk, source_nb=new_notebook(cells=[own, asked]), options=options)
    nb["cells"].append(new_code_cell("%kin save talk.ipynb", id="save"))
    clean = clean_notebook(nb, talk, NotebookRedactor((re.compile(pattern),)))
    saved = session_notebook(clean, source_nb=nb, options=options)
    nbformat.validate(saved)
    ours = [cell["source"].partition("\n")[0] for cell in saved["cells"] if cell["source"].startswith("%")]
    held = [f"%%kin_recording {clean.name}"] if portable else []
    assert ours[: 1 + len(held)] == ["%load_ext kin_nb", *held]
    kept = [
        line for line in ours[1 + len(held) :] if line.startswith(("%%kin --mode ", "%kin undo 1")) or line == "%%kin"
    ]
    assert len(kept) == len(saved["cells"]) - 2 - len(held), ours
    assert len(read_recording(saved).turns) == 2


def test_a_long_report_is_cut():
    for cells, more, last in ((20, 8, "  and 8 more places"), (13, 1, "  and 1 more place")):
        nb = new_notebook(cells=[new_code_cell(f"ACME-{n}", id=f"c{n}") for n in range(cells)])
        cleaner = NotebookRedactor((ACME,))
        clean_notebook(nb, recording(turn(1, "a")), cleaner)
        *report, code = cleaner.report()
        assert (len(report), report[-1]) == (14, last)
        assert f": cell 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and {more} more. Run" in code


def test_code_that_was_changed_is_named_and_text_and_prompts_are_not():
    texts = [new_markdown_cell("ACME-1", id="m"), new_code_cell("%%kin\nAsk ACME-1", id="p")]
    nb = new_notebook(cells=[*texts, new_code_cell("df['ACME-1']", id="c"), new_code_cell("df['b']", id="b")])
    cleaner = NotebookRedactor((ACME,))
    clean_notebook(nb, recording(turn(1, "Ask ACME-1")), cleaner)
    assert cleaner.report()[-1].startswith("Code was redacted and may fail now: cell 3. ")
    text_only = NotebookRedactor((ACME,))
    clean_notebook(new_notebook(cells=[new_markdown_cell("ACME-1", id="m")]), recording(turn(1, "a")), text_only)
    assert text_only.report() == ["Redacted:", "  cell 1: 1 match of ACME-\\d+"]


@each_row(
    ("pattern", "thought"),
    [
        ("Müller", "see Müller"),
        (r"\bACME-\d", "a\nACME-7"),
        (r"C:\\Users\\ann", "in C:\\Users\\ann"),
        ('say "hi"', 'I say "hi"'),
        (r"(?m)^Customer", "x\nCustomer 5"),
        ("nothing of it", "the key is ghp_0123456789abcdefghijABCDEFGHIJ012345"),
    ],
)
def test_what_a_server_sent_for_itself_is_searched_as_it_reads(pattern, thought):
    origin = CallOrigin(provider="p", fields={"reasoning_details": [{"type": "reasoning.text", "text": thought}]})
    thinking = recording(turn(1, "go", steps=(RecordedStep(content="x", provider_data=origin.to_text()),)))
    clean = clean_notebook(new_notebook(), thinking, NotebookRedactor((re.compile(pattern),), known_secrets()))
    assert clean.turns[0].steps[0].provider_data == ""
    opaque = origin.model_copy(update={"fields": {"signature": "ghp_0123456789abcdefghijABCDEFGHIJ012345"}})
    signed = recording(turn(1, "go", steps=(RecordedStep(content="x", provider_data=opaque.to_text()),)))
    kept = clean_notebook(new_notebook(), signed, NotebookRedactor((re.compile(pattern),), known_secrets()))
    assert kept.turns[0].steps[0].provider_data == opaque.to_text()


def test_without_results_there_are_hashes_in_cards_and_in_records():
    picture = RecordedImage(media_type="image/png", data="QUJD")
    patch = FileChange(path="a.py", before="1" * 64, after="2" * 64, patch="secret text")
    ran = call(output="4111 1111", images=(picture,), files=(patch,))
    refused = call(id="c2", status="refused", output="Refused: not now", exit=None)
    bare = without_results(recording(turn(1, "go", steps=(RecordedStep(fingerprint="f1", calls=(ran, refused)),))))
    first, second = bare.turns[0].calls
    assert (first.output, first.withheld, first.images) == ("", sha256("4111 1111"), ())
    assert (first.files[0].patch, first.files[0].after) == (None, "2" * 64)
    assert second == refused
    shown = "".join(output.data["text/html"] for output in render_turn(bare.turns[0]))
    assert f"its sha256 is {sha256('4111 1111')}" in shown
    assert "4111" not in shown.replace(sha256("4111 1111"), "")
    assert without_results(bare) == bare
    assert "not stored here" in messages_of_step(bare.turns[0].steps[0])[1].content


def test_a_call_without_its_result_is_compared_by_hash():
    bare = (
        without_results(recording(turn(1, "go", steps=(RecordedStep(calls=(call(output="a.py"),)),)))).turns[0].calls[0]
    )
    assert compare_call(bare, call(output="a.py")).kind == "same"
    drift = compare_call(bare, call(output="b.py"))
    assert (drift.kind, drift.detail) == ("text", "another result; the recording has only the hash")
    assert compare_call(bare, call(output="a.py", exit=1)).kind == "effect"


def test_a_providers_own_data_stays_verbatim_or_goes_as_a_whole():
    signature = f'{{"provider":"p","fields":{{"signature":"{KEY}ACME-1"}}}}'
    signed = recording(turn(1, "go", steps=(RecordedStep(calls=(call(provider_data=signature, output=KEY),)),)))
    for patterns, kept in ((), signature), ((ACME,), ""):
        cleaner = NotebookRedactor(patterns, Redactor((), Path("/nowhere")).text)
        clean = clean_notebook(session_notebook(signed), signed, cleaner)
        assert clean.turns[0].calls[0].provider_data == kept
        assert KEY not in clean.turns[0].calls[0].output
        assert any("provider_data" in line for line in cleaner.report()) is not bool(kept)
