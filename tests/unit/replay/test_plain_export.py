"""The plain export: cells that do what the session did, read by anyone, with nothing of ours in them."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from traitlets.config import Config

from kin_nb.cli import main
from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.file_history.file_changes import _patch
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import (
    ClearRecord,
    FileChange,
    RecordedCall,
    RecordedDecision,
    RecordedStep,
    Ref,
    TurnRecord,
    UndoRecord,
)
from kin_nb.core.records import sha256 as sha
from kin_nb.replay.binding_cells import catching_errors
from kin_nb.replay.cell_keys import command_key
from kin_nb.replay.format.notebook_reader import load_notebook
from kin_nb.replay.plain_export import apply_change, code_span, fenced, plain_notebook, safe_markdown
from kin_nb.replay.recording import Recording, WorkspaceMeta
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.writing import write_notebook
from tests.model_server import tool_call
from tests.notebook.people import QUICKSTART
from tests.table import each_row
from tests.unit.replay.sessions import recording, turn, undo

LINES = "".join(f"line {n}\n" for n in range(30))
SPECIAL = "tab\tand 'quotes' \"\"\" ''' \\n {x} $HOME %%bash\n>>> no\n"


def did(name: str, *files: FileChange, status="ok", ended=None, **arguments) -> RecordedCall:
    return RecordedCall(id="c", name=name, arguments=json.dumps(arguments), status=status, files=files, exit=ended)


def change(before: str | None, after: str | None, path: str = "a.txt", *modes: str) -> FileChange:
    """As a call records it."""
    plain = ("" if before is None else "100644", "" if after is None else "100644")
    before_mode, after_mode = modes or plain
    return FileChange(
        path=path,
        before=None if before is None else sha(before),
        after=None if after is None else sha(after),
        patch=_patch(path, (before or "").encode("utf-8", "surrogatepass"), (after or "").encode()),
        before_mode=before_mode,
        after_mode=after_mode,
    )


def session(*calls: RecordedCall, folder: str = "", says: str = "") -> Recording:
    step = RecordedStep(content=says, calls=calls)
    return recording(turn(1, "go", cell_id="ask", steps=(step,)), workspace=WorkspaceMeta(path=folder))


def cells(made: Recording, nb=None) -> list[tuple[str, str]]:
    """Those of the turns and the person's own, without the two that say what this is."""
    nb = plain_notebook(made, nb)
    nbformat.validate(nb)
    assert '"kin"' not in json.dumps(nb)
    assert "%%kin" not in [cell["source"][:5] for cell in nb["cells"] if cell["cell_type"] == "code"]
    own = [cell for cell in nb["cells"][1:] if not is_head(cell["source"])]
    return [(cell["cell_type"], cell["source"]) for cell in own]


def is_head(source: str) -> bool:
    return "def apply_change" in source or "is_dir()" in source


def code(made: Recording) -> list[str]:
    return [source for kind, source in cells(made) if kind == "code"]


def notes(made: Recording) -> list[str]:
    """Markdown below the prompt."""
    return [source for kind, source in cells(made) if kind == "markdown"][1:]


@pytest.fixture
def shell(tmp_path, monkeypatch) -> Iterator[InteractiveShell]:
    """IPython in `work`, which knows nothing of us."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    work_in(tmp_path / "work", monkeypatch)
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    yield made
    InteractiveShell.clear_instance()


def work_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    monkeypatch.chdir(folder)


def run(shell: InteractiveShell, nb) -> None:
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            done = shell.run_cell(cell["source"])
            assert done.success or "raises-exception" in cell["metadata"].get("tags", []), cell["source"]


def tree(folder: Path) -> dict[str, tuple[str | bytes, int]]:
    found: dict[str, tuple[str | bytes, int]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = (str(path.readlink()), 0)
        elif path.is_file():
            found[str(path.relative_to(folder))] = (path.read_bytes(), path.stat().st_mode & 0o777)
    return found


# Calls


def test_a_command_is_a_bash_cell_that_goes_to_the_workspace_and_reads_nothing():
    assert code(session(did("bash", command="make", ended=0))) == ["%%bash\n{\nmake\n} < /dev/null"]
    failed = did("bash", command="make\nmake x", ended=2)
    assert code(session(failed, folder="my work/it's")) == [
        "%%bash --no-raise-error\ncd 'my work/it'\\''s' || exit\n{\nmake\nmake x\n} < /dev/null"
    ]


def test_what_the_person_made_of_a_command_is_what_ran():
    call = did("bash", command="rm -rf /").model_copy(update={"edited_arguments": '{"command": "ls"}'})
    assert code(session(call)) == ["%%bash\n{\nls\n} < /dev/null"]


@each_row("command", ["cat", "python -", "cat <<'E'\nx\nE", "echo a \\", "true # why", "exit 0", "(cat)"])
def test_any_command_runs_in_its_cell_and_leaves_the_cell_alone(shell, command, tmp_path, monkeypatch):
    work_in(tmp_path / "work", monkeypatch)
    run(shell, plain_notebook(session(did("bash", command=command), did("bash", command="echo on > on"))))
    assert (tmp_path / "work" / "on").read_text() == "on\n"
    if "heredoc" in command:
        assert (tmp_path / "work" / "heredoc").read_text() == ">>> x\n  \n"


def test_the_agents_code_is_a_code_cell_which_may_fail_as_it_did():
    nb = plain_notebook(session(did("python", code="x = 1\nx"), did("python", code="1 / 0", ended=1)))
    made = [cell for cell in nb["cells"] if cell["cell_type"] == "code"]
    assert made[0]["source"] == "x = 1\nx"
    assert made[1]["source"].startswith("try:\n    1 / 0\nexcept ")
    assert [cell["metadata"] for cell in made] == [{}, {}]


def test_code_that_does_not_compile_is_tagged_as_what_may_fail():
    nb = plain_notebook(session(did("python", code="x = = 1", ended=1)))
    made = [cell for cell in nb["cells"] if cell["cell_type"] == "code"]
    assert [(cell["source"], cell["metadata"]) for cell in made] == [("x = = 1", {"tags": ["raises-exception"]})]


def test_a_cell_of_the_persons_that_failed_is_tagged_without_a_word_of_ours():
    own = new_code_cell("1 / 0", outputs=[new_output("error", ename="ZeroDivisionError", evalue="", traceback=[])])
    nb = plain_notebook(session(did("bash", command="ls")), new_notebook(cells=[own]))
    assert next(cell for cell in nb["cells"] if cell["source"] == "1 / 0")["metadata"]["tags"] == ["raises-exception"]


@each_row(
    "call",
    [
        did("read_file", path="a"),
        did("bash", command="make", status="refused"),
        did("python", code="x", status="interrupted"),
        did("todo"),
        did("bash", command="make").model_copy(
            update={"decision": RecordedDecision(verdict="allow", by="identical", reason="")}
        ),
    ],
)
def test_what_had_no_effect_is_not_there(call):
    assert cells(session(call)) == [("markdown", "**Prompt 1**\n\n```text\ngo\n```")]


def test_arguments_that_are_no_json_are_no_command():
    assert code(session(did("bash").model_copy(update={"arguments": "[" * 10_000}))) == []


def test_a_new_file_is_a_writefile_cell():
    call = did("write_file", change(None, "x = 1\n\n", "src/a.py"))
    assert code(session(call, folder="w")) == ["%mkdir -p w/src", "%%writefile w/src/a.py\nx = 1\n\n"]


@each_row(
    "text",
    [
        "no newline",
        "",
        SPECIAL,
        ">>> x\n",
        "In [1]: x\n",
        "a\rb\n",
        "a\x0cb\u2028c\n",
        "\n\nx\n\n\n",
        "a\n    \nb\n",
        "def f():\n    >>> f()\n    ...\n",
        "é 表 🐢\n",
    ],
)
@each_row("path", ["a.txt", "d/e f/ü$HOME{x}.txt", "-n"])
def test_a_new_file_comes_out_to_the_byte_whatever_is_in_it(shell, tmp_path, monkeypatch, text, path):
    work_in(tmp_path / "work", monkeypatch)
    made = session(did("write_file", change(None, text, path)))
    run(shell, plain_notebook(made))
    assert (tmp_path / "work" / path).read_bytes() == text.encode()


def test_an_edit_is_a_cell_that_shows_the_change():
    (source,) = code(session(did("edit_file", change("a\nb\n", "a\nc\n")), folder="w"))
    assert source == "# edit_file: a.txt\napply_change(\"w/a.txt\", r'''\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n''')"


def test_an_edit_that_finds_other_text_fails_and_changes_nothing(shell, tmp_path):
    nb = plain_notebook(session(did("edit_file", change("a\nb\n", "a\nc\n"))))
    (tmp_path / "work" / "a.txt").write_text("a\nother\n")
    done = shell.run_cell(nb["cells"][1]["source"])
    assert done.success
    done = shell.run_cell(nb["cells"][-1]["source"])
    assert str(done.error_in_exec) == "a.txt: not once in the file, so not changed:\na\nb\n"
    assert (tmp_path / "work" / "a.txt").read_text() == "a\nother\n"


@each_row(
    ("files", "before", "after"),
    [
        ([change("a\n", None)], {"a.txt": "a\n"}, {}),
        ([change("a\n", "a\n", "a.txt", "100644", "100755")], {"a.txt": "a\n"}, {"a.txt": "a\n"}),
        (
            [change(LINES, LINES.upper()), change(None, "n", "d/n")],
            {"a.txt": LINES},
            {"a.txt": LINES.upper(), "d/n": "n"},
        ),
        ([change("it's '''\n", "it\\'s '''\\\n")], {"a.txt": "it's '''\n"}, {"a.txt": "it\\'s '''\\\n"}),
        ([change("a\n\nb\n", "a\n\nc\n")], {"a.txt": "a\n\nb\n"}, {"a.txt": "a\n\nc\n"}),
        ([change("a\n  \nb\n", "a\n  \nc\n")], {"a.txt": "a\n  \nb\n"}, {"a.txt": "a\n  \nc\n"}),
        (
            [change(" >>> f()\n ...\nb\n", " >>> f()\n ...\nc\n")],
            {"a.txt": " >>> f()\n ...\nb\n"},
            {"a.txt": " >>> f()\n ...\nc\n"},
        ),
        ([change("x", "x\n")], {"a.txt": "x"}, {"a.txt": "x\n"}),
    ],
)
def test_what_another_tool_changed_is_changed_again(shell, tmp_path, monkeypatch, files, before, after):
    work_in(tmp_path / "work", monkeypatch)
    for name, text in before.items():
        (tmp_path / "work" / name).write_text(text)
    made = session(did("mcp_editor", *files))
    run(shell, plain_notebook(made))
    assert {name: text.decode() for name, (text, _) in tree(tmp_path / "work").items()} == after
    modes = {change.path: change.after_mode for change in files if change.after_mode}
    assert {n: m & 0o111 > 0 for n, (_, m) in tree(tmp_path / "work").items()} == {
        n: m == "100755" for n, m in modes.items()
    }


@each_row(
    ("file", "why"),
    [
        (change("a\0", "b\0"), "no text of it"),
        (change(None, "word " * 60_000), "over 256 KB"),
        (change("a\n", "b\n", "../a"), "outside the workspace"),
        (change("a\n", "b\n", "/etc/a"), "outside the workspace"),
        (change("a\n", "b\n", "~/a"), "outside the workspace"),
        (change("a\n", "key = [secret]\n"), "was redacted in its text"),
        (change("a\n", "in {workspace}/x\n"), "was redacted in its text"),
        (change(None, "key = 1\n").model_copy(update={"patch": "--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n"}), "was redacted"),
        (change("a", "b", "l", "120000", "120000"), "a link"),
        (change(None, "/etc", "l", "", "120000"), "out of the workspace"),
        (change(None, "../x", "l", "", "120000"), "out of the workspace"),
    ],
)
def test_what_no_record_can_give_is_a_line_that_says_so(file, why):
    made = session(did("mcp_editor", file))
    assert code(made) == []
    (note,) = notes(made)
    assert note.startswith("`mcp_editor` ")
    assert f"changed {code_span(file.path)}, which is not included" in note
    assert why in note


def test_text_that_only_looks_like_something_taken_out_is_kept_where_the_hash_says_so():
    assert code(session(did("write_file", change(None, "in {workspace}\n")))) == ["%%writefile a.txt\nin {workspace}\n"]


def test_a_command_with_a_secret_is_a_line_and_what_it_changed_a_cell():
    call = did("bash", change("a\n", "b\n"), command="curl -H [secret] x > a.txt")
    made = session(call)
    assert notes(made)[0].endswith(
        "is not included: it contains text that the recording does not have. Its file changes are."
    )
    assert code(made)[0].endswith("-a\n+b\n''')")


def test_a_command_that_was_interrupted_is_a_line_and_what_it_changed_a_cell():
    made = session(did("bash", change("a\n", "b\n"), command="sleep 9", status="interrupted"))
    assert "is not included: it ended as interrupted" in notes(made)[0]
    assert len(code(made)) == 1


def test_a_command_whose_time_was_up_does_not_hold_the_notebook_forever():
    made = session(did("bash", command="python -m http.server", ended=124))
    assert code(made) == []
    assert notes(made)[0].startswith("`bash` `python -m http.server` is not included: it ran into its timeout")


def test_what_a_tool_may_have_done_besides_is_reported():
    call = did("mcp_mail").model_copy(update={"uncovered": "it may have sent a mail"})
    assert notes(session(call)) == ["`mcp_mail` may have had effects that were not recorded, and is not included."]


def test_a_hostile_recording_cannot_leave_the_line_that_it_is_named_in():
    call = did("x\nimport os", change("a\n", "b\n"), path="y\r\nimport os\u2028import os")
    (source,) = code(session(call, folder="w\nimport os"))
    assert [line for line in source.splitlines() if line.strip().startswith("import")] == []


# Turns and cells


def test_a_reply_is_markdown():
    assert notes(session(says="Done: **all** tests pass.\n")) == ["Done: **all** tests pass."]


@each_row(
    "text",
    [
        "<script>alert(1)</script>",
        "see <img src=x onerror=alert(1)>",
        "a `b <i` c <b>d</b>",
        "![x](https://a.b/c.png)",
        "[x](javascript:alert(1))",
        "[x](JavaScript&colon;alert(1))",
        "[x](data:text/html,y)",
        "[x](file:///etc/passwd)",
        "[x](//evil.example)",
        "<javascript:alert(1)>",
        "[x]\n\n[x]: vbscript:y",
        "$\\href{https://a.b}{x}$",
        "| a |\n|---|\n| <b>x</b> |",
        "> - <p onclick=x>",
    ],
)
def test_text_in_which_something_could_run_is_shown_as_text(text):
    assert safe_markdown(text) == f"```markdown\n{text}\n```"


@each_row(
    "text",
    [
        "plain < and > and a<b",
        "```html\n<script>alert(1)</script>\n```",
        "`<b>` in code",
        "[x](https://a.b/c) [y](docs/a.md) [z](#part) [m](mailto:a@b.c)",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "    <i>indented code</i>",
    ],
)
def test_other_text_stays_as_it_is(text):
    assert safe_markdown(text) == text.strip("\n")


def test_no_text_gets_out_of_its_fence_or_span():
    assert fenced("```\n<script>\n````") == "`````text\n```\n<script>\n````\n`````"
    assert code_span("a`b``c") == "```a`b``c```"
    assert code_span("`x`\n<b>") == "`` `x` ⏎ <b> ``" or code_span("`x`\n<b>").startswith("`` `x`")
    assert "\x1b" not in fenced("\x1b[31mx")


def undone(*steps: int) -> Recording:
    """Two turns; the second is undone, to before its step `steps` when given."""
    two = turn(2, "again", cell_id="two", steps=(RecordedStep(content="one"), RecordedStep(content="two")))
    one = turn(1, "go", cell_id="one")
    return recording(one, two, into(two, steps[0]) if steps else undo(two, to=one))


def into(turn: TurnRecord, step: int) -> UndoRecord:
    """Takes back `step` of `turn`, and what came after it."""
    place = {"head": Ref(id=turn.id, step=step)}
    return undo(turn).model_copy(update=place)


def test_a_turn_that_was_undone_is_left_out_with_a_note():
    assert cells(undone())[2:] == [
        ("markdown", "**Prompt 2**\n\n```text\nagain\n```"),
        ("markdown", "This turn was undone: what the agent did is left out."),
    ]
    assert [source for _, source in cells(undone(2))[3:]] == [
        "one",
        "The rest of this turn was undone: what the agent did is left out.",
    ]


STAYS = "This turn was undone: its Python stays, since undo does not bring variables back; all else is left out."


def undone_with(*calls: RecordedCall, says: str = "") -> Recording:
    """Two turns; the second, with these calls, is undone."""
    two = turn(2, "again", cell_id="two", steps=(RecordedStep(content=says, calls=calls),))
    one = turn(1, "go", cell_id="one")
    return recording(one, two, undo(two, to=one))


def test_python_that_was_undone_stays_since_its_variables_did():
    calls = did("bash", command="rm -rf ."), did("python", code="x = 2"), did("python", code="y", status="refused")
    assert cells(undone_with(*calls, did("python", code="1 / 0", ended=1), says="I set x."))[3:] == [
        ("markdown", STAYS),
        ("code", "x = 2"),
        ("code", catching_errors("1 / 0")),
    ]


def test_python_of_an_undone_part_of_a_turn_stays():
    steps = [RecordedStep(calls=(did("python", code=f"x = {n}"),)) for n in (1, 2)]
    made = turn(1, "go", cell_id="one", steps=tuple(steps))
    part = recording(made, into(made, 2))
    assert code(part) == ["x = 1", "x = 2"]
    assert notes(part) == [STAYS.replace("This turn was undone", "The rest of this turn was undone")]


def test_files_that_undone_python_reads_and_writes_are_there_for_it_and_as_before_after_it(shell, tmp_path):
    """Edits before it are made, commands are not run again, and all of it is undone."""
    work = tmp_path / "work"
    start = {"a.txt": LINES, "b.txt": "b\n", "gone.txt": "gone\n"}
    for name, text in start.items():
        (work / name).write_text(text)
    edited = LINES.replace("line 3\n", "three\n")
    calls = [
        did("edit_file", change(LINES, edited), path="a.txt"),
        did("write_file", change(None, "1\n2\n", "data.csv"), path="data.csv"),
        did("bash", change("gone\n", None, "gone.txt"), command="touch ran; rm gone.txt"),
        did(
            "python",
            change(edited, edited + "end\n"),
            change(None, "x\n", "new.txt"),
            change("1\n2\n", "1\n2\n3\n", "data.csv"),
            code="from pathlib import Path\n"
            "rows, three = Path('data.csv').read_text().split(), 'three' in Path('a.txt').read_text()\n"
            "for name, text in ('new.txt', 'x'), ('a.txt', 'end'), ('data.csv', '3'):\n"
            "    with open(name, 'a') as file:\n"
            "        print(text, file=file)",
        ),
        did("bash", change("b\n", "c\n", "b.txt"), command="echo c > b.txt"),
    ]
    run(shell, plain_notebook(undone_with(*calls)))
    assert (shell.user_ns["rows"], shell.user_ns["three"]) == (["1", "2"], True)
    assert {path.name: path.read_text() for path in work.iterdir()} == start


def test_what_cannot_be_undone_for_it_is_named():
    big = change("x", "y", "big.bin").model_copy(update={"patch": None})
    new = change(None, "y", "new.bin").model_copy(update={"patch": None})
    no_text = "the recording has no text of it (binary, over 256 KB, or a file that holds secrets)"
    made = cells(undone_with(did("python", big, new, code="go()")))[4:]
    assert made == [
        ("code", "go()"),
        ("markdown", f"`big.bin` was undone, but stays changed here: {no_text}."),
        ("code", '# undone: what that changed in files\nfrom pathlib import Path\n\nPath("new.bin").unlink()'),
    ]


def test_python_whose_time_was_up_is_not_run():
    assert code(session(did("python", code="while True: pass", ended=124))) == []


def test_a_prompt_keeps_what_it_mentions_and_names_what_was_attached():
    asked = turn(1, "@error fix @src/a.py,\nsee @df", cell_id="a", attached=("df (3 columns, 1.2 KB)",))
    assert cells(recording(asked))[0] == (
        "markdown",
        "**Prompt 1**\n\n```text\n@error fix @src/a.py,\nsee @df\n```\n\nAttached: `df (3 columns, 1.2 KB)`",
    )


def test_a_cell_of_the_users_that_failed_is_tagged():
    made = session()
    nb = session_notebook(made)
    failed = nbformat.v4.new_output("error", ename="E", evalue="", traceback=[])
    nb["cells"].append(new_code_cell("1 / 0", id="bad", outputs=[failed], metadata={"tags": ["mine"]}))
    nb["cells"].append(new_code_cell("x = 1", id="good"))
    bad, good = plain_notebook(made, nb)["cells"][-2:]
    assert (bad["source"], set(bad["metadata"]["tags"])) == ("1 / 0", {"mine", "raises-exception"})
    assert "raises-exception" not in good["metadata"].get("tags", [])


def test_a_turn_that_was_restored_is_there():
    for steps in ((), (2,)):
        made = undone(*steps)
        assert [source for _, source in cells(replace(made, records=(*made.records, redone(made))))[3:]] == [
            "one",
            "two",
        ]


def redone(made: Recording) -> UndoRecord:
    """Gives back what the last record of `made`, an undo, took."""
    taken = made.moves[-1]
    back = {"type": "redo", "id": "c" * 16, "seq": taken.seq + 1, "parent": taken.head, "head": taken.parent}
    key = command_key("redo")
    return taken.model_copy(update={**back, "ancestors": (taken.parent.id,), "key": key})


def test_what_was_cleared_was_not_undone():
    one, two = turn(1, "go", cell_id="one"), turn(2, "again", cell_id="two", seq=3)
    clear = ClearRecord(id="c" * 16, parent=one.head, seq=2, key=command_key("clear"))
    made = recording(one, clear, two)
    assert [source for _, source in cells(made)[1:]] == [
        "Answer 1.",
        "**Prompt 2**\n\n```text\nagain\n```",
        "Answer 2.",
    ]
    taken = undo(two, seq=4, turns=(1, 2), turn_ids=(one.id, two.id))  # and the clear between them
    assert [source for _, source in cells(recording(one, clear, two, taken)) if "undone" in source] == [
        "This turn was undone: what the agent did is left out."
    ] * 2


def test_another_branch_and_another_session_were_not_undone_either():
    one, two = turn(1, "go", cell_id="one"), turn(2, "again", cell_id="two")
    theirs = turn(2, "other", cell_id="three", id="b" * 16, seq=2, parent=one.head)
    beside = turn(1, "help", cell_id="four", id="d" * 16, seq=5)
    both = recording(one, two, theirs)
    both = replace(both, records=(*both.records, beside), session_names={beside.id: "helper"})
    assert [source for _, source in cells(both) if source.startswith("Answer")] == [
        "Answer 1.",
        "Answer 2.",
        "Answer 2.",
        "Answer 1.",
    ]
    taken = undo(theirs, to=one, seq=6)
    kept = [source for _, source in cells(replace(both, records=(*both.records, taken)))]
    assert kept.count("This turn was undone: what the agent did is left out.") == 1
    assert (
        kept[kept.index("**Prompt 2**\n\n```text\nother\n```") + 1]
        == "This turn was undone: what the agent did is left out."
    )


def test_a_turn_that_did_not_end_well_says_so():
    made = recording(turn(1, "go", outcome="stopped", message="after 3 steps"))
    assert notes(made)[-1] == "This turn ended as stopped: `after 3 steps`."


def test_the_persons_own_cells_stay_and_what_speaks_to_us_goes():
    made = session(did("python", code="x = 1").model_copy(update={"bound": ("x",)}))
    nb = session_notebook(made)
    own = [
        "import os",
        "%kin model big",
        "%kin live\ny = x",
        "%%kin\n/compact",
        "%%kin\nnever asked",
        "%%bash\n%kin",
        "%kin undo",
    ]
    nb["cells"] += [new_code_cell(source, id=f"own-{n}") for n, source in enumerate(own)]
    nb["cells"].append(new_markdown_cell("## Mine <b>x</b>", id="mine"))
    nb["cells"][-8]["outputs"] = [nbformat.v4.new_output("stream", text="kept")]
    card = nbformat.v4.new_output("display_data", data={"text/plain": "live"}, metadata={"kin": {"kind": "notice"}})
    nb["cells"][-6]["outputs"] = [card]
    nb["metadata"]["jupytext"]["formats"] = "ipynb,py"
    plain = plain_notebook(made, nb)
    assert [cell["source"] for cell in plain["cells"]][2:] == [
        "x = 1",
        "import os",
        "# %kin live\ny = x",
        "**A prompt that was never run**\n\n```text\nnever asked\n```",
        "%%bash\n%kin",
        "## Mine <b>x</b>",
    ]
    assert plain["cells"][3]["outputs"][0]["text"] == "kept"
    assert plain["cells"][4]["outputs"] == []
    assert plain["metadata"]["jupytext"] == {"formats": "ipynb,py"}
    assert len({cell["id"] for cell in plain["cells"]}) == len(plain["cells"])


def test_a_notebook_of_the_kin_kernel_is_one_of_pythons():
    made = recording(turn(1, "go", cell_id="ask"))
    nb = session_notebook(made)
    nb["metadata"]["kernelspec"] = {"name": "kin", "display_name": "Kin", "language": "kin"}
    for n, source in enumerate(["%%python\nx = 1", "/undo", "and this?"]):
        nb["cells"].append(new_code_cell(source, id=f"own-{n}"))
    plain = plain_notebook(made, session_notebook(made, source_nb=nb))
    assert [cell["source"] for cell in plain["cells"]][3:] == [
        "x = 1",
        "**A prompt that was never run**\n\n```text\nand this?\n```",
    ]
    assert plain["metadata"]["kernelspec"]["name"] == "python3"


def test_the_first_cells_say_what_this_is_and_that_the_workspace_must_be_there(shell, tmp_path):
    nb = plain_notebook(session(did("bash", command="pwd > where"), folder="sub"))
    assert nb["cells"][0]["source"].startswith("**A session of a coding agent, as ordinary cells.**")
    with pytest.raises(FileNotFoundError, match="Folder sub not found"):
        shell.run_cell(nb["cells"][1]["source"]).raise_error()
    (tmp_path / "work" / "sub").mkdir()
    run(shell, nb)
    assert (tmp_path / "work" / "sub" / "where").read_text() == f"{tmp_path / 'work' / 'sub'}\n"


# The change


def test_a_change_is_applied_whatever_it_is(tmp_path):
    chance, file = random.Random(8), tmp_path / "a.txt"
    for _ in range(300):
        old = "".join(f"{chance.choice('abcd')}{n}\n" for n in range(chance.randrange(40)))
        lines = old.splitlines(keepends=True)
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(lines) + 1)
            lines[at : at + chance.randrange(3)] = [f"new{chance.random()}\n"] * chance.randrange(3)
        new = "".join(lines).removesuffix("\n" if chance.random() < 0.2 else "")
        file.write_text(old)
        apply_change(str(file), _patch("a.txt", old.encode(), new.encode()) or "")
        assert file.read_text() == new


def test_a_change_finds_lines_that_have_moved_and_no_others(tmp_path):
    file = tmp_path / "a.txt"
    patch = (
        _patch("a.txt", LINES.encode(), LINES.replace("line 9\n", "9\n").replace("line 25\n", "25\n").encode()) or ""
    )
    file.write_text(f"above\n{LINES}")
    apply_change(str(file), patch)
    assert file.read_text() == "above\n" + LINES.replace("line 9\n", "9\n").replace("line 25\n", "25\n")
    file.write_text(f"above\n{LINES}{LINES}")
    with pytest.raises(ValueError, match="not once in the file"):
        apply_change(str(file), patch)


def test_a_new_file_takes_the_place_of_none(tmp_path):
    (tmp_path / "a").write_text("mine")
    with pytest.raises(ValueError, match="an empty file"):
        apply_change(str(tmp_path / "a"), "@@ -0,0 +1 @@\n+x\n")


# A real session, and the command


async def test_a_real_session_comes_out_the_same(shell, model_server, tmp_path, monkeypatch):
    """Once with its commands run, once with what they changed applied, as of a tool that is not there."""
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    work, start = tmp_path / "work", tmp_path / "start"
    (work / "a.txt").write_text(LINES)
    (work / "b.txt").write_text("b\n")
    shutil.copytree(work, start)
    provider = ProviderConfig(name="p", api_base=model_server.url)
    models = [ModelConfig(name="m", provider="p")]
    config = KinConfig(workdir=work, active_model="m", providers=[provider], models=models)
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    calls = [
        tool_call(
            "bash", command="sed -i.x 's/line 3$/three/' a.txt; rm a.txt.x; mkdir -p d; echo e > d/e; chmod +x d/e"
        ),
        tool_call("bash", command="rm b.txt; ln -s d/e link; mkdir empty; printf end >> a.txt"),
        tool_call("write_file", path="new/file.py", content="x = '''1'''\n"),
        tool_call("edit_file", path="new/file.py", old_string="1", new_string="2"),
    ]
    for call in calls:
        model_server.enqueue(calls=[call])
        model_server.enqueue("Done.")
        async for _ in agent.act("go"):
            pass
    model_server.enqueue(calls=[tool_call("bash", command="rm -r *")])
    model_server.enqueue("Done.")
    async for _ in agent.act("undone"):
        pass
    taken = await agent.undo()
    await agent.aclose()
    made, expected = recording(*agent.turns, taken), tree(work)
    assert expected.keys() == {"a.txt", "d/e", "link", "new/file.py"}
    for name in ("bash", "mcp_tool"):
        turns = [
            turn.model_copy(update={"steps": tuple(_named(step, name) for step in turn.steps)}) for turn in made.turns
        ]
        shutil.rmtree(work)
        shutil.copytree(start, work)
        monkeypatch.chdir(work)
        run(shell, plain_notebook(replace(made, records=(*turns, taken))))
        assert tree(work) == expected, name
        assert (work / "empty").is_dir()


def _named(step: RecordedStep, name: str) -> RecordedStep:
    calls = tuple(call.model_copy(update={"name": name}) if call.name == "bash" else call for call in step.calls)
    return step.model_copy(update={"calls": calls})


@pytest.fixture
def kin(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))

    def run_it(*argv: str) -> tuple[int, str, str]:
        return main(list(argv)), *capsys.readouterr()

    return run_it


def test_the_command_writes_it_and_replaces_nothing(kin, tmp_path):
    assert kin("save", str(QUICKSTART), "plain.ipynb", "--plain") == (
        0,
        "Saved plain.ipynb: it needs no kin_nb, and has no recording.\n",
        "",
    )
    nb = load_notebook(tmp_path / "plain.ipynb")
    assert "kin" not in nb["metadata"]
    assert kin("save", str(QUICKSTART), "plain.ipynb", "--plain")[::2] == (
        1,
        "Not saved: plain.ipynb exists.\nChoose another name, or remove that file.\n",
    )
    assert kin("save", "plain.ipynb", "other.ipynb", "--plain")[2].startswith("plain.ipynb: This notebook has no")
    assert kin("save", str(QUICKSTART), "no/where.ipynb", "--plain")[0] == 1
    assert not (tmp_path / "other.ipynb").exists()


def test_from_another_folder_the_workspace_is_where_it_was(kin, tmp_path):
    (tmp_path / "sub").mkdir()
    made = session(did("bash", command="ls"), folder="w")
    write_notebook(session_notebook(made), tmp_path / "s.ipynb")
    assert kin("save", "s.ipynb", "sub/plain.ipynb", "--plain")[0] == 0
    assert "cd ../w || exit" in load_notebook(tmp_path / "sub" / "plain.ipynb")["cells"][-1]["source"]
