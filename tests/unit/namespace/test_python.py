"""Code that runs in the person's namespace: what it gives, what it changes, and what it leaves alone."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import sys
import threading

import pytest
from IPython.core.displaypub import DisplayPublisher

from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.base import tool_output
from kin_nb.notebook.main_thread_loop import TurnInterrupted
from kin_nb.notebook.namespace.captured_output import CapturedOutput


def test_the_last_expression_and_what_is_printed_come_back_in_order(told):
    code = "import sys\nprint('first')\nprint('second', file=sys.stderr)\n[1 + 1]"
    assert told("python", code=code) == "first\nsecond\n[2]"


def test_it_works_on_the_persons_variables_and_says_which_it_changed(shell, call, told):
    shell.run_cell("a, b, c, kept = 1, {'k': 1}, [1], 'x'")
    result = call("python", code="a = 2\nb['k'] = 2\nnew = 3\nimport math\ndel c\n_private = 1")
    assert sorted(result.changed) == ["a", "b", "new"]
    assert result.deleted == ["c"]
    assert (shell.user_ns["a"], shell.user_ns["b"]) == (2, {"k": 2})
    assert call.tools["python"].bound(result) == ["a", "b", "new", "c"]
    assert told("python", code="a = 5").endswith("[new or changed: a]")


def test_binding_the_same_object_again_is_no_change(shell, call):
    shell.run_cell("xs = [1]")
    assert call("python", code="xs = xs\nys = xs\ndel ys").changed == []


def test_code_that_changes_nothing_says_nothing_for_undo(shell, call):
    shell.run_cell("xs = [1]")
    assert call("python", code="len(xs)").changed == []
    assert call.tools["python"].uncovered(call("python", code="len(xs)")) == ""


def test_an_error_is_its_traceback_with_lines_and_without_our_frames(call, told):
    code = "def half(x):\n    return 1 / x\n\nbefore = 1\nhalf(0)"
    result = call("python", code=code)
    assert result.error.startswith('Traceback (most recent call last):\n  File "<python ')
    assert "    return 1 / x" in result.error
    assert result.error.endswith("ZeroDivisionError: division by zero")
    assert "kin_nb" not in result.error
    assert "interactiveshell" not in result.error
    assert call.tools["python"].exit_code(result) == 1
    assert sorted(result.changed) == ["before", "half"]


def test_what_was_printed_before_an_error_is_kept(told):
    assert told("python", code="print('so far')\n1 / 0").startswith("so far\nTraceback")


def test_functions_keep_their_source(shell, call):
    call("python", code="def twice(x):\n    return 2 * x\n")
    assert inspect.getsource(shell.user_ns["twice"]) == "def twice(x):\n    return 2 * x\n"


@pytest.mark.parametrize("code", ["!rm -rf x", "%cd /", "x = !ls", "%%bash\nls", "print(1)\n%timeit 1", "?print"])
def test_magics_and_commands_are_refused_and_nothing_runs(shell, call, code):
    with pytest.raises(ToolError, match="use the bash tool"):
        call("python", code=f"{code}\n")
    assert "x" not in shell.user_ns


def test_a_percent_sign_in_plain_python_is_no_magic(told):
    assert told("python", code="7 % 4") == "3"
    assert told("python", code="'''\n%magic\n!ls\n'''") == repr("\n%magic\n!ls\n")


def test_top_level_await_is_refused_with_a_way_out(call):
    with pytest.raises(ToolError, match=r"asyncio\.run"):
        call("python", code="import asyncio\nawait asyncio.sleep(0)")


def test_await_in_a_function_is_plain_python(told):
    code = (
        "import asyncio, threading\nasync def f():\n    await asyncio.sleep(0)\n    return 7\nfound = []\n"
        "t = threading.Thread(target=lambda: found.append(asyncio.run(f())))\nt.start(); t.join()\nfound"
    )
    assert told("python", code=code).startswith("[7]")


@pytest.mark.parametrize("code", ["x = = 1", "x = (", "return 1", "f'{'", "x = 1\0"])
def test_text_that_is_no_python_is_an_error_like_another(call, code):
    result = call("python", code=code)
    assert "Error: " in result.error
    assert result.changed == []


def test_code_indented_as_a_whole_runs(told):
    assert told("python", code="    x = 1\n    x + 1").startswith("2")


@pytest.mark.parametrize(
    "code", ["raise SystemExit(3)", "import sys; sys.exit('bye')", "exit()", "quit()", "get_ipython().ask_exit()"]
)
def test_leaving_the_program_is_an_error_and_the_shell_stays(shell, call, code):
    asked = []
    shell.ask_exit = lambda: asked.append(True)
    assert "SystemExit" in call("python", code=code).error
    assert asked == []


def test_a_keyboard_interrupt_stops_the_turn_and_all_is_as_it_was(shell, call):
    before = sys.stdout, sys.stderr, shell.display_pub, dict(vars(shell))
    with pytest.raises(TurnInterrupted):
        call("python", code="x = 1\nraise KeyboardInterrupt")
    assert (sys.stdout, sys.stderr, shell.display_pub) == before[:3]
    assert vars(shell).keys() == before[3].keys()
    assert call.tools["python"].uncovered(None)


def test_code_that_takes_longer_than_its_timeout_is_interrupted_and_told_so(shell, call, told):
    handler = signal.getsignal(signal.SIGALRM)
    result = call("python", code="import time\nkept = 1\nprint('begun')\ntime.sleep(60)", timeout=1)
    text = call.tools["python"].to_model(result)
    assert text.startswith("begun\nTraceback")
    assert "    time.sleep(60)" in text
    assert "KeyboardInterrupt: its timeout of 1 s was up\n[its timeout was up: it was interrupted]\n" in text
    assert call.tools["python"].exit_code(result) == 124
    assert shell.user_ns["kept"] == 1
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_code_that_catches_the_interrupt_and_continues_gets_another(shell, call):
    code = (
        "import time\ncaught = 0\nwhile True:\n    try:\n        time.sleep(60)\n"
        "    except KeyboardInterrupt:\n        caught += 1\n        if caught == 2: raise"
    )
    assert call("python", code=code, timeout=1).timed_out
    assert shell.user_ns["caught"] == 2


def test_code_that_tidies_up_when_its_time_is_up_may_end_on_its_own(told):
    code = "import time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    found = 'so far'\nfound"
    assert told("python", code=code, timeout=1).startswith("'so far'\n[its timeout was up: it was interrupted]")


def test_code_that_is_done_in_time_hears_nothing_of_its_timeout(told):
    assert told("python", code="6 * 7", timeout=600) == "42"
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_the_persons_interrupt_stops_the_turn_with_a_timeout_too(call):
    with pytest.raises(TurnInterrupted):
        call("python", code="raise KeyboardInterrupt", timeout=600)


def test_the_persons_history_and_hooks_see_nothing(shell, call, capsys):
    shell.run_cell("40 + 2", store_history=True)
    fired = []
    for event in ("pre_run_cell", "post_run_cell", "pre_execute", "post_execute"):
        shell.events.register(event, lambda *_: fired.append(True))
    before = shell.execution_count, dict(shell.user_ns["Out"]), list(shell.user_ns["In"]), shell.user_ns["_"]
    capsys.readouterr()
    call("python", code="print('out')\n99")
    assert (shell.execution_count, shell.user_ns["Out"], shell.user_ns["In"], shell.user_ns["_"]) == before
    assert fired == []
    assert capsys.readouterr() == ("", "")


def test_what_is_displayed_is_captured_and_not_published(shell, told, monkeypatch):
    published = []
    monkeypatch.setattr(DisplayPublisher, "publish", lambda *_, **__: published.append(True))
    code = (
        "from IPython.display import display, HTML, clear_output\nprint('a')\ndisplay([1])\nclear_output()\nprint('b')"
    )
    assert told("python", code=code).startswith("a\n[1]\nb")
    assert published == []


def test_a_repr_that_fails_shows_its_traceback_here_and_not_in_the_cell(told, capsys):
    text = told("python", code="class Bad:\n    def __repr__(self): raise ValueError('broken repr')\nBad()")
    assert "ValueError: broken repr" in text
    assert "\x1b" not in text
    assert capsys.readouterr().out == ""


def test_pictures_go_to_the_model(call, told):
    code = (
        "class Dot:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + bytes(40)\n"
        "from IPython.display import display\ndisplay(Dot())\nDot()"
    )
    result = call("python", code=code)
    tool = call.tools["python"]
    assert [image.media_type for image in tool.images(result)] == ["image/png", "image/png"]
    assert "[2 pictures with this result]" in tool.to_model(result)


def test_figures_are_shown_as_after_a_cell(shell, call):
    pytest.importorskip("matplotlib")
    shell.run_cell("import matplotlib; matplotlib.use('module://matplotlib_inline.backend_inline')")
    result = call("python", code="import matplotlib.pyplot as plt\nplt.plot([1, 2])\nNone")
    assert [image.media_type for image in result.pictures] == ["image/png"]
    assert call("python", code="1").pictures == []


def test_colours_and_lines_written_over_are_not_told(told):
    assert told("python", code=r"print('\x1b[31mred\x1b[0m'); print('1%\r50%\r100%')") == "red\n100%"


def test_long_output_keeps_both_ends(told):
    text = told("python", code="print('start'); print('x' * 200_000); print('end')")
    assert text.startswith("start")
    assert text.endswith("end")
    assert "characters left out" in text
    assert len(text) < 40_000


def test_what_programs_print_that_code_starts_is_shown_too(told, capfd):
    code = "import subprocess\nprint('before')\n_done = subprocess.run(['sh', '-c', 'echo out; echo err >&2'])"
    assert told("python", code=code) == "before\nout\nerr"
    assert capfd.readouterr() == ("", "")


def test_what_a_fork_prints_is_shown(told):
    code = (
        "import os, warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('ignore')\n    pid = os.fork()\n"
        "if pid == 0:\n    print('from a child')\n    os._exit(0)\nos.waitpid(pid, 0)[1]"
    )
    assert told("python", code=code) == "from a child\n0\n[new or changed: pid]"


def test_closing_the_output_closes_nothing(told, capsys):
    assert told("python", code="import sys\nsys.stdout.close()\nprint('still here')") == "still here"
    print("and here")
    assert capsys.readouterr().out == "and here\n"


def test_no_output_is_reported(told):
    assert told("python", code="1 == 1\nNone") == "[no output]"


def test_what_is_printed_reaches_the_card_while_the_code_runs(call, in_turn, shell):
    live = threading.Event()
    shell.user_ns["live"] = live

    async def turn():
        tool_output.set(lambda text: live.set() if "early" in text else None)
        await asyncio.sleep(0)
        return await tool.invoke(code="print('early')\nseen = live.wait(10)\nseen")

    call("python", code="0")
    tool = call.tools["python"]
    assert in_turn(turn).value == "True"


async def test_all_that_is_printed_reaches_the_card_in_order():
    told: list[str] = []
    printed = CapturedOutput(asyncio.get_running_loop(), told.append)
    for number in range(1000):
        printed.write(f"{number}\n")
    printed.flush()
    assert "".join(told) == "".join(f"{number}\n" for number in range(1000))


def test_a_logger_that_kept_our_stream_goes_on_to_the_persons(shell, call, capsys):
    call(
        "python",
        code="import logging\nhandler = logging.StreamHandler()\nlogging.getLogger('kept').addHandler(handler)",
    )
    logging.getLogger("kept").warning("afterwards")
    logging.getLogger("kept").removeHandler(shell.user_ns["handler"])
    assert capsys.readouterr().err == "afterwards\n"


def test_it_may_touch_everything_and_says_why(call):
    call("python", code="1")
    tool = call.tools["python"]
    accesses = tool.accesses(tool.parse_args({"code": "1"}))
    assert accesses.everything
    assert accesses.reason == "it runs in your notebook's kernel, where it can also change what kin_nb allows"
    assert accesses.in_process
    preview = tool.preview(tool.parse_args({"code": "x = 1\ny = 2"}))
    assert (preview.summary, preview.body) == ("x = 1 …", "x = 1\ny = 2")


def test_objects_that_code_replaces_are_not_kept_alive_by_it(shell, call):
    shell.run_cell("import weakref\nclass Big: pass\nbig = Big()\nref = weakref.ref(big)")
    result = call("python", code="big = None\nref() is None")
    assert result.value == "True"
    assert result.changed == ["big"]
