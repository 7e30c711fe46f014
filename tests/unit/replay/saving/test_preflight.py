"""What would stop a saved notebook, found by reading its cells; none of them runs."""

from __future__ import annotations

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.preflight import Preflight, check_cells
from tests.table import each_row
from tests.unit.replay.sessions import recording, turn


def notes_on(tmp_path, *sources: str, **more) -> list[str]:
    """The notes on ordinary cells, from cell 3 on, below the head and a prompt."""
    outputs = [new_output("stream", text="x")]
    cells = [new_code_cell("%%kin\nfirst", id="ask")]
    cells += [
        new_code_cell(source, id=f"own-{n}", execution_count=1, outputs=outputs) for n, source in enumerate(sources)
    ]
    nb = session_notebook(recording(turn(1, "first", cell_id="ask")), source_nb=new_notebook(cells=cells))
    return check_cells(nb, tmp_path).lines()


@each_row(
    "code",
    [
        "import pandas as pd\ndf = pd.read_csv('data.csv')",
        "text = open('data.csv').read()",
        "with open('data.csv', encoding='utf-8') as file:\n    rows = list(file)",
        "from pathlib import Path\ntext = Path('data.csv').read_text()",
        "%load_ext autoreload\n%matplotlib inline\ntext = open('data.csv').read()",
        "%%time\ntext = open('data.csv').read()",
    ],
)
def test_a_file_that_is_not_there_is_named_with_its_cell(tmp_path, code):
    assert notes_on(tmp_path, "x = 1", code) == ["A replay stops at cell 4: data.csv does not exist."]
    (tmp_path / "data.csv").write_text("a,b\n")
    assert notes_on(tmp_path, "x = 1", code) == []


@each_row(
    "before",
    [
        "open('data.csv', 'w').write('a')",
        "import pandas as pd\npd.DataFrame().to_csv('data.csv')",
        "from pathlib import Path\nPath('data.csv').write_text('a')",
        "!curl -O https://localhost/data.csv",
        "%%bash\ntouch data.csv",
        "%%writefile data.csv\na,b",
        "%cd elsewhere",
        "import os\nos.chdir('elsewhere')",
    ],
)
def test_a_file_that_a_cell_above_may_have_made_is_not_missed(tmp_path, before):
    assert notes_on(tmp_path, before, "text = open('data.csv').read()") == []


@each_row(
    "code",
    [
        "open('https://localhost/data.csv')",
        "import os\nif os.path.exists('data.csv'):\n    open('data.csv')",
        "try:\n    open('data.csv')\nexcept OSError:\n    pass",
        "def load():\n    return open('data.csv')",
        "name = 'data.csv'\nprint(f'{name}')",
        "import pandas as pd\npd.read_sql('select a from b.c', None)",
    ],
)
def test_what_cannot_be_told_by_reading_is_left_out(tmp_path, code):
    assert notes_on(tmp_path, code) == []


def test_a_name_that_no_cell_above_defines_is_named_once(tmp_path):
    assert notes_on(tmp_path, "print(total)\ntotal = 1\nprint(total)", "print(total)") == [
        "A replay stops at cell 3: no cell above it defines `total`."
    ]


@each_row(
    "code",
    [
        "print([n * n for n in range(3)], _, In, get_ipython())",
        "def f(x, *rest, y=1, **more):\n    return x + later\nlater = 1\nprint(f(1))",
        "import os.path as p, sys\nprint(p.sep, sys.path)",
        "class A:\n    x = 1\n    def f(self): return x\nprint(A().x, lambda z: z)",
        "try:\n    missing\nexcept NameError as error:\n    print(error)",
        "from math import *\nprint(pi)",
        "exec('x = 1')\nprint(x)",
        "%run other.ipynb\nprint(anything)",
        "%load_ext sql\nprint(anything)",
        "%%capture out\nprint(1)",
        "x = " + " + ".join(["1"] * 20_000),
        "match [1, 2]:\n    case [first, *others]:\n        print(first, others)",
        "await_me = 1\nprint(await_me, __name__)",
        "import asyncio\nawait asyncio.sleep(0)",
        "files = !ls\nprint(files)",
        "x: int = 1\n(y := x)\nfor z in [y]: print(z)\nwith open('/dev/null') as w: print(w)",
        "def g():\n    global made\n    made = 1\ng()\nprint(made)",
    ],
)
def test_names_that_code_binds_in_any_way_are_known(tmp_path, code):
    assert notes_on(tmp_path, code) == []


def test_the_code_of_the_agent_defines_names_too(tmp_path):
    from kin_nb.core.records import RecordedCall, RecordedStep

    call = RecordedCall(
        id="c1", name="python", arguments='{"code": "half = 21"}', status="ok", output="", bound=("half",)
    )
    steps = (RecordedStep(fingerprint="f", content="Done.", calls=(call,)),)
    cells = [new_code_cell("%%kin\nfirst", id="ask"), new_code_cell("print(half)", id="own", execution_count=2)]
    made = session_notebook(
        recording(turn(1, "first", cell_id="ask", steps=steps)), source_nb=new_notebook(cells=cells)
    )
    assert check_cells(made, tmp_path).lines() == []


def test_cells_that_failed_or_never_ran_are_named_and_stop_nothing(tmp_path):
    error = new_output("error", ename="ValueError", evalue="x", traceback=[])
    cells = [
        new_code_cell("%%kin\nfirst", id="ask"),
        new_code_cell("raise ValueError('x')", id="failed", execution_count=1, outputs=[error]),
        new_code_cell("y = 1", id="never"),
    ]
    made = session_notebook(recording(turn(1, "first", cell_id="ask")), source_nb=new_notebook(cells=cells))
    found = check_cells(made, tmp_path)
    assert found.lines() == [
        "Cell 3 ended in an error and may fail again: tagged raises-exception, so a replay continues.",
        "Cell 4 never ran here: a replay runs it.",
    ]
    assert not found.stops


def test_code_that_is_no_python_is_named(tmp_path):
    (line,) = notes_on(tmp_path, "x = = 1")
    assert line.startswith("A replay stops at cell 3: invalid syntax")


@each_row(
    "sources",
    [
        ("%time df = 1", "df"),
        ("%%timeit -n1 -r1 data = [1]\nsum(data)",),
        ("_dh, _ih, _oh, _exit_code, __builtins__",),
        ("?len",),
        ("x = y if 'y' in dir() else 0",),
        ("from contextlib import suppress\nwith suppress(FileNotFoundError):\n    open('gone.txt')",),
        ("load = lambda: open('gone.txt')",),
        ("files = object()", "files.open('bucket/key.csv')"),
    ],
)
def test_what_reading_cannot_tell_is_left_out(tmp_path, sources):
    assert notes_on(tmp_path, *sources) == []


def test_a_cell_that_was_interrupted_is_said_to_run_to_its_end(tmp_path):
    cells = [new_code_cell("%%kin\nfirst", id="ask")]
    error = new_output("error", ename="KeyboardInterrupt", evalue="", traceback=["KeyboardInterrupt"])
    cells.append(new_code_cell("while True: pass", id="own", execution_count=1, outputs=[error]))
    nb = session_notebook(recording(turn(1, "first", cell_id="ask")), source_nb=new_notebook(cells=cells))
    assert check_cells(nb, tmp_path).lines() == ["Cell 3 was interrupted: a replay runs it to its end."]


def test_of_many_cells_the_first_are_named_and_the_others_counted(tmp_path):
    lines = notes_on(tmp_path, *(f"print(name{n})" for n in range(7)))
    assert lines[4:] == ["A replay stops at cell 7: no cell above it defines `name4`.", "And at 2 more cells."]


def test_a_question_to_a_person_is_named(tmp_path):
    assert notes_on(tmp_path, "name = input('Who? ')") == [
        "A replay stops at cell 3: it calls input(), and no one can answer in a replay."
    ]
    assert notes_on(tmp_path, "def ask():\n    return input()") == []
    assert notes_on(tmp_path, "def input(): return 1", "input()") == []


def test_a_module_that_is_not_installed_is_named_and_not_imported(tmp_path):
    assert notes_on(tmp_path, "import not_here.at_all as n, json") == [
        "A replay stops at cell 3: module `not_here` is not installed here."
    ]
    (tmp_path / "not_here.py").write_text("raise SystemExit")
    assert notes_on(tmp_path, "import not_here.at_all as n, json") == []


@each_row(
    "sources",
    [
        ("import sys\nsys.path.append('src')", "import not_here"),
        ("%pip install not-here", "import not_here"),
        ("%%writefile not_here.py\nx = 1", "import not_here"),
        ("try:\n    import not_here\nexcept ImportError:\n    pass",),
        ("from . import near",),
    ],
)
def test_a_module_that_may_be_found_all_the_same_is_not_missed(tmp_path, sources):
    assert notes_on(tmp_path, *sources) == []


@pytest.mark.parametrize("code", ["text = '{}/data.csv'", 'import os\nos.listdir("~/work")'])
def test_a_path_below_home_is_said_to_be_on_this_machine_only(tmp_path, monkeypatch, code):
    monkeypatch.setenv("HOME", "/home/ann")
    path = "~/work" if "~" in code else "/home/ann/data.csv"
    assert notes_on(tmp_path, code.format("/home/ann")) == [f"Cell 3 names {path}, which is only on this machine."]
    assert notes_on(tmp_path, "text = '/home/anna/x'") == []


def test_an_annotation_is_no_name_that_is_looked_up(tmp_path):
    assert notes_on(tmp_path, "from __future__ import annotations\nx: Later = 1\ny: Other", "class Later: pass") == []


@pytest.mark.parametrize(
    "before",
    [
        "def made(name):\n    with open(name, 'w') as file:\n        file.write('a')\nmade('data.csv')",
        "from pathlib import Path\npath = Path('data.csv')\npath.write_text('a')",
    ],
)
def test_a_file_that_a_helper_or_a_path_in_a_variable_may_have_written_is_not_missed(tmp_path, before):
    assert notes_on(tmp_path, before, "text = open('data.csv').read()") == []


def test_what_was_read_of_a_cell_that_ran_is_left_out(tmp_path):
    assert Preflight(((3, "x"), (5, "y")), ("Note.",)).lines(beyond=3) == ["A replay stops at cell 5: y.", "Note."]


def test_a_conversion_writes_no_file(tmp_path):
    assert notes_on(tmp_path, "import pandas as pd\npd.to_datetime([])", "text = open('data.csv').read()") == [
        "A replay stops at cell 4: data.csv does not exist."
    ]
