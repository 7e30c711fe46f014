"""The workspace's files, as the model sees them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kin_nb.core.config import ProjectContextConfig
from kin_nb.core.system_prompt.project_context import EMPTY, NOT_LISTED, file_tree

TITLE = "Files (ignored ones are left out):\n"


def put(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")


def tree(root: Path, room: int = 4_000, **limits: float) -> str:
    return file_tree(root, ProjectContextConfig(timeout_seconds=limits.pop("timeout_seconds", 20), **limits), room)


def test_folders_come_first_and_ignored_files_not_at_all(project):
    put(project, "z.py", "src/b/deep.py", "src/a.py", ".gitignore", "out/x.o", "node_modules/m.js", "docs/x.md")
    (project / ".gitignore").write_text("out/\n")
    assert tree(project) == TITLE + "docs/\n  x.md\nsrc/\n  b/\n    deep.py\n  a.py\n.gitignore\nz.py"


def test_depth_is_limited(project):
    put(project, "a/b/c/d.txt", "a/b/e.txt", "a/f/g.txt")
    assert tree(project, max_depth=1) == TITLE + "a/ (2 folders)"
    assert tree(project, max_depth=2) == TITLE + "a/\n  b/ (1 folder, 1 file)\n  f/ (1 file)"
    assert tree(project, max_depth=3) == TITLE + "a/\n  b/\n    c/ (1 file)\n    e.txt\n  f/\n    g.txt"


def test_source_code_is_shown_one_level_deeper_when_there_is_room(project):
    put(project, "src/app/a.py", "src/app/web/b.py", "src/data/c.txt", "tests/unit/d.py", "docs/api/conf.py")
    assert tree(project) == TITLE + (
        "docs/\n  api/ (1 file)\nsrc/\n  app/\n    web/ (1 file)\n    a.py\n  data/ (1 file)\ntests/\n  unit/ (1 file)"
    )
    assert "  app/ (1 folder, 1 file)\n" in tree(project, max_files=8)


def test_a_folder_names_its_first_files_and_one_of_sources_more_of_them(project):
    put(project, *(f"docs/{n:02}.md" for n in range(40)), *(f"app/{n:02}.py" for n in range(40)))
    told = tree(project).splitlines()
    assert (told.count("  … 30 more"), told.count("  … 10 more")) == (1, 1)
    assert told.index("  29.py") < told.index("  … 10 more") < told.index("docs/") < told.index("  09.md")
    assert "  … 38 more" in tree(project, max_files_per_dir=2)


def test_an_empty_folder_is_called_empty(project):
    (project / "out").mkdir()
    assert tree(project) == TITLE + "out/ (empty)"


def test_what_does_not_fit_is_counted_and_upper_levels_are_filled_first(project):
    put(project, *(f"big/{n:03}.py" for n in range(300)), *(f"small/{n}.py" for n in range(3)), "x", "y")
    assert tree(project, max_files=13) == (
        TITLE
        + "big/\n  000.py\n  001.py\n  002.py\n  003.py\n  004.py\n  … 295 more\nsmall/\n  0.py\n  1.py\n  2.py\nx\ny"
    )
    assert tree(project, max_files=4) == TITLE + "big/ (300 files)\nsmall/ (3 files)\nx\ny"
    assert tree(project, max_files=3) == TITLE + "big/ (300 files)\nsmall/ (3 files)\n… 2 more"


def test_folders_of_one_level_are_limited(project):
    put(project, *(f"d{n}/x" for n in range(5)), "f")
    assert tree(project, max_dirs_per_level=2, max_depth=1) == TITLE + "d0/ (1 file)\nd1/ (1 file)\nf\n… 3 more"


@pytest.mark.parametrize("name", ["{:02}-" + "x" * 50, "{:02}/" + "x" * 20])
def test_characters_are_limited(project, name):
    put(project, *(name.format(n) for n in range(40)))
    told = tree(project, room=500)
    assert 300 < len(told) <= 500
    assert told.endswith(" more")


def test_a_folder_that_no_one_could_list_is_not_looked_through(project):
    put(project, *(f"d{n}/e{m}/x" for n in range(6) for m in range(6)))
    opened = []

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.scandir" and str(arguments[0]).startswith(str(project)):
            opened.append(arguments[0])

    sys.addaudithook(watch)
    tree(project, max_dirs_per_level=2, max_depth=2)
    assert len(opened) == 1 + 2 + 4


def test_nothing_and_no_time_and_no_room_are_reported(project):
    assert tree(project) == EMPTY
    put(project, "a")
    assert tree(project, timeout_seconds=0) == NOT_LISTED
    assert tree(project, room=10) == NOT_LISTED
    assert tree(project, max_depth=0) == NOT_LISTED


def test_names_are_data(project, tmp_path):
    put(project, "long" * 40, "right\u202eto left")
    (project / "link").symlink_to(tmp_path)
    told = tree(project).splitlines()
    assert told[1] == "link"
    assert told[2].endswith("…")
    assert len(told[2]) == 60
    assert told[3] == r"right\u202eto left"
