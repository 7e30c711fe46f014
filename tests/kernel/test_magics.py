"""The options of %%kin: what each does to a turn, and what running an answered cell again means."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from notebook_client import LiveKernel, run, shown

from tests.model_server import tool_call

pytestmark = [pytest.mark.kernel, pytest.mark.one_kernel]

EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 2")


@pytest.fixture
def nb(nb: LiveKernel) -> Iterator[LiveKernel]:
    """Settings do not outlive the test: others use the kernel too."""
    yield nb
    run(nb, "if get_ipython().config.pop('KinMagics', None): pass")


def prompts(server) -> list[list[str]]:
    """The person's words in each request."""
    return [[m["content"] for m in request["messages"] if m["role"] == "user"] for request in server.requests]


def failure(nb: LiveKernel, cell: str) -> str:
    nb.done(cell)
    return next(m["content"]["evalue"] for m in nb.of(cell) if m["msg_type"] == "error")


def value(nb: LiveKernel, expression: str) -> str:
    return nb.text(run(nb, f"print({expression})")).removesuffix("\n")


def test_out_binds_the_reply(kin, model_server):
    model_server.enqueue("First.", calls=[tool_call("read_file", path="a.py")])
    model_server.enqueue("The answer is **2**.\n")
    run(kin, "%%kin --out answer\ngo")
    assert value(kin, "repr(answer)") == "'The answer is **2**.'"


def test_fresh_begins_a_new_conversation(kin, model_server):
    for text in ("one", "two"):
        model_server.enqueue(text)
    run(kin, "%%kin\nfirst")
    kin.done(kin.run("%%kin --new\nsecond", cell="cell-2"))
    assert prompts(model_server) == [["first"], ["second"]]


def test_no_tools_says_so_to_the_model_and_runs_none(kin, model_server, tmp_path):
    model_server.enqueue("I write all the same.", calls=[EDIT])
    model_server.enqueue("Then not.")
    model_server.enqueue("With tools again.")
    cell = kin.run("%%kin --no-tools --mode auto-approve\ngo")
    kin.done(cell)
    assert model_server.requests[0]["tool_choice"] == "none"
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    kin.done(kin.run("%%kin --mode default\ngo on", cell="cell-2"))
    assert model_server.requests[2]["tool_choice"] == "auto"


def test_limits_are_about_one_cell(kin, model_server):
    for n in range(2):
        model_server.enqueue(f"Step {n}.", calls=[tool_call("read_file", path="a.py")])
    model_server.enqueue("Done.")
    cell = kin.run("%%kin --max-turns 1\ngo")
    kin.done(cell)
    assert "limit of 1 model request reached" in shown(kin, cell)
    again = kin.run("%%kin --max-turns 1\ngo on", cell="cell-0")
    kin.done(again)
    assert "limit of 1 model request reached" in shown(kin, again)
    after = kin.run("%%kin\ngo on", cell="cell-2")
    kin.done(after)
    assert "Done." in shown(kin, after)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--out 1x", "--out needs a variable name such as `answer`, got '1x'"),
        ("--max-price much", "--max-price must be a number in USD, 0 or more, such as 0.50; got 'much'"),
        ("--max-price nan", "such as 0.50; got 'nan'"),
        ("--max-requests 0", "--max-requests must be a whole number, 1 or more; got '0'"),
        ("--max-turns 2.5", "--max-requests must be a whole number, 1 or more; got '2.5'"),
        ("--retry --cached", "--cached and --retry exclude each other. Use one of them."),
        ("--wrong", "unknown option --wrong"),
    ],
)
def test_a_wrong_option_names_itself_and_asks_no_one(kin, model_server, line, said):
    assert said in failure(kin, kin.run(f"%%kin {line}\ngo"))
    assert not model_server.requests


def test_sessions_of_one_notebook_know_nothing_of_each_other(kin, model_server):
    for text in ("one", "two", "three"):
        model_server.enqueue(text)
    run(kin, "%%kin\nfirst")
    kin.done(kin.run("%%kin --session other\nsecond", cell="cell-2"))
    kin.done(kin.run("%%kin\nthird", cell="cell-3"))
    assert prompts(model_server) == [["first"], ["second"], ["first", "third"]]
    cell = kin.run("%kin --session other last", cell="cell-4")
    kin.done(cell)
    assert "two" in shown(kin, cell)


def test_an_answered_cell_shows_its_answer_again_and_says_how_to_ask_again(kin, model_server):
    model_server.enqueue("The answer.")
    run(kin, "%%kin --out answer\ngo")
    cell = kin.run("%%kin --out answer\ngo")
    kin.done(cell)
    assert "The answer." in shown(kin, cell)
    assert "To ask the model again: `%%kin --retry`." in shown(kin, cell)
    assert len(model_server.requests) == 1


def test_retry_asks_again_from_where_it_was_asked_and_undoes_what_came_after(kin, model_server, tmp_path):
    model_server.enqueue("I change x.", calls=[EDIT])
    model_server.enqueue("Changed.")
    model_server.enqueue("Better.")
    kin.done(kin.run("%%kin --mode auto-approve\ngo"))
    assert (tmp_path / "a.py").read_text() == "x = 2\n"
    cell = kin.run("%%kin --retry --mode auto-approve\ngo")
    kin.done(cell)
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    assert prompts(model_server)[-1] == ["go"]
    assert "a.py" in shown(kin, cell)
    assert "Better." in shown(kin, cell)


def test_a_retry_that_is_run_again_asks_again(kin, model_server):
    for text in ("one", "two", "three"):
        model_server.enqueue(text)
    run(kin, "%%kin\ngo")
    run(kin, "%%kin --retry\ngo")
    run(kin, "%%kin --retry\ngo")
    assert prompts(model_server) == [["go"], ["go"], ["go"]]


def test_an_answered_cell_with_the_option_live_asks_as_a_new_turn(kin, model_server):
    model_server.enqueue("one")
    model_server.enqueue("two")
    model_server.enqueue("three")
    run(kin, "%%kin --live\ngo")
    run(kin, "%%kin --live\ngo")
    assert prompts(model_server)[-1] == ["go", "go"]


def test_once_the_person_has_said_live_every_cell_asks(kin, model_server):
    model_server.enqueue("one")
    model_server.enqueue("two")
    run(kin, "%%kin\ngo")
    assert "record mode new" in shown(kin, run(kin, "%kin status"))
    run(kin, "%kin live")
    assert "record mode all" in shown(kin, run(kin, "%kin status"))
    run(kin, "%%kin\ngo")
    assert prompts(model_server)[-1] == ["go", "go"]


def test_retry_takes_the_edited_prompt(kin, model_server):
    model_server.enqueue("one")
    model_server.enqueue("two")
    run(kin, "%%kin\ngo")
    run(kin, "%%kin --retry\ngo slowly")
    assert prompts(model_server) == [["go"], ["go slowly"]]


def test_replay_shows_the_answer_or_fails(kin, model_server):
    model_server.enqueue("one")
    assert "This cell has no saved answer" in failure(kin, kin.run("%%kin --cached\ngo"))
    run(kin, "%%kin\ngo")
    cell = kin.run("%%kin --cached\ngo")
    kin.done(cell)
    assert "one" in shown(kin, cell)
    assert len(model_server.requests) == 1


def test_the_setting_mode_is_what_a_session_begins_in_unless_one_is_chosen(kin, model_server):
    run(kin, "%config KinMagics.mode = 'plan'")
    for text in ("one", "two"):
        model_server.enqueue(text)
    run(kin, "%%kin\ngo")
    kin.done(kin.run("%%kin --session other --mode accept-edits\ngo", cell="cell-2"))
    run(kin, "%kin --session third mode accept-edits")
    modes = [run(kin, f"%kin {session}mode") for session in ("", "--session other ", "--session third ")]
    assert ["plan" in shown(kin, cell).split("\n")[0] for cell in modes] == [True, True, False]


@pytest.mark.parametrize("how", ["done", "fails"])
def test_the_mode_of_a_cell_is_that_cells_alone(kin, model_server, tmp_path, how):
    if how == "done":
        model_server.enqueue("I change x.", calls=[EDIT])
        model_server.enqueue("Changed.")
    else:
        model_server.enqueue(status=400)
    cell = kin.run("%%kin --mode auto-approve\ngo")
    kin.done(cell)
    assert "auto-approve mode · " in shown(kin, cell)
    assert (tmp_path / "a.py").read_text() == ("x = 2\n" if how == "done" else "x = 1\n")
    model_server.enqueue("I write a file.", calls=[tool_call("write_file", path="new.py", content="")])
    later = kin.run("%%kin\ngo on", cell="cell-2")
    kin.card(later)
    kin.click("Reject")
    kin.done(later)
    assert "mode · " not in shown(kin, later)
    assert not (tmp_path / "new.py").exists()
    assert shown(kin, run(kin, "%kin mode")).startswith("Mode: default")


def test_a_mode_that_is_chosen_by_the_command_stays_and_is_on_every_summary_line(kin, model_server):
    run(kin, "%kin mode accept-edits")
    for text in ("one", "two", "three"):
        model_server.enqueue(text)
    first = run(kin, "%%kin\ngo")
    kin.done(between := kin.run("%%kin --mode plan\ngo on", cell="cell-2"))
    kin.done(last := kin.run("%%kin\nand on", cell="cell-3"))
    for cell, mode in ((first, "accept-edits"), (between, "plan"), (last, "accept-edits")):
        assert shown(kin, cell).split("\n")[-1].startswith(f"{mode} mode · 1 model request · ")


def test_the_same_prompt_in_another_cell_is_asked(kin, model_server):
    model_server.enqueue("one")
    model_server.enqueue("two")
    run(kin, "%%kin\ngo on")
    kin.done(kin.run("%%kin\ngo on", cell="cell-2"))
    assert len(model_server.requests) == 2


def test_a_cap_on_the_notebook_holds_for_every_cell(kin, model_server, tmp_path):
    config = tmp_path / "kin-home" / "config.toml"
    config.write_text(config.read_text() + "input_price = 1000.0\noutput_price = 1000.0\n")
    model_server.enqueue("one")
    run(kin, "%config KinMagics.max_price = 0.001")
    run(kin, "%%kin\ngo")
    cell = kin.run("%%kin\nmore", cell="cell-2")
    kin.done(cell)
    assert "Price limit" in shown(kin, cell)
    cell = kin.run("%%kin --session other --max-price 5\nmore", cell="cell-3")
    kin.done(cell)
    assert re.search(r"Price limit exceeded: \$\d+\.\d{4} > \$0\.0010", shown(kin, cell))
    assert len(model_server.requests) == 1
