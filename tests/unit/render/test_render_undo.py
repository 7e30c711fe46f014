"""The card of an undo, and the tables of commands: what a person must see, and nothing that a file name can forge."""

from __future__ import annotations

from kin_nb.core.commands import Table
from kin_nb.core.records import FileChange, KeptFile, Ref, UndoRecord
from kin_nb.render import render_undo
from kin_nb.render.command import render_table

UNDO = UndoRecord(
    turn_ids=("b" * 16, "c" * 16),
    turns=(2, 3),
    head=Ref(id="a" * 16),
    files=(
        FileChange(path="a.py", before="1", after="2", patch="--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 3\n+x = 1\n"),
        FileChange(path="new.bin", before="1"),
        FileChange(path="old.txt", after="1", patch="--- /dev/null\n+++ b/old.txt\n@@ -0,0 +1 @@\n+one\n"),
    ),
    kept=(KeptFile(path="mine.txt", why="it was changed since"),),
    uncovered=("`make` may have changed what is ignored",),
)


def test_an_undo_says_what_came_back_what_did_not_and_the_way_back():
    card = render_undo(UNDO)
    assert card.data["text/plain"].splitlines() == [
        "Undid turns 2, 3",
        "  restored: a.py +1 -1",
        "  removed: new.bin",
        "  created again: old.txt +1 -0",
        "  left as it is: mine.txt: it was changed since",
        "  undo does not restore: `make` may have changed what is ignored",
        "  To restore it: `%kin redo`",
    ]
    assert card.metadata["kin"] == {"kind": "undo"}


def test_an_undo_of_steps_and_of_no_file_says_so():
    text = render_undo(UndoRecord(turn_ids=("b" * 16,), turns=(1,), head=Ref(id="b" * 16, step=2))).data["text/plain"]
    assert text.startswith("Undid turn 1, back to before step 2 of turn 1\n  no files changed\n")


def test_a_thousand_files_are_counted_and_not_listed():
    files = tuple(FileChange(path=f"{n}.txt", after="1") for n in range(1_000))
    text = render_undo(UNDO.model_copy(update={"files": files})).data["text/plain"]
    assert "and 950 more files" in text
    assert len(text.splitlines()) < 60


def test_a_file_name_is_no_markup_and_no_second_line():
    change = FileChange(path="<b>x</b>\nTook back \u202e", after="1")
    card = render_undo(UNDO.model_copy(update={"files": (change,)}))
    assert "&lt;b&gt;x&lt;/b&gt; ⏎ Took back ⟨U+202E⟩" in card.data["text/html"]
    assert "\nTook back" not in card.data["text/plain"]


def test_a_table_has_columns_in_text_and_cells_in_html():
    card = render_table("Two", Table(("name", "n"), (("a", "1"), ("<i>", "20")), frozenset({1})), ("And a line.",))
    assert card.data["text/plain"] == "Two\n  name   n\n  a      1\n  <i>   20\n  And a line."
    assert '<td style="text-align:left">&lt;i&gt;</td><td style="text-align:right">20</td>' in card.data["text/html"]
