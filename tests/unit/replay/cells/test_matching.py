"""A cell's key, and which of its records are of one run."""

from __future__ import annotations

import random

import pytest

from kin_nb.core.records import ClearRecord, CompactRecord, RecordedCompaction
from kin_nb.replay.cell_keys import (
    cell_key,
    cell_runs,
    command_key,
    flow_key,
    flow_turns,
    is_answer,
    last_answer,
    last_run,
)
from tests.table import each_row
from tests.unit.replay.sessions import recording, turn, undo

# Keys

SAME = {
    "line ends": "a\r\nb",
    "blanks at line ends": "a  \nb\t",
    "blank lines at the end": "a\nb\n\n \n",
    "an nbval mark": "a\n# NBVAL_IGNORE_OUTPUT\nb",
}


@pytest.mark.parametrize("what", SAME)
def test_what_editors_change_is_no_part_of_the_key(what):
    assert cell_key(SAME[what], "") == cell_key("a\nb", "")


def test_decomposed_characters_are_the_same_text():
    assert cell_key("e\u0301", "") == cell_key("\u00e9", "")


def test_words_indents_and_options_are_part_of_the_key():
    keys = {cell_key("a\nb", ""), cell_key("a\n b", ""), cell_key("a b", ""), cell_key("a\nb", "--mode plan")}
    assert len(keys) == 4
    assert cell_key("a", " --mode   plan ") == cell_key("a", "--mode plan")
    assert cell_key("a", "b") != cell_key("b", "a")


def test_commands_turns_of_a_flow_and_prompts_never_have_the_same_key():
    prompts = [cell_key(text, "") for text in ("undo 1", "undo", "clear", "command")]
    commands = [command_key(text) for text in ("undo 1", "undo 2", "redo", "clear", "compact")]
    flows = [flow_key(key, number) for key in (*prompts, *commands) for number in (1, 2)]
    every = [*prompts, *commands, *flows]
    assert len(set(every)) == len(every)


# Runs. `A` a turn with that prompt; `A+1` the one after it of a flow; `uA` the undo that made room for A's new answer; `u` an
# undo that was asked for, `r` a redo, `c` a clear, `s` a compaction. What each run has stands together.

RUNS = {
    "nothing": ("", ""),
    "one turn": ("A", "A"),
    "two prompts": ("A B", "A|B"),
    "run again": ("A A", "A|A"),
    "a flow": ("A A+1 A+2", "A A+1 A+2"),
    "a flow, and its prompt alone": ("A A+1 A", "A A+1|A"),
    "two flows": ("A A+1 A A+1", "A A+1|A A+1"),
    "a flow with a gap": ("A A+2", "A|A+2"),
    "what follows another prompt is of no flow of this one": ("A B A+1", "A|B|A+1"),
    "asked again": ("A uA A", "A|uA A"),
    "asked again twice": ("A uA A uA A", "A|uA A|uA A"),
    "a flow asked again": ("A A+1 uA A A+1", "A A+1|uA A A+1"),
    "room was made, and nothing was asked": ("A uA", "A|uA"),
    "room was made for another": ("A uA B", "A|uA|B"),
    "room was made twice": ("A uA uA A", "A|uA|uA A"),
    "an undo and a prompt": ("u A", "u|A"),
    "an undo twice": ("u u", "u|u"),
    "an undo, a redo": ("u r", "u|r"),
    "a clear, a compaction": ("c s c", "c|s|c"),
    "a prompt after a clear": ("c A", "c|A"),
}


def made(words: str):
    """The records, in their order."""
    found = []
    for n, word in enumerate(words.split(), 1):
        prompt, _, number = word.removeprefix("u").partition("+")
        key = cell_key(prompt, "")
        known = {"id": f"{n:016x}", "seq": n}
        moved = {**known, "key": command_key({"u": "undo 1", "r": "redo", "c": "clear", "s": "compact"}.get(word, ""))}
        if word == "c":
            found.append(ClearRecord(**moved))
        elif word == "s":
            found.append(CompactRecord(**moved, compaction=RecordedCompaction(summary="all")))
        elif word[0] in "ur":
            fields = (
                {**moved, "key": key}
                if prompt and word != "r"
                else {**moved, "type": "redo" if word == "r" else "undo"}
            )
            found.append(undo(turn(1, "x"), **fields))
        else:
            found.append(
                turn(n, prompt, **known).model_copy(update={"key": flow_key(key, int(number)) if number else key})
            )
    return found


@each_row("row", RUNS)
def test_which_records_are_of_one_run(row):
    words, expected = RUNS[row]
    names = dict(zip([record.id for record in made(words)], words.split(), strict=True))
    assert "|".join(" ".join(names[record.id] for record in run) for run in cell_runs(made(words))) == expected


def test_a_turn_that_continues_elsewhere_than_the_undo_before_it_leads_to_is_a_run_of_its_own():
    first, room, again = made("A uA A")
    assert [len(run) for run in cell_runs([first, room, again])] == [1, 2]
    elsewhere = again.model_copy(update={"parent": first.head})
    assert [len(run) for run in cell_runs([first, room, elsewhere])] == [1, 1, 1]


LAST = {
    "run again": ("A A", "A", [1]),
    "edited since": ("A B", "A", [0]),
    "edited, and put back": ("A B A", "A", [2]),
    "never asked with that text": ("A B", "C", []),
    "no text that asks": ("A B", "", []),
    "asked again": ("A uA A", "A", [1, 2]),
    "a flow": ("A A+1 B", "A", [0, 1]),
    "not by the text of its second turn": ("A A+1", "A+1", []),
}


@each_row("row", LAST)
def test_what_the_last_run_with_a_text_made(row):
    words, key, expected = LAST[row]
    records = made(words)
    prompt, _, number = key.partition("+")
    wanted = flow_key(cell_key(prompt, ""), int(number)) if number else cell_key(prompt, "") if prompt else ""
    assert [*last_run(records, wanted)] == [records[n] for n in expected]


@each_row("seed", range(60), long=range(60, 200))
def test_runs_leave_nothing_out_and_the_last_one_is_of_its_text_whatever_was_run(seed):
    dice = random.Random(seed)
    words = [dice.choice(["A", "A+1", "A+2", "B", "uA", "uB", "u", "r", "c", "s"]) for _ in range(dice.randrange(12))]
    records = made(" ".join(words))
    found = [*cell_runs(records)]
    assert [record for run in found for record in run] == records
    for key in {record.key for record in records}:
        run = last_run(records, key)
        assert (run in found and run[0].key == key) or (not run and all(each[0].key != key for each in found))
        later = found[found.index(run) + 1 :] if run else []
        assert all(each[0].key != key for each in later)


# Answers in a conversation as it stands


def test_a_cell_that_ran_has_its_answer_by_its_id_and_its_text():
    one, two = recording(turn(1, "a", cell_id="x"), turn(2, "b", cell_id="y")).turns
    assert last_answer((one, two), one.key, "x") == (one,)
    for key, cell_id in ((one.key, "y"), (two.key, "x"), (one.key, None), ("", "x")):
        assert last_answer((one, two), key, cell_id) == ()
    assert last_answer((one, two), two.key, "x", edited=True) == (one,)
    assert last_answer((one, two), two.key, None, edited=True) == ()


@pytest.mark.parametrize(
    ("outcome", "counts"), [("done", True), ("stopped", True), ("interrupted", False), ("error", False)]
)
def test_a_turn_that_failed_is_no_answer(outcome, counts):
    only = turn(1, "a", cell_id="x", outcome=outcome)
    assert is_answer(only) is counts
    assert bool(last_answer((only,), only.key, "x")) is counts
    assert last_answer((only,), only.key, "x", edited=True) == (only,), "it is named also then"


def test_a_flow_is_one_answer_and_its_last_turn_says_whether_it_is_one():
    first, second, third = (turn(n, "a", cell_id="x") for n in (1, 2, 3))
    flow = (
        first,
        second.model_copy(update={"key": flow_key(first.key, 1)}),
        third.model_copy(update={"key": flow_key(first.key, 2)}),
    )
    assert flow_turns(flow, 0) == flow
    assert last_answer(flow, first.key, "x") == flow
    assert last_answer((*flow[:2], flow[2].model_copy(update={"outcome": "error"})), first.key, "x") == ()
    again = turn(4, "a", cell_id="x")
    assert last_answer((*flow, again), first.key, "x") == (again,)
