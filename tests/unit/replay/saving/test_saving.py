"""Session notebooks: from the live notebook's file, from the cells that ran, from the log alone."""

from __future__ import annotations

import copy
import json
import os

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from kin_nb.render import render_record, render_turn
from kin_nb.replay.book import Book
from kin_nb.replay.cell_keys import cell_key, prompt_key
from kin_nb.replay.errors import NotRecorded, RecordingError
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import as_node, load_notebook
from kin_nb.replay.playback.player import Playback, playback_notice
from kin_nb.replay.saving.build import ExecutedCell, session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.writing import write_notebook
from tests.table import each_row
from tests.unit.replay.sessions import recording, turn


def code(source, cell_id, *, count=None, outputs=(), **metadata):
    return new_code_cell(source, id=cell_id, execution_count=count, outputs=list(outputs), metadata=metadata)


def shown(outputs):
    return [new_output("display_data", data=output.data, metadata=output.metadata) for output in outputs]


def records(cell):
    return cell["metadata"].get("kin", {}).get("records", [])


def played(nb, key):
    """What a cell with this key shows in playback, where cells have no ids."""
    found, _ = Playback(Book.collect(nb)).play(key, None)
    return [output for record in found for output in render_record(record)]


@pytest.fixture
def talk():
    return recording(
        turn(1, "first", cell_id="one"), turn(2, "second", cell_id="two"), turn(3, "third", cell_id="gone")
    )


@pytest.fixture
def live():
    """The notebook as a person has it open."""
    return new_notebook(
        metadata={"widgets": {"application/vnd.jupyter.widget-state+json": {}}, "mine": {"kept": True}},
        cells=[
            new_markdown_cell("# My work", id="title"),
            code("%load_ext kin_nb", "load", count=7),
            code(
                "x = 1\nx",
                "plain",
                count=9,
                outputs=[new_output("execute_result", {"text/plain": "1"}, execution_count=9)],
            ),
            code("%%kin\nsecond", "two", count=12, outputs=[new_output("stream", text="live")], tags=["t"]),
            code("%%kin\nfirst", "one", count=11),
            code("never_run()", "idle"),
            code("%kin save talk.ipynb", "save", count=13),
        ],
    )


def test_from_the_file_records_go_into_the_cells_that_asked(talk, live):
    before = copy.deepcopy(live)
    nb = session_notebook(talk, source_nb=live)
    assert live == before
    ids = {cell["id"]: cell for cell in nb["cells"]}
    assert list(ids) == ["title", "load", "plain", "two", "one", "idle", "gone"]
    assert [raw["turn"] for raw in records(ids["two"])] == [2]
    assert ids["two"]["metadata"]["tags"] == ["t"]
    assert ids["gone"]["source"] == "%%kin\nthird"
    assert ids["load"]["source"] == f"%load_ext kin_nb\n%kin replay {talk.name}"
    assert nb["metadata"]["mine"] == {"kept": True}
    assert "widgets" not in nb["metadata"]
    assert [cell.get("execution_count") for cell in nb["cells"]] == [None, 1, 2, 3, 4, None, 5]
    assert ids["plain"]["outputs"][0]["execution_count"] == 2
    assert read_recording(nb) == talk
    nbformat.validate(nb)


def test_the_saved_outputs_are_what_playing_the_cells_in_order_shows(talk, live):
    nb = session_notebook(talk, source_nb=live)
    assert nb["cells"][1]["outputs"] == shown([playback_notice(talk)])
    asking = [cell for cell in nb["cells"] if prompt_key(nb, cell)]
    assert [cell["outputs"] for cell in asking] == [shown(played(nb, prompt_key(nb, cell))) for cell in asking]
    assert [shown(render_turn(talk.turns[n])) for n in (1, 0, 2)] == [cell["outputs"] for cell in asking]


def test_saving_again_changes_nothing(talk, live):
    once = session_notebook(talk, source_nb=live)
    assert session_notebook(read_recording(once), source_nb=once) == once


def test_a_replay_cell_is_inserted_before_all_code_when_there_is_none(talk):
    source = new_notebook(cells=[new_markdown_cell("t", id="t"), code("import os\n%load_ext kin_nb", "mixed", count=1)])
    nb = session_notebook(talk, source_nb=source)
    assert [cell["id"] for cell in nb["cells"]] == ["t", "kin-replay", "mixed", "one", "two", "gone"]


OLDER = "%load_ext kin_nb\n%kin replay old@123456789012"


@each_row("portable", [False, True])
@each_row(
    ("mixed", "left"),
    [
        (f"{OLDER}\nimport os", "import os"),
        (f"import os\n\n{OLDER}\n", "import os"),
        ("import os\n%load_ext kin_nb\n!ls\n%kin mode plan", "import os\n!ls\n%kin mode plan"),
        ("# ours\n%reload_ext kin_nb", "# ours"),
        (f"if x:\n    y()\n{OLDER}\nprint('it", "if x:\n    y()\nprint('it"),
        (f"!echo it's\n{OLDER}\n%matplotlib inline", "!echo it's\n%matplotlib inline"),
    ],
)
def test_lines_that_load_kin_nb_or_name_a_recording_leave_a_cell_that_has_others(talk, mixed, left, portable):
    source = new_notebook(cells=[code(mixed, "mixed", count=1)])
    nb = session_notebook(talk, source_nb=source, options=SaveOptions(portable=portable))
    own = next(cell for cell in nb["cells"] if cell["id"] == "mixed")
    assert own["source"] == left
    assert "old@" not in str(nb)
    assert session_notebook(talk, source_nb=nb, options=SaveOptions(portable=portable)) == nb


def test_a_cell_of_very_many_lines_loses_only_the_generated_ones(talk):
    lines = "%load_ext kin_nb\n!ls\n" * 20_000
    outputs = [new_output("stream", text="Session of " + " ago" * 50_000)]
    source = new_notebook(cells=[code(lines, "long", count=1, outputs=outputs)])
    nb = session_notebook(talk, source_nb=source)
    assert nb["cells"][1]["source"] == ("!ls\n" * 20_000).rstrip()
    assert nb["cells"][1]["outputs"] == outputs


def test_a_line_written_below_the_head_is_no_hindrance_to_saves_in_its_place(talk, tmp_path):
    path = write_notebook(session_notebook(talk), tmp_path / "s.ipynb")
    raw = json.loads(path.read_text())
    raw["cells"][0]["source"] += ["\n", "import os"]
    path.write_text(json.dumps(raw))
    for _ in range(2):
        write_notebook(session_notebook(talk, source_nb=load_notebook(path)), path)
        assert [cell["source"].splitlines()[-1] for cell in load_notebook(path)["cells"]][:2] == [
            f"%kin replay {talk.name}",
            "import os",
        ]


@each_row(
    "source",
    [
        f'text = """\n{OLDER}\n"""',
        f"%%kin\nfirst\n{OLDER}",
        f"%%bash\n{OLDER}\nls",
        "if x:\n    %load_ext kin_nb",
        "x = 1 \\\n%load_ext kin_nb",
        'print(f"""\n%load_ext kin_nb\n{x}""")',
        "x = [\n%load_ext kin_nb\n",
    ],
)
def test_such_lines_stay_where_they_are_text_or_within_something_else(talk, source):
    nb = session_notebook(talk, source_nb=new_notebook(cells=[code(source, "own", count=1)]))
    assert source in [cell["source"] for cell in nb["cells"]]


def test_in_a_kin_notebook_a_prompt_about_such_lines_stays_too(talk):
    source = new_notebook(
        metadata={"kernelspec": {"name": "kin", "display_name": "Kin"}}, cells=[code(f"first\n{OLDER}", "p")]
    )
    assert f"first\n{OLDER}" in [cell["source"] for cell in session_notebook(talk, source_nb=source)["cells"]]


def test_what_such_lines_showed_goes_with_them(talk):
    loaded = "The kin_nb extension is already loaded. To reload it, use:\n  %reload_ext kin_nb\n"
    offered = "Last session here: 5 min ago, 3 turns. To continue it: %kin resume\n"
    status = new_output("display_data", {"text/plain": "mine"}, metadata={"kin": {"kind": "notice"}})
    odd = new_output("display_data", {"text/plain": "odd"}, metadata={"kin": 3})
    outputs = [
        new_output("stream", text=f"before\n{loaded}after\n"),
        *shown([playback_notice(talk)]),
        new_output("stream", text=loaded + offered),
        new_output("stream", text=""),
        odd,
        status,
    ]
    source = new_notebook(cells=[code(f"print()\n{OLDER}\n%kin status", "mixed", count=1, outputs=outputs)])
    own = session_notebook(talk, source_nb=source)["cells"][1]
    assert own["outputs"] == [new_output("stream", text="before\nafter\n"), new_output("stream", text=""), odd, status]


def test_a_replay_cell_of_an_older_save_is_replaced(talk):
    source = new_notebook(cells=[code("a", "a"), code("%load_ext kin_nb\n%kin replay old@123456789012", "old")])
    nb = session_notebook(talk, source_nb=source)
    assert [cell["id"] for cell in nb["cells"]][:2] == ["old", "a"]
    assert nb["cells"][0]["source"].endswith(talk.name)


def test_without_ids_cells_are_matched_by_text_in_order(talk):
    asked = recording(turn(1, "again", cell_id="x"), turn(2, "again", cell_id="y"), turn(3, "again", cell_id="y"))
    source = new_notebook(cells=[code("%%kin\nagain  \n", "0", count=1), code("%%kin\nagain", "1", count=2)])
    nb = session_notebook(asked, source_nb=source)
    assert [[raw["turn"] for raw in records(cell)] for cell in nb["cells"]] == [[], [1], [2, 3]]
    assert [each.turn for each in read_recording(nb).turns] == [1, 2, 3]
    assert nb["cells"][2]["outputs"] == shown(render_turn(asked.turns[2]))


def test_a_turn_whose_cell_lost_its_id_is_held_by_the_only_cell_with_its_text():
    asked = recording(turn(1, "again", cell_id="kept"), turn(2, "again", cell_id="lost"))
    nb = session_notebook(asked, source_nb=new_notebook(cells=[code("%%kin\nagain", "kept", count=1)]))
    assert [[raw["turn"] for raw in records(cell)] for cell in nb["cells"]] == [[], [1, 2]]
    assert nb["cells"][1]["outputs"] == shown(render_turn(asked.turns[1]))


def test_a_cell_edited_since_it_ran_gets_back_the_text_that_ran(talk):
    source = new_notebook(cells=[code("%%kin\nfirst, but better", "one", count=1)])
    nb = session_notebook(recording(talk.turns[0]), source_nb=source)
    assert nb["cells"][1]["source"] == "%%kin\nfirst"


def test_a_cell_edited_and_run_again_keeps_its_text_and_both_turns():
    source = new_notebook(cells=[code("%%kin\nbetter", "one", count=1)])
    both = recording(turn(1, "first", cell_id="one"), turn(2, "better", cell_id="one"))
    nb = session_notebook(both, source_nb=source)
    assert nb["cells"][1]["source"] == "%%kin\nbetter"
    assert nb["cells"][1]["outputs"] == shown(render_turn(both.turns[1]))
    assert read_recording(nb) == both


def test_from_the_cells_that_ran_unknown_outputs_are_not_compared(talk):
    cells = [
        ExecutedCell("%load_ext kin_nb"),
        ExecutedCell("x = 1"),
        ExecutedCell("%%kin\nfirst", "one"),
        ExecutedCell("%kin save"),
    ]
    nb = session_notebook(talk, cells=cells)
    assert [cell["source"].splitlines()[-1] for cell in nb["cells"]][1:] == ["x = 1", "first", "second", "third"]
    assert nb["cells"][1]["metadata"]["tags"] == ["nbval-ignore-output"]
    assert [cell["execution_count"] for cell in nb["cells"]] == [1, 2, 3, 4, 5]


def test_from_the_log_alone_every_turn_has_a_cell_that_plays_it(session):
    nb = session_notebook(session)
    nbformat.validate(nb)
    back = read_recording(nb)
    assert [cell["source"] for cell in nb["cells"][1:]] == ["%%kin\nFix the build\nplease", "%%kin\nAnd now?"]
    assert [each.prompt for each in back.turns] == [each.prompt for each in session.turns]
    for n, cell in enumerate(nb["cells"][1:]):
        assert cell["outputs"] == shown(played(nb, prompt_key(nb, cell))) == shown(render_turn(session.turns[n]))


def test_a_turn_whose_options_are_not_known_plays_from_the_cell_written_for_it():
    nb = session_notebook(recording(turn(1, "p", options="--mode plan")))
    assert played(nb, cell_key("p", ""))


def test_in_a_kin_notebook_every_prompt_is_a_cell_as_it_is(talk):
    kernel = {"name": "kin", "display_name": "Kin"}
    source = new_notebook(
        metadata={"kernelspec": kernel}, cells=[code("first", "one", count=1), code("%kin mode", "m")]
    )
    nb = session_notebook(talk, source_nb=source)
    assert [cell["source"] for cell in nb["cells"]][1:] == ["first", "%kin mode", "second", "third"]
    assert read_recording(nb) == talk


@pytest.mark.parametrize(
    ("prompt", "cell"),
    [
        ("/tmp is full, why?", "/tmp is full, why?"),
        ("/undo", "//undo"),
        ("!ls is what?", "%%kin\n!ls is what?"),
    ],
)
def test_a_prompt_that_looks_like_a_command_is_asked_as_a_prompt(prompt, cell):
    source = new_notebook(metadata={"kernelspec": {"name": "kin", "display_name": "Kin"}})
    nb = session_notebook(recording(turn(1, prompt)), source_nb=source)
    assert nb["cells"][1]["source"] == cell
    (back,) = read_recording(nb).turns
    assert (back.prompt, back.key) == (prompt, prompt_key(nb, nb["cells"][1]))


def test_an_old_notebook_without_ids_becomes_a_valid_one(talk):
    source = new_notebook(cells=[code("a", "a"), code("b", "b")])
    source["nbformat_minor"] = 4
    for cell in source["cells"]:
        del cell["id"]
    nb = session_notebook(talk, source_nb=source)
    nbformat.validate(nb)
    assert len({cell["id"] for cell in nb["cells"]}) == len(nb["cells"])


def test_playback_says_not_recorded_and_stays_where_it_was(talk):
    player = Playback(Book.collect(session_notebook(talk)))
    with pytest.raises(NotRecorded) as caught:
        player.play(cell_key("unknown", ""), None)
    assert caught.value._render_traceback_() == [f"{caught.value}"]
    assert player.play(cell_key("first", ""), None) == ((talk.turns[0],), False)


def test_the_open_notebook_is_never_written_over(talk, tmp_path):
    path = write_notebook(session_notebook(talk), tmp_path / "open.ipynb")
    before = path.read_bytes()
    (tmp_path / "link.ipynb").symlink_to(path)
    with pytest.raises(RecordingError, match="is the open notebook"):
        write_notebook(session_notebook(talk), tmp_path / "link.ipynb", open_file=path)
    assert path.read_bytes() == before


def test_an_invalid_notebook_is_not_written_and_leaves_the_old_one(talk, tmp_path):
    path = write_notebook(session_notebook(talk), tmp_path / "s.ipynb")
    before = path.read_bytes()
    broken = session_notebook(talk)
    broken["cells"][0]["cell_type"] = "poem"
    with pytest.raises(nbformat.ValidationError):
        write_notebook(broken, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_replaced_file_keeps_its_mode_and_a_new_one_follows_the_umask(talk, tmp_path):
    path = tmp_path / "s.ipynb"
    mask = os.umask(0o027)
    try:
        write_notebook(session_notebook(talk), path)
    finally:
        os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o604)
    write_notebook(session_notebook(talk), path)
    assert path.stat().st_mode & 0o777 == 0o604


def test_lone_surrogates_of_ordinary_outputs_survive(talk, tmp_path):
    source = new_notebook(cells=[code("p", "p", count=1, outputs=[new_output("stream", text="a\ud83db")])])
    path = write_notebook(session_notebook(talk, source_nb=source), tmp_path / "s.ipynb")
    assert as_node(load_notebook(path))["cells"][1]["outputs"][0]["text"] == "a\ud83db"
    assert json.loads(path.read_bytes().decode("utf-8"))
