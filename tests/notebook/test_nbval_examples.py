"""`pytest --nbval` on a session notebook: it passes for anyone, anywhere, and fails when the recording was changed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.notebook.people import QUICKSTART, ROOT, run

pytestmark = pytest.mark.kernel

NBVAL = ("-m", "pytest", "--nbval", "--color=no", "-rA", "-p", "no:cacheprovider")


def test_the_quickstart_passes_without_a_key_and_with_an_empty_home(tmp_path):
    done = run(*NBVAL, QUICKSTART, home=tmp_path / "home", cwd=ROOT)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
    assert not (tmp_path / "home" / ".kin-code").exists()


def test_the_data_analysis_passes_without_a_key_where_the_agent_bound_what_later_cells_use(tmp_path):
    done = run(*NBVAL, QUICKSTART.with_name("data-analysis.ipynb"), home=tmp_path / "home", cwd=ROOT)
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


def test_it_passes_with_the_network_cut(tmp_path):
    """The run stands in a network of its own that has a loopback and nothing else."""
    cut = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.run([*cut, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody make a network namespace (unshare --net)")
    done = run(*NBVAL, QUICKSTART, home=tmp_path / "home", cwd=ROOT, before=cut)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def change_reply(nb: Any) -> None:
    """Turn 2, step 3 speaks of something else."""
    step = turn(nb, 2)["steps"][2]
    step["content"] = step["content"].replace("must fail", "must pass")


def change_reply_where_nothing_is_shown(nb: Any) -> None:
    change_reply(nb)
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None


def change_tool_result(nb: Any) -> None:
    call = turn(nb, 1)["steps"][1]["calls"][0]
    assert "sort" in call["output"]
    call["output"] = call["output"].replace("sort", "sorted")


def turn(nb: Any, number: int) -> Any:
    return next(r for cell in nb["cells"] for r in cell["metadata"].get("kin", []) if r["turn"] == number)


def copied(folder: Path, change: Callable[[Any], None] | None = None, name: str = QUICKSTART.name) -> Path:
    """A copy of the quickstart in a folder of its own, changed as an editor of text would."""
    folder.mkdir(parents=True)
    path = folder / name
    shutil.copy(QUICKSTART, path)
    if change:
        nb = json.loads(path.read_text())
        change(nb)
        path.write_text(json.dumps(nb, indent=1))
    return path


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, str]:
    """What nbval says of each cell of each copy, in one run: {"FOLDER/NAME::Cell N": "PASSED" or the failure}."""
    root = tmp_path_factory.mktemp("copies")
    copied(root / "elsewhere")
    copied(root / "renamed", name="mended by an agent (é).ipynb")
    copied(root / "reply", change_reply)
    copied(root / "stripped", change_reply_where_nothing_is_shown)
    beside = copied(root / "beside", change_reply)
    shutil.copy(QUICKSTART, beside.with_name("original.ipynb"))
    copied(root / "result", change_tool_result)
    done = run(*NBVAL, ".", home=root / "home", cwd=root)
    passed = dict.fromkeys(re.findall(r"^PASSED (.+::Cell \d+)$", done.stdout, re.MULTILINE), "PASSED")
    failures = re.split(r"^_+ (.+::Cell \d+) _+$", done.stdout.partition("= PASSES =")[0], flags=re.MULTILINE)[1:]
    return passed | dict(zip(failures[::2], failures[1::2], strict=True))


@pytest.mark.parametrize(
    "path", ["elsewhere/quickstart.ipynb", "renamed/mended by an agent (é).ipynb", "beside/original.ipynb"]
)
def test_an_untouched_copy_passes_wherever_it_lies_and_whatever_it_is_called(results, path):
    assert [results.get(f"{path}::Cell {n}") for n in range(3)] == ["PASSED"] * 3


@pytest.mark.parametrize(
    ("folder", "place"),
    [
        ("reply", "cell 4, turn 2, step 3"),
        ("stripped", "cell 4, turn 2, step 3"),
        ("beside", "cell 4, turn 2, step 3"),
        ("result", "cell 3, turn 1, step 2"),
    ],
)
def test_a_recording_changed_by_hand_fails_and_its_place_is_named(results, folder, place):
    first, second, third = (results[f"{folder}/quickstart.ipynb::Cell {n}"] for n in range(3))
    assert f"quickstart.ipynb, {place}: its reply or one of its tool calls was changed" in first
    assert "`%kin replay` failed above" in second
    assert "`%kin replay` failed above" in third
