"""What a notebook holds, whatever happened to its page: each cell shows its own, and the conversation continues below the last.

A page, a front end that drops what a cell showed when it is run again, and a kernel that makes records. Then a teammate, who
has the page alone.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from kin_nb.core.records import (
    NEAREST,
    ClearRecord,
    CompactRecord,
    RecordedCompaction,
    RecordedStep,
    Ref,
    SessionRecord,
    TurnRecord,
    UndoRecord,
)
from kin_nb.replay.book import Book, CellEntry, RecordedConversation, last_run, sort_records
from kin_nb.replay.cell_keys import flow_key
from kin_nb.replay.errors import AmbiguousTurn, NotRecorded, RecordingError
from kin_nb.replay.playback.player import Playback
from tests.table import each_row

UNDONE = {"turn_ids": ("0" * 16,), "turns": (0,)}
"""A book does not ask which turns an undo names."""


@dataclass
class Kernel:
    """Makes records, as an agent does. `line`: what is sent with the next prompt, oldest first."""

    names: itertools.count
    book: Book | None = None
    line: list[SessionRecord] = field(default_factory=list)
    seq: int = 0
    taken_back: list[list[SessionRecord]] = field(default_factory=list)

    def __post_init__(self) -> None:
        last = self.book.head() if self.book is not None else None
        if self.book is not None and last is not None:
            self.line = [*self.book.conversation(last).sent]
            self.seq = last.seq

    def ask(self, key: str, cell: str) -> TurnRecord:
        self.taken_back.clear()
        number = next(self.names)
        steps = (RecordedStep(content=f"{key} {number}"),)
        return self._goes_on(TurnRecord, key, cell, turn=number, prompt=key, steps=steps, outcome="done")

    def undo(self, key: str, cell: str, left: int) -> UndoRecord:
        """Back to where the conversation had `left` records."""
        self.taken_back.append(self.line)
        return self._moves(UndoRecord, key, cell, self.line[:left], **UNDONE)

    def redo(self, cell: str) -> UndoRecord:
        return self._moves(UndoRecord, "redo", cell, self.taken_back.pop(), type="redo", **UNDONE)

    def clear(self, cell: str) -> ClearRecord:
        return self._moves(ClearRecord, "clear", cell, [])

    def compact(self, cell: str) -> CompactRecord:
        return self._goes_on(CompactRecord, "compact", cell, compaction=RecordedCompaction(summary="all of it"))

    def before(self, turns: int) -> int:
        """How many records are before the last `turns` turns."""
        found = [n for n, record in enumerate(self.line) if isinstance(record, TurnRecord)]
        return found[-turns:][0] if found else 0

    def _goes_on(self, kind, key, cell, **fields):
        record = self._made(kind, key, cell, ancestors=ids(self.line), **fields)
        self.line = [*self.line, record]
        return record

    def _moves(self, kind, key, cell, line, **fields):
        if kind is UndoRecord:
            fields |= {"head": after(line), "ancestors": ids(line)}
        record = self._made(kind, key, cell, **fields)
        self.line = line
        return record

    def _made(self, kind, key, cell, **fields):
        self.seq += 1
        name = f"{next(self.names):016x}"
        return kind(id=name, parent=after(self.line), seq=self.seq, key=key, cell_id=cell, **fields)


def after(line: list[SessionRecord]) -> Ref | None:
    return Ref(id=line[-1].id) if line else None


def ids(line: list[SessionRecord]) -> tuple[str, ...]:
    return tuple(record.id for record in reversed(line))[:NEAREST]


@dataclass
class Cell:
    id: str
    key: str
    shown: list[SessionRecord] = field(default_factory=list)


class Page:
    def __init__(self) -> None:
        self.names = itertools.count(1)
        self.cells: list[Cell] = []
        self.kernel = Kernel(self.names)
        for key in ("one", "two"):
            self.add(key)

    def add(self, key: str, at: int | None = None) -> Cell:
        cell = Cell(f"c{next(self.names)}", key)
        self.cells.insert(len(self.cells) if at is None else at, cell)
        self.run(cell)
        return cell

    def run(self, cell: Cell) -> None:
        word, _, count = cell.key.partition(" ")
        kernel = self.kernel
        match word:
            case "undo":
                cell.shown = [kernel.undo(cell.key, cell.id, kernel.before(int(count)))] if kernel.line else []
            case "redo":
                cell.shown = [kernel.redo(cell.id)]
            case "clear":
                cell.shown = [kernel.clear(cell.id)]
            case "compact":
                cell.shown = [kernel.compact(cell.id)]
            case _:
                cell.shown = [kernel.ask(cell.key, cell.id)]

    def cell(self, key: str) -> Cell:
        return next(cell for cell in self.cells if cell.key == key)

    def retry(self, key: str) -> None:
        """`%%kin --retry`, or the prompt again where its turn counts no more."""
        cell, kernel = self.cell(key), self.kernel
        turn = cell.shown[-1] if cell.shown else None
        room = [kernel.undo(key, cell.id, kernel.line.index(turn))] if turn in kernel.line else []
        cell.shown = [*room, kernel.ask(key, cell.id)]

    def ask_anew(self, key: str) -> None:
        cell = self.cell(key)
        cell.shown = [self.kernel.ask(key, cell.id)]

    def delete(self, key: str) -> None:
        self.cells.remove(self.cell(key))

    def restart(self) -> None:
        """A kernel that knows the page alone: a teammate's, or one's own the next day."""
        self.kernel = Kernel(self.names, self.book)

    @property
    def book(self) -> Book:
        return Book([CellEntry(cell.id, cell.key, sort_records(cell.shown)) for cell in self.cells])

    def check(self, *, ids: bool = True) -> RecordedConversation:
        """Every cell shows what it showed; the conversation continues as in the kernel, as far as the page has it."""
        book = self.book
        playback = Playback(book)
        for cell in self.cells:
            if cell.shown:
                assert played(playback, cell.key, cell.id if ids else None) == cell.shown
        last = book.head()
        found = book.conversation(last)
        held = {record.id for cell in self.cells for record in cell.shown}
        if last is not None and last.seq == self.kernel.seq:  # else what was done last is on no page: the page counts
            assert [each.id for each in found.sent] == [each.id for each in self.kernel.line if each.id in held]
        return found


def played(playback: Playback, key: str, cell_id: str | None, *, of_another: bool = False) -> list[SessionRecord]:
    """What the cell shows, which it says to have made itself, or (`of_another`) that another cell did."""
    shown, by_another = playback.play(key, cell_id)
    assert by_another == of_another
    return [*shown]


SCENES: dict[str, Callable[[Page], None]] = {}


def scene(play: Callable[[Page], None]) -> Callable[[Page], None]:
    SCENES[play.__name__] = play
    return play


@scene
def asked_again_after_a_failure(page):
    page.add("A")
    page.ask_anew("A")
    page.add("B")


@scene
def retried_twice_below_what_is_taken_back(page):
    page.add("A")
    page.add("B")
    page.retry("A")
    page.retry("A")
    page.add("C")


@scene
def undone_twice_by_one_cell(page):
    page.add("A")
    page.add("B")
    page.run(page.add("undo 1"))
    page.add("C")


@scene
def undone_twice_and_redone(page):
    page.add("A")
    page.add("B")
    page.run(page.add("undo 1"))
    page.add("redo")


@scene
def a_cell_deleted(page):
    for key in "ABC":
        page.add(key)
    page.delete("B")


@scene
def the_cell_of_an_undo_deleted(page):
    page.add("A")
    page.add("B")
    page.add("undo 1")
    page.delete("undo 1")
    page.add("C")


@scene
def cleared_and_retried(page):
    page.add("A")
    page.add("clear")
    page.add("B")
    page.retry("B")
    page.add("C")


@scene
def cleared_last(page):
    page.add("A")
    page.add("clear")


@scene
def cleared_and_the_cell_deleted(page):
    page.add("A")
    page.add("clear")
    page.add("B")
    page.delete("clear")


@scene
def compacted_between(page):
    page.add("A")
    page.add("compact")
    page.add("B")
    page.add("undo 2")
    page.add("redo")


@scene
def undone_above_what_was_undone(page):
    page.add("A")
    undo = page.add("undo 1")
    page.add("B")
    page.ask_anew("B")
    page.add("C")
    page.run(undo)


@scene
def cleared_and_all_that_came_after_deleted(page):
    page.add("clear")
    page.add("A")
    page.add("undo 1")
    page.add("redo")
    page.delete("A")


@scene
def the_first_one_retried(page):
    page.add("A")
    page.retry("one")
    page.add("B")


@scene
def one_text_in_two_cells(page):
    page.add("go")
    page.add("go")
    page.add("B")


@each_row("ids", [True, False], ids=["with ids", "without ids"])
@each_row("play", SCENES.values(), ids=[*SCENES])
def test_each_cell_shows_its_own_and_the_conversation_continues_below_the_last(play, ids):
    page = Page()
    play(page)
    page.check(ids=ids)
    for who in range(2):  # mailed, gone on with, mailed back, gone on with
        page.restart()
        page.add(f"more {who}")
        page.retry("two")
        page.add(f"yet {who}")
        page.check(ids=ids)


@each_row("seed", range(3), long=range(3, 20))
def test_whatever_happens_to_a_page(seed):
    for each in range(50):
        chance = random.Random(seed * 50 + each)
        page = Page()
        for step in range(chance.randint(3, 14)):
            happens(page, chance, f"p{step}")
            page.check()


def happens(page: Page, chance: random.Random, new: str) -> None:
    prompts = [
        cell.key for cell in page.cells if cell.key.partition(" ")[0] not in ("undo", "redo", "clear", "compact")
    ]
    match chance.randint(0, 9):
        case 0 | 1:
            page.add(new)
        case 2 if prompts:
            page.retry(chance.choice(prompts))
        case 3 if prompts:
            page.ask_anew(chance.choice(prompts))
        case 4 if page.kernel.line:
            page.add(f"undo {chance.randint(1, 3)}", at=chance.choice([None, 2]))
        case 5 if page.kernel.taken_back:
            page.add("redo")
        case 6 if len(prompts) > 1:
            page.delete(chance.choice(prompts))
        case 7:
            page.add(chance.choice(["clear", "compact"]) if page.kernel.line else new)
        case 8:
            chance.shuffle(page.cells)
        case 9:
            page.restart()


def test_what_is_missing_is_named_and_the_nearest_that_is_here_is_continued_from():
    page = Page()
    for key in "ABCD":
        page.add(key)
    gone = [page.cell(key).shown[0].id for key in "BC"]
    page.delete("B")
    page.delete("C")
    found = page.check()
    assert [turn.key for turn in found.turns] == ["one", "two", "A", "D"]
    assert [*found.missing_ids] == gone


def test_a_long_conversation_names_its_nearest_records_alone():
    page = Page()
    for number in range(NEAREST + 5):
        page.add(f"p{number}")
    assert len(page.cells[-1].shown[0].ancestors) == NEAREST
    del page.cells[:-2]
    found = page.check()
    assert len(found.turns) == 2
    assert len(found.missing_ids) == NEAREST


def test_of_two_branches_that_were_pasted_together_the_upper_one_continues_and_both_play():
    page = Page()
    here, there = (Kernel(page.names, page.book) for _ in range(2))
    page.cells += [Cell("m", "mine", [here.ask("mine", "m")]), Cell("t", "theirs", [there.ask("theirs", "t")])]
    found = page.check()
    assert [turn.key for turn in found.turns] == ["one", "two", "mine"]


def test_records_with_one_id_that_differ_are_an_error():
    page = Page()
    record = page.cells[0].shown[0]
    page.cells.append(Cell("copy", "one", [record]))
    assert page.check().turns[0] == record
    page.cells[-1].shown = [record.model_copy(update={"prompt": "changed"})]
    with pytest.raises(RecordingError, match=rf"turn {record.turn}: cell 0 has another version of it; field prompt"):
        _ = page.book


def test_a_turn_that_was_gone_back_into_is_sent_up_to_that_step():
    kernel = Kernel(itertools.count(1))
    steps = tuple(RecordedStep(content=text) for text in "abc")
    turn = kernel.ask("A", "a").model_copy(update={"steps": steps})
    undo = kernel.undo("undo", "u", 1).model_copy(update={"head": Ref(id=turn.id, step=2)})
    book = Book([CellEntry("a", "A", (turn,)), CellEntry("u", "undo", (undo,))])
    (sent,) = book.conversation(undo).sent
    assert [step.content for step in sent.steps] == ["a"]
    assert book.conversation(undo).turns == (turn,), "its record stays as it is"
    assert book.conversation(turn).sent == book.conversation(turn).turns == (turn,)


@each_row(
    ("keys", "key", "shown"),
    [
        (["K"], "K", [0]),
        (["K", "K"], "K", [1]),
        (["J", "K"], "J", [0]),
        (["J"], "K", []),
        (["K", flow_key("K", 1), flow_key("K", 2)], "K", [0, 1, 2]),
        (["K", flow_key("K", 1), "K"], "K", [2]),
        (["K", "undo K", "K"], "K", [1, 2]),
        (["K", "undo K", "J", "K"], "K", [3]),
        (["undo 1", "undo 1"], "undo 1", [1]),
    ],
)
def test_a_cell_shows_what_its_last_run_with_its_text_made(keys, key, shown):
    kernel = Kernel(itertools.count(1))
    made = [
        kernel.undo(each.removeprefix("undo ") if each.endswith("K") else each, "c", 0)
        if each.startswith("undo")
        else kernel.ask(each, "c")
        for each in keys
    ]
    assert [*last_run(made, key)] == [made[n] for n in shown]


def test_no_cell_plays_the_answer_of_another_because_of_where_it_stands():
    page = Page()
    playback = Playback(page.book)
    first = page.cells[0]
    for key, cell_id in (("new", None), ("new", first.id), ("two", first.id), ("new", "unknown")):
        with pytest.raises(NotRecorded):
            playback.play(key, cell_id)
    assert played(playback, "two", "pasted with its text", of_another=True) == page.cells[1].shown
    page.add("one")
    with pytest.raises(AmbiguousTurn):
        Playback(page.book).play("one", "pasted with its text")
    assert played(Playback(page.book), "one", None) == first.shown


def test_where_the_file_has_no_ids_those_of_the_front_end_count_for_nothing():
    page = Page()
    page.add("one")
    playback = Playback(Book([CellEntry(None, cell.key, sort_records(cell.shown)) for cell in page.cells]))
    for n, cell in enumerate(page.cells):
        assert played(playback, cell.key, f"made up {n}") == cell.shown


def test_sessions_of_other_names_are_conversations_of_their_own():
    page, names = Page(), itertools.count(100)
    beside = Kernel(names).ask("one", "b")
    book = Book([*page.book.cells, CellEntry("b", "one", (beside,), "beside")])
    assert book.head("beside") == beside
    assert book.conversation(beside).turns == (beside,)
    assert [turn.key for turn in book.conversation(book.head()).turns] == ["one", "two"]
    assert played(Playback(book, "beside"), "one", None) == [beside]
