"""What each cell plays, as a table: the cells of a notebook, those that are run, and what each of them shows."""

from __future__ import annotations

import random
import re
from dataclasses import replace

from kin_nb.core.records import ClearRecord, SessionRecord
from kin_nb.replay.book import Book, CellEntry
from kin_nb.replay.cell_keys import cell_key, command_key, flow_key
from kin_nb.replay.errors import AmbiguousTurn, NotRecorded
from kin_nb.replay.playback.player import Playback
from tests.table import each_row
from tests.unit.replay.sessions import turn, undo

# The notebook's cells, from top to bottom: `A` a cell with that text that was answered; `A:x` the same with the id x;
# `A/o` with an option; `X:x(A)` one that was answered as A, and edited since; `A(A,uA,A)` asked again; `A(A,A+1)` a flow;
# `A()` never answered; `u1` an undo, `c` a clear. Records are numbered as they stand there, from 1.
# Cells, in the order in which they are run, in the same notation.
# Each shows: `2` record 2; `2,3` two of them; `2*` what another cell made; `!` several could be meant; `?` not recorded.
TABLE = {
    # in order
    "one turn": ("A", "A", "1"),
    "in order": ("A B C", "A B C", "1 2 3"),
    "in order, with ids": ("A:a B:b C:c", "A:a B:b C:c", "1 2 3"),
    "in order, by a runner that sends no ids": ("A:a B:b C:c", "A B C", "1 2 3"),
    "in order, of a file that has no ids": ("A B C", "A:a B:b C:c", "1 2 3"),
    "in order, where ids were made anew": ("A:a B:b C:c", "A:1 B:2 C:3", "1* 2* 3*"),
    "cells were moved": ("A:a B:b C:c", "C:c A:a B:b", "3 1 2"),
    "ids were exchanged": ("A:a B:b", "A:b B:a", "? ?"),
    "an empty notebook": ("", "A A:a", "? ?"),
    "after the last": ("A:a", "A:a B:b", "1 ?"),
    "nothing recorded has the text": ("A B", "X", "?"),
    # the same text several times
    "the same text twice": ("A B A", "A B A", "1 2 3"),
    "the same text twice, with ids": ("A:x B:b A:y", "A:y B:b A:x", "3 2 1"),
    "the same text twice in a row": ("A A", "A A", "1 2"),
    "the same text three times": ("A A A", "A A A", "1 2 3"),
    "the same text twice, the second first": ("A B A", "B A", "2 3"),
    "the same text twice, once more": ("A A", "A A A", "1 2 !"),
    "the same text twice, once more by its id": ("A:x A:y", "A:x A:y A:x", "1 2 1"),
    "the same text twice, a new cell after the last": ("A:x A:y", "A:x A:y A:z", "1 2 !"),
    "the same text twice, one without an answer": ("A:x A:y()", "A:x A:y A:z", "1 ? 1*"),
    "the same text twice, one without an answer and without ids": ("A A()", "A A", "1 1"),
    "the same text, of which one was edited": ("A:x X:y(A)", "A:x A:z", "1 1*"),
    "another text was played below both": ("A A B", "B A", "3 !"),
    # run again
    "run again": ("A B C", "A A B B C C", "1 1 2 2 3 3"),
    "run again, by ids": ("A:a B:b", "A:a A:a B:b A:a", "1 1 2 1"),
    "run all twice": ("A B C", "A B C A B C", "1 2 3 1 2 3"),
    "run all twice, by ids": ("A:a B:b A:c", "A:a B:b A:c A:a B:b A:c", "1 2 3 1 2 3"),
    # out of order
    "reversed": ("A B C", "C B A", "3 2 1"),
    "reversed, by ids": ("A:a B:b C:c", "C:c B:b A:a", "3 2 1"),
    "a jump, and back for the rest": ("A B C D", "A D B C", "1 4 2 3"),
    # cells gone, or added
    "one is not run": ("A:a B:b C:c", "A:a C:c", "1 3"),
    "a new cell between": ("A:a B:b", "A:a X:x B:b", "1 ? 2"),
    "a new cell between, without ids": ("A B", "A X B", "1 ? 2"),
    "nothing moves after a failure": ("A B A", "X A X B X A", "? 1 ? 2 ? 3"),
    "a pasted copy below": ("A:a B:b", "A:a A:p B:b", "1 1* 2"),
    "a pasted copy of one of two alike": ("A:a A:b", "A:p", "!"),
    "written anew": ("A:a B:b", "B:new", "2*"),
    # cells edited
    "an edited cell": ("X:a(A) B:b", "X:a B:b", "? 2"),
    "an edited cell without an id": ("A B", "A X", "1 ?"),
    "edited and put back": ("A:a B:b", "X:a A:a B:b", "? 1 2"),
    "edited since it was read": ("X:a(A)", "A:a", "1"),
    "edited to the text of another": ("A:a B:b", "A:b", "?"),
    "two cells that exchanged their texts": ("B:a(A) A:b(B)", "B:a A:b", "? ?"),
    "a cell that was edited live, and asked twice": ("B:x(A,B) C:y", "B:x A:x C:y X:x", "2 1 3 ?"),
    "a cell that was edited live, and a pasted copy of its first text": ("B:x(A,B)", "A:p B:p", "? 2*"),
    "a prompt split in two": ("A:x(AB) B:n()", "A:x B:n", "? ?"),
    "an option taken away": ("A:a/o", "A:a A:a/o", "? 1"),
    "an option taken away, of two": ("A/o A", "A A/o", "2 1"),
    # asked again, flows
    "asked again": ("A:a(A,uA,A) B:b", "A:a B:b", "2,3 4"),
    "asked again after a failure": ("A:a(A,A)", "A:a", "2"),
    "asked again, without ids": ("A(A,uA,A) A", "A A", "2,3 4"),
    "a flow": ("A:a(A,A+1,A+2) B:b", "A:a B:b", "1,2,3 4"),
    "a flow run again": ("A(A,A+1) B", "A A B", "1,2 1,2 3"),
    "two flows alike": ("A(A,A+1) B A(A,A+1,A+2)", "A B A", "1,2 3 4,5,6"),
    "a flow and a prompt of its text": ("A(A,A+1) A", "A A", "1,2 3"),
    # what moves the conversation
    "an undo": ("A u1 B", "A u1 B", "1 2 3"),
    "undo, redo, undo": ("A u1 r u1", "A u1 r u1", "1 2 3 4"),
    "an undo run again": ("A:a u1:u", "A:a u1:u u1:u", "1 2 2"),
    "an undo that ran twice": ("A:a u1:u(u1,u1)", "u1:u", "3"),
    "an undo of two, cut to one": ("A:a u2:u", "u1:u", "?"),
    "the same undo at two places": ("A u1 B u1", "A u1 B u1", "1 2 3 4"),
    "a clear": ("A c B c", "A c B c", "1 2 3 4"),
    "a clear, its cell deleted": ("A B", "A c B", "1 ? 2"),
    "a clear that was added": ("A:a c:c", "A:a c:n", "1 2*"),
    "an undo that was never recorded": ("A:a u1:u()", "A:a u1:u", "1 ?"),
}
_CELL = re.compile(r"(?P<text>[A-Z]+|u\d|[rc])(?::(?P<id>\w+))?(?:/(?P<option>\w))?(?:\((?P<records>[^)]*)\))?")


def key_of(text: str, option: str | None = None) -> str:
    named = {"r": "redo", "c": "clear"}.get(text) or (f"undo {text[1:]}" if text[0] == "u" else "")
    return command_key(named) if named else cell_key(text, f"--{option}" if option else "")


def record(word: str, number: int, option: str | None) -> SessionRecord:
    """`A`, `A+1`, `uA`, `u1`, `r` or `c`."""
    known = {"id": f"{number:016x}", "seq": number}
    if word == "c":
        return ClearRecord(**known, key=key_of(word))
    if word[0] in "ur":
        key = key_of(word) if word[1:].isdigit() or word == "r" else key_of(word[1:], option)
        return undo(turn(1, "x"), type="redo" if word == "r" else "undo", key=key, **known)
    text, _, later = word.partition("+")
    key = key_of(text, option)
    return turn(number, text, **known).model_copy(update={"key": flow_key(key, int(later)) if later else key})


def page(words: str) -> Book:
    made = 0
    cells = []
    for number, word in enumerate(words.split(), 1):
        found = _CELL.fullmatch(word)
        texts = [found["text"]] if found["records"] is None else [*filter(None, found["records"].split(","))]
        records = tuple(record(text, made + n, found["option"]) for n, text in enumerate(texts, 1))
        made += len(records)
        cells.append(CellEntry(found["id"], key_of(found["text"], found["option"]), records, number=number))
    return Book(cells)


def run(playback: Playback, word: str) -> str:
    """What a cell shows, in the notation of the table."""
    cell = _CELL.fullmatch(word)
    try:
        shown, by_another = playback.play(key_of(cell["text"], cell["option"]), cell["id"])
    except NotRecorded:
        return "?"
    except AmbiguousTurn:
        return "!"
    return ",".join(str(each.seq) for each in shown) + "*" * by_another


@each_row("row", TABLE)
def test_what_each_cell_plays(row):
    cells, ran, expected = TABLE[row]
    playback = Playback(page(cells))
    assert " ".join(run(playback, word) for word in ran.split()) == expected


def test_the_table_is_a_table():
    assert len(TABLE) >= 60


def test_a_cell_is_known_by_its_id_alone():
    playback = Playback(page("A:a X:b(B) C"))
    assert [record.seq for record in playback.cell("b").records] == [2]
    for nobody in ("c", "", None):
        assert playback.cell(nobody) is None


def test_a_copied_cell_with_the_same_records_is_no_second_meaning():
    book = page("A:a B:b")
    copied = replace(book, cells=[*book.cells, replace(book.cells[0], cell_id="copy", number=3)])
    assert run(Playback(copied), "A:pasted") == "1*"
    assert run(Playback(copied), "A:copy") == "1"


def test_conversations_of_other_names_are_played_apart():
    """A cell of the one shows nothing of the other, whatever its text is now."""
    book = page("A:a B:b")
    beside = page("X:x X:x X:x A:h").cells[-1]
    both = replace(book, cells=[*book.cells, replace(beside, session="helper")])
    for name, expected in (("", "1 2 ? 1*"), ("helper", "? ? 4 4*")):
        playback = Playback(both, name)
        assert " ".join(run(playback, word) for word in ["A:a", "B:b", "A:h", "A:new"]) == expected


@each_row("seed", range(60), long=range(60, 200))
@each_row("ids", [True, False])
def test_no_cell_ever_plays_another_text_and_whatever_was_run_the_notebook_still_plays_from_the_top(seed, ids):
    dice = random.Random(seed)
    texts = ["A", "B", "C", "A(A,A+1)", "D/o", "u1", "X(A)", "A(A,uA,A)", "B()"]
    words = [dice.choice(texts) for _ in range(dice.randrange(1, 9))]
    words = [_with_id(word, f"i{n}") if ids else word for n, word in enumerate(words)]
    book = page(" ".join(words))
    playback = Playback(book)
    for _ in range(30):
        text, option = dice.choice("ABCDX"), dice.choice([None, None, "o"])
        key, cell_id = key_of(text, option), dice.choice([None, "i0", "i1", "i2", "new"])
        cells = [cell for cell in book.cells if cell.shown and cell.key == key]
        own = next((cell for cell in book.cells if cell_id and cell.cell_id == cell_id), None)
        before = playback._next
        try:
            shown, by_another = playback.play(key, cell_id)
        except (NotRecorded, AmbiguousTurn) as error:
            assert playback._next == before, "nothing moves"
            assert len(cells) != 1 or own is not None
            failed = type(error)
        else:
            failed = None
        if failed:
            assert failed is (AmbiguousTurn if own is None and len(cells) > 1 else NotRecorded)
            continue
        assert shown[0].key == key
        assert shown == (own or next(cell for cell in cells if cell.shown == shown)).records[-len(shown) :]
        assert by_another == (own is None and ids and cell_id is not None)
    fresh = Playback(book)
    for cell, word in zip(book.cells, words, strict=True):
        found = run(fresh, word) if cell.shown else "?"
        assert found == (",".join(str(each.seq) for each in cell.shown) or "?")


def _with_id(word: str, cell_id: str) -> str:
    text = re.match(r"[A-Z]+|u\d", word)[0]
    return f"{text}:{cell_id}{word[len(text) :]}"
