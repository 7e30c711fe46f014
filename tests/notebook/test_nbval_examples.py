"""The example notebooks, checked both ways: `pytest --nbval`, and `kin-nb replay --tools`, which runs their tools for real.

Both pass for anyone, anywhere. Both fail when a recording was changed, the second also when its workspace was.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kin_nb.replay.format.notebook_codec import raw_records
from tests.notebook.people import QUICKSTART, ROOT, kin_nb_here, run

pytestmark = pytest.mark.kernel

NBVAL = ("-m", "pytest", "--nbval", "--color=no", "-rA", "-p", "no:cacheprovider")
TOOLS = ("replay", "--tools", "--approve", "recorded")
EXAMPLES = {path.stem: path for path in sorted(QUICKSTART.parent.glob("*.ipynb"))}


@dataclass(frozen=True)
class Changes:
    """`reply`: (turn, step, what it says, what it is made to say). `result`: the same of that step's first call.

    `file`: (path in the workspace, what it has, what it is made to have). `seen`: the first call that comes out otherwise.
    """

    reply: tuple[int, int, str, str]
    result: tuple[int, int, str, str]
    file: tuple[str, str, str]
    seen: str


CHANGES = {
    "data-analysis": Changes(
        reply=(1, 4, "not the weather", "the weather"),
        result=(1, 2, "116", "916"),
        file=("harbour-bridge.csv", "2025-04-09,24,", "2025-04-09,25,"),
        seen="turn 1, step 2, python: text",
    ),
    "investigate": Changes(
        reply=(1, 5, "the hours", "the minutes"),
        result=(1, 3, "Tom Adeyemi", "Ines Roth"),
        file=("club.export", "Dan Ivory,1:04:12", "Dan Ivory,1:04:13"),
        seen="turn 1, step 2, bash: effect: club/races/half-marathon-2025.csv",
    ),
    "quickstart": Changes(
        reply=(2, 3, "must fail", "must pass"),
        result=(1, 2, "sort", "sorted"),
        file=("rainfall/stats.py", "value < threshold", "value <= threshold"),
        seen="turn 1, step 2, read_file: text",
    ),
    "refactor": Changes(
        reply=(1, 5, "disagree at exactly 200 cm", "agree"),
        result=(1, 1, ">= 200", "> 200"),
        file=("postage/labels.py", ">= 200", "> 200"),
        seen="turn 1, step 1, grep: text",
    ),
    "second-thoughts": Changes(
        reply=(2, 5, "Two recipes are left", "One recipe is left"),
        result=(1, 1, "12 oz flour", "13 oz flour"),
        file=("recipes/scones.md", "2 oz butter", "3 oz butter"),
        seen="turn 1, step 1, read_file: text",
    ),
    "subagents": Changes(
        reply=(1, 2, "page was right", "board was right"),
        result=(1, 1, "adds an hour", "takes an hour"),
        file=("timetable.csv", "17:50", "17:55"),
        seen="turn 1, step 2, bash: text",
    ),
}
each_example = pytest.mark.parametrize("name", EXAMPLES)


@pytest.fixture(scope="module")
def cut() -> list[str]:
    """What starts a program in a network of its own that has a loopback and nothing else; nothing where no one may make one."""
    command = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    able = (
        shutil.which("unshare") and not subprocess.run([*command, "true"], capture_output=True, check=False).returncode
    )
    return command if able else []


@pytest.mark.long
def test_all_pass_without_a_key_with_an_empty_home_and_the_network_cut(tmp_path, cut):
    done = run(*NBVAL, "examples/", home=tmp_path / "home", cwd=ROOT, before=cut)
    assert done.returncode == 0, done.stdout
    assert sorted(set(re.findall(r"^PASSED examples/(.+)\.ipynb::Cell \d+$", done.stdout, re.MULTILINE))) == [*EXAMPLES]
    assert not (tmp_path / "home" / ".kin-code").exists()


def test_the_tools_run_again_without_a_key_with_an_empty_home_and_the_network_cut(tmp_path, cut):
    done = run("-m", "kin_nb.cli", *TOOLS, "-j", "2", *EXAMPLES.values(), home=tmp_path / "home", cwd=ROOT, before=cut)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"^same +\S*/(\S+)\.ipynb$", done.stdout, re.MULTILINE) == [*EXAMPLES], done.stdout
    assert not (tmp_path / "home" / ".kin-code").exists()


def test_every_example_is_changed_below():
    assert CHANGES.keys() == EXAMPLES.keys()


def change_reply(nb: Any, changes: Changes) -> str:
    """A reply says something else. Where: the cell counted from 1, turn and step."""
    number, at, old, new = changes.reply
    step = turn(nb, number)["steps"][at - 1]
    assert old in step["content"]
    step["content"] = step["content"].replace(old, new)
    return place(nb, number, at)


def change_reply_where_nothing_is_shown(nb: Any, changes: Changes) -> str:
    where = change_reply(nb, changes)
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return where


def change_result(nb: Any, changes: Changes) -> str:
    number, at, old, new = changes.result
    call = turn(nb, number)["steps"][at - 1]["calls"][0]
    assert old in call["output"]
    call["output"] = call["output"].replace(old, new)
    return place(nb, number, at)


def turn(nb: Any, number: int) -> Any:
    return next(record for _, record in raw_records(nb) if record.get("turn") == number)


def place(nb: Any, number: int, at: int) -> str:
    asked = next(index for index, record in raw_records(nb) if record.get("turn") == number)
    return f"cell {asked + 1}, turn {number}, step {at}"


Change = Callable[[Any, Changes], str]
RECORDINGS: dict[str, Change] = {"reply": change_reply, "result": change_result}


def copied(folder: Path, change: Change | None = None, example: str = "quickstart", name: str = "") -> str:
    """A copy of an example in a folder of its own, changed as an editor of text would; where it was changed."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name or f"{example}.ipynb")
    shutil.copy(EXAMPLES[example], path)
    if change is None:
        return ""
    nb = json.loads(path.read_text())
    where = change(nb, CHANGES[example])
    path.write_text(json.dumps(nb, indent=1))
    return where


@pytest.fixture(scope="module")
def copies(tmp_path_factory) -> Path:
    """reply/ and result/ have each example, changed; the others the quickstart."""
    root = tmp_path_factory.mktemp("copies")
    for kind, change in RECORDINGS.items():
        for example in EXAMPLES:
            copied(root / kind, change, example)
    copied(root / "elsewhere")
    copied(root / "renamed", name="mended by an agent (é).ipynb")
    copied(root / "stripped", change_reply_where_nothing_is_shown)
    copied(root / "beside", change_reply)
    copied(root / "beside", name="original.ipynb")
    return root


@pytest.fixture(scope="module")
def results(copies) -> dict[str, str]:
    """What nbval says of each cell of each copy, in one run: {"FOLDER/NAME::Cell N": "PASSED" or the failure}."""
    done = run(*NBVAL, ".", home=copies / "home", cwd=copies)
    passed = dict.fromkeys(re.findall(r"^PASSED (.+::Cell \d+)$", done.stdout, re.MULTILINE), "PASSED")
    failures = re.split(r"^_+ (.+::Cell \d+) _+$", done.stdout.partition("= PASSES =")[0], flags=re.MULTILINE)[1:]
    return passed | dict(zip(failures[::2], failures[1::2], strict=True))


@pytest.mark.long
@pytest.mark.parametrize(
    "path", ["elsewhere/quickstart.ipynb", "renamed/mended by an agent (é).ipynb", "beside/original.ipynb"]
)
def test_an_untouched_copy_passes_wherever_it_lies_and_whatever_it_is_called(results, path):
    assert [results.get(f"{path}::Cell {n}") for n in range(3)] == ["PASSED"] * 3


@pytest.mark.long
@pytest.mark.parametrize("folder", ["reply", "stripped", "beside", "result"])
def test_a_recording_changed_by_hand_fails_and_nothing_of_it_is_played(results, folder):
    first, second, third = (results[f"{folder}/quickstart.ipynb::Cell {n}"] for n in range(3))
    where = "cell 3, turn 1, step 2" if folder == "result" else "cell 4, turn 2, step 3"
    assert f"quickstart.ipynb, {where}: its reply or one of its tool calls was changed" in first
    assert "`%kin replay` failed above" in second
    assert "`%kin replay` failed above" in third


@pytest.mark.long
@pytest.mark.parametrize("kind", RECORDINGS)
@each_example
def test_every_example_fails_where_a_reply_or_a_result_was_changed(results, name, kind, tmp_path):
    where = copied(tmp_path, RECORDINGS[kind], name)
    failed = results[f"{kind}/{name}.ipynb::Cell 0"]
    assert f"{name}.ipynb, {where}: its reply or one of its tool calls was changed" in failed


@pytest.mark.long
@pytest.mark.parametrize("kind", RECORDINGS)
def test_no_tool_of_a_recording_that_was_changed_runs_and_its_place_is_named(copies, kind, tmp_path):
    done = kin_nb_here(
        *TOOLS, *[copies / kind / f"{name}.ipynb" for name in EXAMPLES], home=tmp_path / "home", cwd=tmp_path
    )
    assert done.returncode == 1
    assert "turn 1: " not in done.stdout
    for name in EXAMPLES:
        where = copied(tmp_path / kind, RECORDINGS[kind], name)
        assert f"{name}.ipynb: {where}: its reply or one of its tool calls was changed" in done.stderr


@pytest.fixture(scope="module")
def drifted(tmp_path_factory) -> dict[str, str]:
    """What `kin-nb replay --tools` prints of each example whose workspace has one file changed, in one run."""
    root = tmp_path_factory.mktemp("drifted")
    for name, path in EXAMPLES.items():
        shutil.copy(path, root)
        workspace = shutil.copytree(path.parent / "workspaces" / name, root / "workspaces" / name)
        file, old, new = CHANGES[name].file
        text = (workspace / file).read_text()
        assert old in text
        (workspace / file).write_text(text.replace(old, new))
    done = kin_nb_here(*TOOLS, *[f"{name}.ipynb" for name in EXAMPLES], home=root / "home", cwd=root)
    assert done.returncode == 3, done.stdout + done.stderr
    said = re.split(r"^(\S+)\.ipynb: tools run again", done.stdout, flags=re.MULTILINE)[1:]
    return dict(zip(said[::2], said[1::2], strict=True))


@pytest.mark.long
@each_example
def test_every_example_drifts_where_a_file_of_its_workspace_was_changed(drifted, name):
    drifts = re.findall(r"^turn \d+, step \d+, \w+: (?!played).*", drifted[name], re.MULTILINE)
    assert drifts[0].startswith(CHANGES[name].seen), drifted[name]
