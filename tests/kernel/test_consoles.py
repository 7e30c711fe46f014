"""Consoles: the real programs under a pseudo-terminal, and clients that are no JupyterLab, as they speak to the kernel."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pexpect
import pytest
from notebook_client import WIDGET_VIEW, LiveKernel, run, shown

from kin_nb.cli import main
from tests.model_server import ModelServer, tool_call
from tests.notebook.people import ROOT, environment, write_config

pytestmark = [
    pytest.mark.kernel,
    # Python 3.12 warns whenever a process with threads forks, and the model server is one
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
STYLES = r"(?:\x1b\[[0-9;]*m)*"
ASKS = "refuse and tell the agent: "
EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 2")
TABLE = "| name | value |\n|---|---|\n| x | 2 |"
REPLY = f"# Done\n\n**x** is two.\n\n{TABLE}\n\n- one\n- two"


class Console:
    """A program with prompts `In [n]:`. What it prints for one cell comes back without escape sequences."""

    def __init__(self, argv: list[str], cwd: Path, env: dict[str, str]) -> None:
        self.child = pexpect.spawn(
            sys.executable, ["-m", *argv], cwd=str(cwd), env=env, encoding="utf-8", timeout=120, dimensions=(50, 120)
        )
        self.raw = ""
        self._count = 0
        self.prompted()

    @property
    def _prompt(self) -> str:
        return rf"In \[{STYLES}{self._count}{STYLES}\]: "

    def prompted(self) -> str:
        """What was printed until the next prompt."""
        self._count += 1
        return self.until(self._prompt)

    def until(self, pattern: str) -> str:
        self.child.expect(pattern)
        return self._printed()

    def _printed(self) -> str:
        self.raw = self.child.before
        return ESCAPES.sub("", self.raw).replace("\r", "")

    def send(self, cell: str) -> None:
        """As pasted. A cell magic runs with the second empty line."""
        self.child.send(f"\x1b[200~{cell}\x1b[201~" + ("\r\r\r" if "\n" in cell else "\r"))

    def run(self, cell: str) -> str:
        self.send(cell)
        return self.prompted()

    def answer(self, text: str) -> str:
        self.child.sendline(text)
        return self.prompted()

    def interrupt(self) -> str:
        """Ctrl-C. Python misses it between printing a question and waiting for the answer: then once more, as one does."""
        self._count += 1
        self.child.sendintr()
        if self.child.expect([self._prompt, pexpect.TIMEOUT], timeout=5):
            self.child.sendintr()
            return self.until(self._prompt)
        return self._printed()

    def close(self) -> None:
        if not self.child.closed:
            self.child.send("\x04")
            self.ended()

    def ended(self) -> None:
        self.child.expect(pexpect.EOF)
        self.child.close()
        assert self.child.exitstatus == 0


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    """Of all consoles here."""
    with ModelServer.start() as server:
        yield server
        assert server.violations == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("consoles")
    (folder / "workspace").mkdir()
    return folder


@pytest.fixture
def workspace(folder) -> Path:
    """The folder of all consoles, as it is at first."""
    (folder / "workspace" / "a.py").write_text("x = 1\n")
    return folder / "workspace"


@pytest.fixture(scope="module")
def start(folder, model: ModelServer) -> Iterator[Callable[[str], Console]]:
    """`start("ipython" | "console" | "kin")`: the model is the server. "kin" is the console of the Kin kernel."""
    home, begun = folder / "home", []
    write_config(home, model.url)
    assert main(["kernel", "install", "--prefix", str(folder / "prefix")]) == 0
    with tempfile.TemporaryDirectory(prefix="kin-") as sockets:
        console = ["jupyter_console", "--no-confirm-exit", "--transport=ipc", f"--ip={sockets}/k", "--kernel"]
        programs = {
            "ipython": ["IPython", "--no-banner", "--no-confirm-exit"],
            "console": [*console, "python3"],
            "kin": [*console, "kin"],
        }

        def start(program: str) -> Console:
            env = environment(home, PYTHONPATH=str(ROOT), IPYTHONDIR=str(folder / "ipython"))
            env |= {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1", "JUPYTER_RUNTIME_DIR": sockets}
            env["JUPYTER_PATH"] = str(folder / "prefix" / "share" / "jupyter")
            begun.append(Console(programs[program], folder / "workspace", env))
            return begun[-1]

        try:
            yield start
            for console in begun:
                console.close()
        finally:
            for console in begun:
                console.child.close(force=True)


@pytest.fixture(scope="module")
def started() -> dict[str, Console]:
    """By its program each console that tests share."""
    return {}


@contextmanager
def lent(program: str, start: Callable[[str], Console], started: dict[str, Console]) -> Iterator[Console]:
    """A console with a new session. After a test that failed there the next one gets another console."""
    console = started.pop(program, None) or start(program)
    assert "Error" not in console.run("%reload_ext kin_nb")
    yield console
    started[program] = console


@pytest.fixture(params=["ipython", "console"])
def console(request, start, started, workspace) -> Iterator[Console]:
    with lent(request.param, start, started) as console:
        yield console
        assert console.run("print(6 * 7)").strip().endswith("42")


@pytest.fixture
def ipython(start, started, workspace) -> Iterator[Console]:
    with lent("ipython", start, started) as console:
        yield console


def in_order(text: str, *parts: str) -> None:
    """Each part is there once, one after another."""
    assert [text.count(part) for part in parts] == [1] * len(parts), text
    places = [text.index(part) for part in parts]
    assert places == sorted(places), text


def approve_an_edit(console: Console, server: ModelServer) -> tuple[str, str]:
    """(what stood there up to the question, what came after the answer)."""
    server.enqueue("I change it.", calls=[EDIT])
    server.enqueue(REPLY, chunk=12)
    console.send("%%kin\nmake x two")
    asked = console.until(ASKS)
    return asked, console.answer("y")


def test_an_edit_is_asked_about_shown_and_undone(console, model, workspace):
    asked, answered = approve_an_edit(console, model)
    in_order(asked, "I change it.", "Allow this? edit a.py (+1 -1)", "-x = 1", "+x = 2", "y = allow\n")
    card = "[edit_file] a.py · +1 -1 · done · approved by you"
    in_order(
        answered,
        card,
        "# Done",
        "**x** is two.",
        TABLE,
        "- one\n- two",
        "2 model requests · 1 tool call · ",
        "s · done\n",
    )
    assert (workspace / "a.py").read_text() == "x = 2\n"
    in_order(console.run("%kin undo"), "Undid turn 1", "restored: a.py +1 -1", "To restore it: `%kin redo`")
    assert (workspace / "a.py").read_text() == "x = 1\n"


def test_other_words_than_a_letter_refuse_and_reach_the_agent(console, model, workspace):
    model.enqueue(calls=[EDIT])
    model.enqueue("As you say.")
    console.send("%%kin\nmake x two")
    console.until(ASKS)
    in_order(
        console.answer("rename it first"),
        "[edit_file] edit a.py (+1 -1) · refused: rename it first",
        "As you say.",
        "2 model requests",
    )
    assert "rename it first" in model.requests[-1]["messages"][-1]["content"]
    assert (workspace / "a.py").read_text() == "x = 1\n"


def test_interrupt_while_the_answer_is_written_and_the_next_cell_runs(console, model):
    hold = threading.Event()
    model.enqueue("The first paragraph.\n\nThe second one never ends.", chunk=40, hold=hold)
    console.send("%%kin\ntell me")
    console.until("The first paragraph.")
    assert "interrupted" in console.interrupt()
    hold.set()
    assert "1729" in console.run("print(1728 + 1)")


def test_interrupt_at_the_question_runs_nothing(console, model, workspace):
    model.enqueue(calls=[EDIT])
    console.send("%%kin\nmake x two")
    console.until(ASKS)
    assert "[edit_file] a.py · interrupted" in console.interrupt()
    assert (workspace / "a.py").read_text() == "x = 1\n"
    assert "1729" in console.run("print(1728 + 1)")


def test_in_the_kin_kernels_console_a_line_is_a_prompt(start, model, workspace):
    console = start("kin")
    model.enqueue("I change it.", calls=[EDIT])
    model.enqueue("Done.")
    console.send("make x two")
    in_order(console.until(ASKS), "I change it.", "Allow this? edit a.py (+1 -1)")
    in_order(console.answer("y"), "[edit_file] a.py · +1 -1 · done · approved by you", "Done.", "2 model requests")
    assert model.requests[-2]["messages"][-1]["content"].startswith("make x two")
    assert (workspace / "a.py").read_text() == "x = 2\n"


@pytest.mark.parametrize("word", ["exit", "quit", "exit()"])
def test_in_the_kin_kernels_console_exit_ends_the_console(start, model, word):
    requests = len(model.requests)
    console = start("kin")
    console.send(word)
    console.ended()
    assert "Traceback" not in console.child.before
    assert len(model.requests) == requests


def test_the_first_line_of_a_card_is_bold_and_a_blank_line_stands_above_each_card_and_question(console, model):
    asked, answered = approve_an_edit(console, model)
    assert "I change it.\n\nAllow this? edit a.py (+1 -1)\n  Reason: " in asked
    raw = console.raw.replace("\r", "")
    assert "\x1b[1m[edit_file] a.py · +1 -1 · done · approved by you\x1b[0m\n  @@" in raw
    assert re.search(r"\x1b\[1m2 model requests · [^\n]* · done\x1b\[0m\n", raw)
    assert "\x1b[1m# Done" not in raw
    assert re.match(r"y\n\n?\[edit_file\]", answered), answered
    assert f"+x = 2\n\n{REPLY}\n\n2 model requests" in answered


def test_without_colour_it_prints_nothing_but_text(console, model):
    console.run("import os; os.environ['NO_COLOR'] = '1'")
    _, answered = approve_an_edit(console, model)
    raw = console.raw
    console.run("del os.environ['NO_COLOR']")
    assert "[edit_file] a.py" in answered
    assert "\x1b[1m[" not in raw
    assert "\x1b[1m2 model requests" not in raw


def test_in_a_terminal_long_lines_of_a_reply_are_broken_between_words(ipython, model):
    model.enqueue("- " + "seven " * 30)
    printed = ipython.run("%%kin\ncount")
    assert "- " + " ".join(["seven"] * 19) + "\n  " + " ".join(["seven"] * 11) + "\n\n1 model request" in printed


def test_a_script_that_no_one_watches_gets_text_and_a_refusal(workspace, tmp_path, model_server):
    home = tmp_path / "home"
    write_config(home, model_server.url)
    model_server.enqueue("I change it.", calls=[EDIT])
    model_server.enqueue(REPLY)
    code = "%load_ext kin_nb\nget_ipython().run_cell_magic('kin', '', 'make x two')"
    env = environment(home, PYTHONPATH=str(ROOT), IPYTHONDIR=str(tmp_path / "ipython"), TERM="xterm-256color")
    command = [sys.executable, "-m", "IPython", "--no-banner", "--colors=nocolor", "-c", code]
    done = subprocess.run(
        command,
        cwd=workspace,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    card = "I change it.\n\n[edit_file] edit a.py (+1 -1) · not run: needs approval"
    in_order(done.stdout, card, "No one can approve it here. ", f"{REPLY}\n\n2 model requests · ")
    assert "\x1b" not in done.stdout
    assert (workspace / "a.py").read_text() == "x = 1\n"


# What other clients say to the kernel. The fixture `kin` is a session of its own in a real kernel.


def displays(nb: LiveKernel, cell: str, msg_type: str) -> list[str]:
    return [m["content"]["data"]["text/plain"] for m in nb.of(cell) if m["msg_type"] == msg_type]


def test_qtconsole_is_asked_by_input_and_each_card_comes_once(kin, model_server):
    """It names no cells, takes input, draws nothing twice and no widgets."""
    model_server.enqueue("I change it.", calls=[EDIT])
    model_server.enqueue("Done.")
    cell = kin.run("%%kin\nmake x two", cell=None)
    assert kin.prompt().startswith("\n\x1b[1mAllow this? edit a.py (+1 -1)\x1b[0m\n")
    kin.answer("y")
    kin.done(cell)
    reply, card, last, receipt = displays(kin, cell, "display_data")
    assert (reply, last) == ("I change it.", "\nDone.")
    assert card.startswith("\n\x1b[1m[edit_file] a.py · +1 -1 · done · approved by you\x1b[0m\n")
    assert receipt.startswith("\n\x1b[1m2 model requests · 1 tool call")
    assert displays(kin, cell, "update_display_data") == []
    assert kin.widgets() == []


@pytest.mark.usefixtures("file_is_known")
def test_a_notebook_without_widgets_is_asked_by_input_and_keeps_the_settled_card(kin, model_server):
    """It closes every comm at once, as JupyterLab does without its widget manager."""
    model_server.enqueue("I change it.", calls=[EDIT])
    model_server.enqueue("Done.")
    cell = kin.run("%%kin\nmake x two")
    kin.card(cell)
    kin.close_comms()
    assert kin.prompt().startswith("Allow this? edit a.py (+1 -1)")
    kin.answer("y")
    kin.done(cell)
    in_order(
        shown(kin, cell),
        "I change it.",
        "[edit_file] a.py · +1 -1 · done · approved by you",
        "Done.",
        "2 model requests",
    )
    last = {m["content"]["transient"]["display_id"]: m["content"]["data"] for m in kin.of(cell) if is_display(m)}
    assert [WIDGET_VIEW in data for data in last.values()] == [False] * 4


def is_display(message: dict) -> bool:
    return message["msg_type"] in {"display_data", "update_display_data"}


def test_a_cell_named_by_its_uri_gets_buttons_and_the_uri_is_saved_nowhere(kin, model_server, tmp_path):
    """As VS Code names them."""
    uri = f"vscode-notebook-cell:{tmp_path.as_uri().removeprefix('file:')}/work.ipynb#W0sZmlsZQ%3D%3D"
    model_server.enqueue("I change it.", calls=[EDIT])
    model_server.enqueue("Done.")
    cell = kin.run("%%kin\nmake x two", cell=uri)
    kin.card(cell)
    kin.click("Approve")
    kin.done(cell)
    assert "[edit_file] a.py · +1 -1 · done · approved by you" in shown(kin, cell)
    run(kin, "%kin save out")
    saved = (tmp_path / "out.ipynb").read_text()
    nbformat.validate(nbformat.reads(saved, as_version=4))
    assert "vscode" not in saved
    assert "work.ipynb" not in saved
