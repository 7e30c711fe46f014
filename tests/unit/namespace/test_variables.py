"""What the model learns of the notebook's variables, and what it does not."""

from __future__ import annotations

import contextlib
import math
import signal
import time

import pytest

from kin_nb.core.tool_types import ToolError
from kin_nb.notebook.namespace import variables as looking
from tests.table import each_row


def table(told, **arguments) -> dict[str, str]:
    return {line.split()[0]: line for line in told("variables", **arguments).splitlines()[1:]}


def test_the_table_has_the_persons_data_and_nothing_else(shell, told):
    shell.run_cell("import math\ndef f(): pass\nclass C: pass\n_hidden = 1\nxs = [1, 2, 3]\nname = 'abc'\nn = 5")
    found = table(told)
    assert list(found) == ["n", "name", "xs"]
    assert found["xs"].split()[:4] == ["xs", "list", "3", "items"]
    assert found["name"].split()[:4] == ["name", "str", "3", "characters"]


def test_all_lists_modules_functions_and_classes_too(shell, told):
    shell.run_cell("import math\ndef f(): pass\nclass C: pass\nn = 5")
    assert set(table(told, all=True)) == {"math", "f", "C", "n"}


def test_an_empty_namespace_is_reported(told):
    assert told("variables") == "No variables yet."


def test_a_long_table_is_cut_and_says_by_how_much(shell, told):
    shell.user_ns.update({f"v{number:03}": number for number in range(203)})
    lines = told("variables").splitlines()
    assert len(lines) == 1 + 200 + 1
    assert lines[-1] == "[… 3 more …]"


def test_a_name_is_described_without_its_value(shell, told):
    shell.run_cell("cfg = {'host': 'db.example', 'ports': [1, 2]}\nxs = [1, 'two', 3.0, 4]")
    text = told("variables", names=["cfg", "xs"])
    assert "cfg: dict (2 items" in text
    assert "  host: str 10 characters" in text
    assert "  ports: list 2 items" in text
    assert "holds: 2 int, 1 str, 1 float" in text
    assert "db.example" not in text
    assert "db.example" in told("variables", names=["cfg"], values=True)


def test_an_object_is_its_class_and_public_attributes(shell, told):
    shell.run_cell(
        'class Model:\n    "Fits lines."\n    def __init__(self):\n        self.slope, self._x = 1.5, 2\n'
        "    def fit(self): pass\nm = Model()"
    )
    text = told("variables", names=["m"])
    assert text.splitlines()[0].startswith("m: Model (")
    assert "Fits lines." in text
    assert "  .slope: float" in text
    assert "of its class: fit" in text
    assert "_x" not in text


def test_a_function_is_its_signature(shell, told):
    shell.run_cell('def scale(x, by=2):\n    "Make it larger."')
    assert "scale(x, by=2)\nMake it larger." in told("variables", names=["scale"])


def test_only_whole_variables_are_looked_at(shell, told):
    shell.run_cell("class C:\n    @property\n    def a(self): raise SystemError\nframe = C()")
    with pytest.raises(ToolError, match="not attributes or items"):
        told("variables", names=["frame.a"])
    with pytest.raises(ToolError, match=r"There is no variable frmae\. Did you mean frame\?"):
        told("variables", names=["frmae"])
    assert "There is no variable q." in told("variables", names=["q", "frame"])


@pytest.mark.parametrize(
    "code",
    [
        "class Bad:\n    def __repr__(self): raise ValueError('no')",
        "class Bad:\n    def __repr__(self): raise SystemExit",
        "class Bad:\n    @property\n    def shape(self): raise ValueError('no')",
        "class Bad:\n    def __len__(self): raise ValueError('no')",
    ],
)
def test_an_object_whose_own_code_fails_is_a_line_that_says_so(shell, told, code):
    shell.run_cell(f"{code}\nbad, good = Bad(), [1]")
    text = told("variables", names=["bad", "good"], values=True)
    assert "bad: Bad" in text
    assert " raised " in text
    assert "value:\n[1]" in text
    assert set(table(told)) == {"bad", "good"}


def test_an_object_that_hangs_is_cut_off_even_if_it_swallows_exceptions(shell, monkeypatch):
    class Hangs:
        def __repr__(self):
            while True:
                with contextlib.suppress(Exception):
                    time.sleep(10)

    text = looking.describe_variable("h", Hangs(), values=True, seconds=0.2)
    assert text.splitlines()[-1] == "[cut off: looking at it takes longer than 0.2 s]"
    assert text.startswith("h: ")


def test_the_alarm_that_was_set_before_still_rings_and_its_handler_is_back():
    def handler(*_):
        rung.append(True)

    rung: list[bool] = []
    found = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        looking.describe_variable("x", [1], values=True)
        assert signal.getsignal(signal.SIGALRM) is handler
        while not rung:
            time.sleep(0.01)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, found)


def test_a_huge_text_is_measured_and_never_made_into_its_repr(shell, told):
    class Huge(str):
        __slots__ = ()

        def __repr__(self):
            raise AssertionError("its repr was made")

    shell.user_ns["text"] = Huge("x" * 3_000_000)
    assert "3,000,000 characters" in told("variables", names=["text"])
    shell.user_ns["blob"] = b"x" * 3_000_000
    text = told("variables", names=["blob"], values=True)
    assert len(text) < 2_500
    assert "3,000,000 bytes" in text


def test_a_long_value_is_cut_and_says_so(shell, told):
    shell.user_ns["xs"] = [f"item {number} {'y' * 90}" for number in range(1000)]
    text = told("variables", names=["xs"], values=True)
    assert "characters left out" in text
    assert len(text) < 2_400


def test_secrets_are_not_shown(shell, told, monkeypatch):
    shell.run_cell(
        "class Client:\n"
        "    def __init__(self, api_key): self.api_key = api_key\n"
        "    def __repr__(self): return f'Client(api_key={self.api_key!r})'\n"
        "api_key = 'hunter2-one'\n"
        "cfg = {'db_password': 'hunter2-two', 'inner': {'token': \"hunter2-three\"}, 'host': 'here'}\n"
        "client = Client('hunter2-four')\n"
        "note = 'ghp_abcdefghijklmnopqrstuvwxyz012345'\n"
    )
    text = told("variables", names=["api_key", "cfg", "client", "note"], values=True)
    assert "hunter2" not in text
    assert "ghp_" not in text
    assert "'host': 'here'" in text


@each_row(
    "code",
    [
        "{'passwords': ['hunter2-Zq8']}",
        "{'db': {'password': [['hunter2-Zq8']]}}",
        "{'password': b'hunter2-Zq8'}",
        "{'password': {'is': 'hunter2-Zq8'}}",
        "SimpleNamespace(token=['hunter2-Zq8'])",
        "[('password', 'hunter2-Zq8')]",
        "[['password', 'hunter2-Zq8']]",
        "'DB_PASSWORD=hunter2-Zq8\\n'",
        "'password: hunter2-Zq8'",
        "b'password=hunter2-Zq8'",
        "['a', 'export TOKEN=hunter2-Zq8']",
    ],
)
def test_whatever_stands_under_a_secret_name_is_not_shown(shell, told, code):
    shell.run_cell(f"from types import SimpleNamespace\nfound = {code}")
    text = told("variables", names=["found"], values=True)
    assert "value:" in text
    assert "hunter2" not in text
    shell.run_cell("found = {'password': 12345678, 'host': 'here'}")
    text = told("variables", names=["found"], values=True)
    assert "12345678" not in text
    assert "'host': 'here'" in text


def test_a_mapping_of_another_kind_is_shown_without_its_secrets_too(shell, told):
    shell.run_cell("from collections import OrderedDict\ncfg = OrderedDict(secret_key='hunter2', host='here')")
    text = told("variables", names=["cfg"], values=True)
    assert "hunter2" not in text
    assert "'here'" in text


def test_it_needs_no_permission_and_changes_nothing(call):
    call("variables")
    tool = call.tools["variables"]
    assert tool.config.permission == "always"
    assert tool.accesses(tool.parse_args({})).only_reads


def test_without_a_cell_that_waits_it_says_so(call):
    call("variables")
    coroutine = call.tools["variables"].invoke()
    with pytest.raises(ToolError, match="no cell is waiting"):
        coroutine.send(None)


def test_numbers_too_long_for_text_are_a_line_that_says_so(shell, told):
    shell.user_ns["n"] = math.factorial(3000)
    assert "n: int" in told("variables", names=["n"], values=True)
