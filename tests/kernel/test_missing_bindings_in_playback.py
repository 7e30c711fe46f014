"""A played turn's Python, where cells miss the variables that it bound: the user is asked, and it is decided as a live call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from notebook_client import LiveKernel, kept_outputs, run, shown
from page import Page

from kin_nb.core.safety.audit import AuditEntry
from kin_nb.replay.binding_cells import BINDING_TAG
from tests.model_server import ModelServer, tool_call

pytestmark = [pytest.mark.kernel, pytest.mark.one_kernel]

ASKS = "Run its Python code again?"
PROMPT = "%%kin --mode auto-approve\nClean it."
BINDS = "import math\nran.append('clean')\nclean = math.floor(2.5)\nprint('cleaned')"
RAN = "The Python code of this answer ran again: `clean`"
FORGOTTEN = "globals().update(ran=[], hang=[])\nfor name in ('clean', 'fig', 'math', 'sum'): globals().pop(name, None)"

Live = Callable[..., Page]


@pytest.fixture
def live(kin: LiveKernel, opens, model_server: ModelServer, tmp_path) -> Live:
    """`live((prompt, *codes), ..., cells=...)`: the agent runs each code for its prompt; its cells follow, then `cells`.

    The front end saves all of it, and the kernel forgets what it bound.
    """

    def make(*prompts: tuple[str, ...], cells: tuple[str, ...] = (), metadata: dict | None = None) -> Page:
        opens(tmp_path / "mine.ipynb")
        page = Page(kin, tmp_path / "mine.ipynb")
        page.nb["metadata"].update(metadata or {})
        page.save()
        run(kin, "%load_ext kin_nb")
        run(kin, FORGOTTEN)
        for prompt, *codes in prompts:
            for code in codes:
                arguments = code if isinstance(code, dict) else {"code": code}
                model_server.enqueue("I run it.", calls=[tool_call("python", **arguments)])
            model_server.enqueue("Done.")
            page.type(prompt)
            assert page.run(page.cells[-1]) == "ok", page.said
        for source in cells:
            page.type(source)
            page.run(page.cells[-1])
        page.save()
        restart(page)
        kin.quietly("import os; os.environ.pop('KIN_APPROVAL')")
        return page

    return make


@pytest.fixture
def page(live) -> Page:
    """A prompt whose Python bound `clean`, and a cell that uses it."""
    return live((PROMPT, BINDS), cells=("print(clean)",))


def restart(page: Page) -> None:
    run(page.kin, "%unload_ext kin_nb")
    run(page.kin, FORGOTTEN)
    run(page.kin, "%load_ext kin_nb")


def begin(page: Page, number: int = 0) -> str:
    cell = page.cells[number]
    return page.kin.run(cell["source"], cell=cell["id"])


def ended(page: Page, ran: str) -> str:
    """What a cell shows that ended well."""
    reply = page.kin.done(ran)["content"]
    assert reply["status"] == "ok", reply
    return shown(page.kin, ran)


def value(page: Page, expression: str) -> str:
    return page.kin.text(run(page.kin, f"print({expression})")).strip()


def configure(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kin-home" / "config.toml"
    path.write_text(f"{path.read_text()}\n{text}\n")


def ask_and_run(page: Page, number: int = 0) -> str:
    ran = begin(page, number)
    page.kin.card(ran, ASKS)
    page.kin.click("Run it")
    return ended(page, ran)


@pytest.mark.row("its Python bound variables that cells use, and that are missing now")
def test_the_user_is_asked_with_all_of_the_code_and_then_it_runs(page):
    """Also where the cell itself says auto-approve: what a notebook says for itself allows nothing."""
    ran = begin(page)
    card = page.kin.card(ran, ASKS)["content"]["data"]["text/plain"]
    assert card.startswith(
        "Cells below need `clean`, which this answer assigned. Run its Python code again?\n  Reason: python may touch anything"
    )
    assert all(f"  {line}\n" in card for line in BINDS.splitlines())
    page.kin.click("Run it")
    assert ended(page, ran).endswith(f"\n{RAN}")
    assert page.kin.text(ran) == "", "what it prints is in the turn's cards already"
    assert value(page, "clean, ran") == "2 ['clean']"


def test_the_outputs_of_the_turn_are_those_of_the_live_one_and_one_line_follows(page):
    before = page.cells[0]["outputs"]
    ran = begin(page)
    page.kin.card(ran, ASKS)
    page.kin.click("Run it")
    page.kin.done(ran)
    after = kept_outputs(page.kin, ran)[1:]  # the notice that recorded answers are shown
    assert [each["data"] for each in after[:-1]] == [each["data"] for each in before]
    assert after[-1]["data"]["text/plain"] == RAN


def test_the_page_with_that_line_plays_and_saves_as_before(page, tmp_path):
    ran = begin(page)
    page.kin.card(ran, ASKS)
    page.kin.click("Run it")
    page.kin.done(ran)
    page.cells[0]["outputs"] = kept_outputs(page.kin, ran)
    page.save()
    restart(page)
    assert RAN in ask_and_run(page)
    run(page.kin, "%kin save saved.kin.ipynb")
    assert "ran again" not in (tmp_path / "saved.kin.ipynb").read_text()


def test_no_model_is_asked_no_log_begins_and_the_audit_log_has_the_decision(page, tmp_path, model_server):
    sessions = sorted((tmp_path / "kin-home" / "sessions").iterdir())
    asked = len(model_server.requests)
    config = tmp_path / "kin-home" / "config.toml"
    config.write_text(config.read_text().replace("[[models]]", 'api_key_env_var = "KEY_THAT_IS_NOT_SET"\n[[models]]'))
    ask_and_run(page)
    assert len(model_server.requests) == asked
    assert sorted((tmp_path / "kin-home" / "sessions").iterdir()) == sessions
    last = AuditEntry.model_validate_json((tmp_path / "kin-home" / "audit.jsonl").read_text().splitlines()[-1])
    assert (last.tool, last.turn, last.verdict, last.by) == ("python", 1, "allow", "person")
    assert "playback" in shown(page.kin, run(page.kin, "%kin status"))


def test_an_audit_log_that_cannot_be_written_is_a_line_of_the_notice(page, tmp_path):
    log = tmp_path / "kin-home" / "audit.jsonl"
    log.unlink()
    log.mkdir()
    assert "audit.jsonl cannot be written" in ask_and_run(page).rpartition(RAN)[2]


def test_it_is_not_asked_while_the_names_are_there_and_again_once_they_are_not(page):
    ask_and_run(page)
    assert ASKS not in ended(page, begin(page))
    run(page.kin, "del clean")
    assert RAN in ask_and_run(page)


def test_left_the_cell_ends_well_and_run_all_continues(page):
    first, second = begin(page), begin(page, 1)
    page.kin.card(first, ASKS)
    page.kin.click("Leave it")
    assert ended(page, first).endswith("\nThe Python code of this answer was not run again: `clean`")
    assert page.kin.done(second)["content"]["ename"] == "NameError"
    assert value(page, "ran") == "[]"


def test_two_cells_ask_one_after_the_other_under_run_all(live):
    second = "import json\nprint(json)"
    draw = ("%%kin --mode auto-approve\nDraw it.", second, "fig = json.dumps([clean])")
    page = live((PROMPT, BINDS), draw, cells=("print(fig)",))
    sent = [begin(page, number) for number in range(3)]
    for ran, names in zip(sent, ("`clean`", "`fig`"), strict=False):
        page.kin.card(ran, f"Cells below need {names}, which this answer assigned. {ASKS}")
        page.kin.click("Run it")
        assert ended(page, ran).endswith(f"The Python code of this answer ran again: {names}")
    ended(page, sent[2])
    assert page.kin.text(sent[2]) == "[2]\n"


def test_a_variable_that_no_cell_uses_is_no_question(live):
    page = live((PROMPT, BINDS), cells=("clean = 1\nprint(clean)", "[clean for clean in ()]", "'clean'"))
    assert "Run its Python" not in ended(page, begin(page))


def test_in_a_saved_notebook_its_own_cell_binds_them_until_it_is_deleted(page, opens, tmp_path):
    run(page.kin, "%kin save saved.kin.ipynb")
    saved = Page(page.kin, tmp_path / "saved.kin.ipynb")
    saved.kin.quietly("import os; os.environ.pop('KIN_APPROVAL')")
    opens(saved.path)
    restart(saved)
    for number in range(len(saved.cells)):
        ended(saved, begin(saved, number))
    assert value(saved, "clean, ran") == "2 ['clean']"
    saved.nb["cells"] = [cell for cell in saved.cells if BINDING_TAG not in cell["metadata"].get("tags", [])]
    saved.save()
    restart(saved)
    ended(saved, begin(saved))
    assert RAN in ask_and_run(saved, 1)


def test_the_settings_of_the_user_forbid_it(page, tmp_path):
    configure(tmp_path, '[tools.python]\npermission = "never"')
    why = "your configuration forbids this call of python ([tools.python])"
    assert ended(page, begin(page)).endswith(
        f"\nThe Python code of this answer was not run again: `clean` is missing\n  {why}"
    )
    assert value(page, "ran") == "[]"


def test_a_tool_that_is_switched_off_does_not_run(page, tmp_path):
    config = tmp_path / "kin-home" / "config.toml"
    config.write_text(f'disabled_tools = ["python"]\n{config.read_text()}')
    assert ended(page, begin(page)).endswith("  The tool 'python' is disabled in this session.")
    assert value(page, "ran") == "[]"


def test_in_plan_mode_it_does_not_run(page):
    run(page.kin, "%kin mode plan")
    assert "`clean` is missing\n  plan mode is on, and " in ended(page, begin(page))
    assert value(page, "ran") == "[]"


@pytest.mark.parametrize("how", ["mode", "policy", "permission"])
def test_where_the_user_lets_everything_run_it_runs_and_says_why(page, tmp_path, how):
    if how == "mode":
        run(page.kin, "%kin mode auto-approve")
    elif how == "policy":
        config = tmp_path / "kin-home" / "config.toml"
        config.write_text(f'policy = "yolo"\n{config.read_text()}')
    else:
        configure(tmp_path, '[tools.python]\npermission = "always"')
    why = "your configuration allows this call of python ([tools.python])"
    why = why if how == "permission" else "auto-approve: everything runs without asking"
    assert ended(page, begin(page)).endswith(f"\n{RAN} ({why})")
    assert value(page, "clean, ran") == "2 ['clean']"


@pytest.mark.parametrize("line", ["%kin mode auto-approve", "%config KinMagics.mode = 'auto-approve'"])
def test_a_mode_that_a_cell_of_the_notebook_chooses_lets_nothing_run(page, line):
    page.type(line)
    page.save()
    ended(page, begin(page, 2))
    ran = begin(page)
    page.kin.card(ran, ASKS)
    page.kin.click("Leave it")
    ended(page, ran)
    run(page.kin, "%config KinMagics.mode = None")
    assert value(page, "ran") == "[]"


def test_an_error_is_two_lines_and_the_next_run_asks_again(live, tmp_path):
    (tmp_path / "there.txt").write_text("2")
    page = live((PROMPT, "ran.append('clean')\nclean = int(open('there.txt').read())"), cells=("print(clean)",))
    (tmp_path / "there.txt").unlink()
    text = ask_and_run(page)
    assert text.splitlines()[-2:] == [
        (
            "The Python code of this answer failed when it ran again: "
            "FileNotFoundError: [Errno 2] No such file or directory: 'there.txt'"
        ),
        "  Afterwards `clean` is missing. Fix what the code needs, then run this cell again.",
    ]
    (tmp_path / "there.txt").write_text("3")
    assert RAN in ask_and_run(page)
    assert value(page, "clean") == "3"


def test_code_that_failed_when_it_was_recorded_binds_what_it_bound(live):
    page = live((PROMPT, "clean = 1\nclean / 0", "fig = clean + 1"), cells=("print(clean, fig)",))
    ran = begin(page)
    card = page.kin.card(ran, ASKS)["content"]["data"]["text/plain"]
    assert "\nPart 1 of 2:\n  try:\n      clean = 1\n" in card
    page.kin.click("Run it")
    assert ended(page, ran).endswith("\nThe Python code of this answer ran again: `clean`, `fig`")
    assert value(page, "clean, fig") == "1 2"


def test_a_variable_that_the_code_does_not_bind_this_time_is_named(live):
    page = live((PROMPT, "if not hang: clean = 1"), cells=("print(clean)",))
    run(page.kin, "hang = [1]")
    assert ask_and_run(page).endswith("\nThe Python code of this answer ran again: `clean` is missing")


def test_an_interrupt_stops_the_question(page):
    ran = begin(page)
    page.kin.card(ran, ASKS)
    page.kin.interrupt()
    assert page.kin.done(ran)["content"]["ename"] == "TurnInterrupted"
    assert shown(page.kin, ran).endswith(
        "The Python code of this answer was not run again: `clean` is missing\n  It was interrupted."
    )


HANGS = "while hang: hang.append(1)\nclean = 1"
HANGING = """class Hanging:
    tells = True
    def append(self, _):
        if self.tells:
            self.tells, kernel = False, get_ipython().kernel
            kernel.session.send(kernel.iopub_socket, "stream", {"name": "stdout", "text": "hanging"}, parent=PARENT)

PARENT = get_ipython().kernel.get_parent()
hang = Hanging()
"""


def test_an_interrupt_stops_the_code(live):
    page = live((PROMPT, HANGS), cells=("print(clean)",))
    run(page.kin, HANGING)
    ran = begin(page)
    page.kin.card(ran, ASKS)
    page.kin.click("Run it")
    page.kin.until(lambda message: message["content"].get("text") == "hanging")
    page.kin.interrupt()
    assert page.kin.done(ran)["content"]["ename"] == "TurnInterrupted"
    assert "`clean` is missing\n  It was interrupted." in shown(page.kin, ran)


def test_the_time_limit_of_the_call_holds(live):
    page = live((PROMPT, {"code": HANGS, "timeout": 1}), cells=("print(clean)",))
    run(page.kin, HANGING)
    assert "The Python code of this answer failed when it ran again: its time limit of 1 s was up" in ask_and_run(page)


def test_a_console_is_asked_by_input_with_all_of_the_code(page):
    ran = page.kin.run(page.cells[0]["source"], cell=None)
    prompt = page.kin.prompt()
    assert all(f"  {line}\n" in prompt for line in BINDS.splitlines())
    assert prompt.endswith("\n1) Run it\n2) Leave it\nanswer or number: ")
    page.kin.answer("1")
    ended(page, ran)
    assert value(page, "clean") == "2"


def test_where_no_user_can_answer_it_does_not_run_and_a_notice_says_what_to_do(page, tmp_path):
    run(page.kin, "%kin mode auto-approve")
    configure(tmp_path, '[tools.python]\npermission = "always"')
    page.kin.quietly("import os; os.environ['KIN_APPROVAL'] = 'headless'")
    assert ended(page, begin(page)).splitlines()[-3:] == [
        "Missing variables: `clean`. The Python code of this answer did not run again",
        "  Cells of this notebook use these variables, and no user can be asked here.",
        "  To make a notebook whose cells assign them: `kin-nb save mine.ipynb`",
    ]
    assert value(page, "ran") == "[]"


def test_a_named_session_asks_for_its_own_and_stays_in_playback(live, model_server):
    page = live(("%%kin --session other --mode auto-approve\nClean it.", BINDS), ("%%kin\nHello.",), cells=("clean",))
    asked = len(model_server.requests)
    assert RAN in ask_and_run(page)
    assert "playback" in shown(page.kin, run(page.kin, "%kin --session other status"))
    assert len(model_server.requests) == asked


def test_a_live_notebook_asks_nothing(page, model_server):
    """As before: there the answer is shown again, and what it bound is not looked at."""
    model_server.enqueue("It goes on.")
    run(page.kin, "%%kin --live\nGo on.")
    assert "The saved answer is shown" in ended(page, begin(page))
    assert value(page, "ran") == "[]"
