"""What is left out of a listing. `git` itself is the judge of what a `.gitignore` means."""

from __future__ import annotations

import contextlib
import inspect
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kin_nb.core.gitignore import Patterns
from kin_nb.core.ignore_rules import IgnoreRules, walk
from tests.table import each_row


def write(root: Path, *paths: str, **contents: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    for path, text in contents.items():
        (root / path).write_text(text)


def ignore(root: Path, text: str, folder: str = ".") -> None:
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / folder / ".gitignore").write_text(text)


def files(root: Path) -> list[str]:
    return sorted(entry.path for entry in walk(root) if not entry.is_dir)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one; git knows nothing of the machine's own ignore files."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-such-folder"))
    root = tmp_path / "repository"
    subprocess.run(["git", "init", "--quiet", "--template=", str(root)], check=True)
    return root


def git_files(root: Path) -> list[str]:
    command = ["git", "-c", "core.quotePath=false", "ls-files", "-z", "--others", "--exclude-standard"]
    output = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return sorted(filter(None, output.split("\0")))


NAMES = r"""
a.py a.log b.log keep.log src/a.py src/a.log src/deep/a.log src/deep/b.py src/deep/er/x log src/log/a aXb/log
docs/a.md docs/out/a.html out/a.html out/keep/b.html x/y/z/w.txt x/z/w.txt x/w.txt foo/bar foo/foo/bar foo.d/foo
#hash !bang br[a]cket a-b a]b a^b back\slash star* q? ab {a,b} aa ac .hidden .config/a
"""
TREE = [*NAMES.split(), "with blank", "trailing "]
RULES = r"""
*.log | /*.log | src/*.log | src/**/*.log | **/a.log | *.log;!keep.log | !keep.log;*.log
log | log/ | /log | src/log | src/log/ | /src | src/ | src/* | src/** | src/**/ | **/deep | **/src/
out/**;!out/keep;!out/keep/** | out/;!out/keep/b.html | *;!*/;!*.py | *;!src/;!*.py | /*;!/src
/*;!/src;/src/*;!/src/deep | x/**/w.txt | x/**/z/** | **/y/**/w.txt | x/*/w.txt | x/* | ** | **/ | */ | /** | / | //
! | !!bang | \!bang | #hash | \#hash | with blank | with* | br[[]a]cket | br\[a\]cket | a[-]b | a[]]b | a[]-a]b | a[^-]b
a[!-]b | a[a-c] | [a-c]b | [c-a]b | a[\-x]b | a[a-c-]b | a[b | a\ | back\\slash | back\slash | star\* | q\? | q? | a? | ?
a?b/log | {a,b} | foo | foo/ | foo;!foo | foo;!foo/ | foo/*;!foo/bar | foo/foo | foo/bar | /foo/bar/ | fo*o*/ | *o*o | **o
f**o/bar | foo/***/bar | ***/bar | .* | .*/ | .*;!.config | src//a.py | ./a.py | ../a.py | docs/out/;!docs/ | [!a]* | a[/]py
"""
"""Ignore files between blank-bar-blank; `;` ends a line in them."""
IGNORE_FILES = [text.replace(";", "\n") for line in RULES.strip().split("\n") for text in line.split(" | ")]
IGNORE_FILES += [
    "trailing\\ ",
    "trailing ",
    "a.log   ",
    "  a.log",
    "\ta.log",
    "a.log\t",
    "*.log\r\n!a.log\r",
    "\ufeff*.log",
]


@each_row("text", IGNORE_FILES)
def test_a_gitignore_means_what_git_says_it_means(repository, text):
    write(repository, *TREE)
    ignore(repository, text)
    assert files(repository) == git_files(repository)


def test_nested_files_speak_of_their_own_folder_and_win_over_those_above(repository):
    write(repository, *TREE)
    ignore(repository, "*.log\nx/y\n")
    ignore(repository, "!a.log\n/deep/b.py\n", "src")
    ignore(repository, "*\n!.gitignore\n", "docs/out")
    ignore(repository, "!*\n", "x/y")  # never read: the folder is ignored
    assert files(repository) == git_files(repository)
    assert "src/a.log" in files(repository)
    assert "src/deep/b.py" not in files(repository)


def test_the_repositorys_own_exclude_file_counts_and_a_gitignore_wins_over_it(repository):
    write(repository, *TREE)
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "exclude").write_text("*.log\n/x\n")
    ignore(repository, "!keep.log\n")
    assert files(repository) == git_files(repository)
    assert "keep.log" in files(repository)
    assert "x/w.txt" not in files(repository)


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(6, 12))])
def test_any_mix_of_rules_means_what_git_says(repository, seed):
    # but for `a**/b`, where git takes `**` for any folders once it has compared the `a`: its manual says otherwise
    chance = random.Random(seed)
    parts = ["a", "b", "*", "**", "?", "[ab]", "[!a]", "a*", "*b", "ab", "*a*b*", "\\a", "**a"]
    lines = [
        chance.choice(["", "", "!"])
        + chance.choice(["", "", "/"])
        + "/".join(chance.choice(parts) for _ in range(chance.randint(1, 4)))
        + chance.choice(["", "", "/"])
        for _ in range(5)
    ]
    names = ["a", "b", "ab", "ba", "aab"]
    tree = {"/".join(chance.choice(names) for _ in range(chance.randint(1, 5))) for _ in range(60)}
    tree = {path for path in tree if not any(other.startswith(f"{path}/") for other in tree)}
    write(repository, *tree)
    ignore(repository, "\n".join(lines))
    ignore(repository, "\n".join(lines[::-1]), min(path for path in tree if "/" in path).partition("/")[0])
    assert files(repository) == git_files(repository), lines


def test_without_git_the_usual_litter_is_left_out(tmp_path):
    litter = [".git/config", "node_modules/x/index.js", "src/__pycache__/a.pyc", "venv/bin/python", ".venv/bin/python"]
    litter += [".ipynb_checkpoints/a.ipynb", "x.egg-info/PKG-INFO", "dist/x.whl", "build/lib/a.py", "src/a.pyc"]
    litter += [".mypy_cache/x", ".pytest_cache/x", ".ruff_cache/x", ".tox/x", ".nox/x", "docs/.DS_Store"]
    write(tmp_path, *litter, "src/a.py", "docs/build.md", ".env.example", "tools/build")
    assert files(tmp_path) == [".env.example", "docs/build.md", "src/a.py", "tools/build"]


def test_a_project_can_include_its_build_folder_again_but_no_wildcard_brings_back_node_modules(tmp_path):
    write(tmp_path, "build/a.py", "dist/a.js", "node_modules/a.js", "src/a.js")
    ignore(tmp_path, "*\n!*/\n!*.py\n!*.js\ndist/\n")
    assert files(tmp_path) == ["build/a.py", "src/a.js"]


def test_what_is_in_an_ignored_folder_is_ignored_whatever_is_reported_of_it_there(tmp_path):
    ignore(tmp_path, "secret/\n!secret/a\n")
    ignore(tmp_path, "!*\n", "secret")
    rules = IgnoreRules(tmp_path)
    assert rules.is_ignored("secret/a", is_dir=False)
    assert rules.is_ignored("secret/deep/a", is_dir=False)
    assert rules.is_ignored("secret", is_dir=True)
    assert not rules.is_ignored("secret", is_dir=False)
    assert not rules.is_ignored("", is_dir=True)


def test_an_ignore_file_that_cannot_be_read_is_passed_over(tmp_path):
    write(tmp_path, "pipe/a.log", "folder/a.log", "link/a.log", "bytes/a.log", "bytes/b.log", "large/a.log")
    os.mkfifo(tmp_path / "pipe" / ".gitignore")
    (tmp_path / "folder" / ".gitignore").mkdir()
    (tmp_path / "link" / ".gitignore").symlink_to(".gitignore")
    (tmp_path / "bytes" / ".gitignore").write_bytes(b"\xff\xfe\na.log\n\x00\n")
    (tmp_path / "large" / ".gitignore").write_text("*.log\n" * 20_000)
    left = [path for path in files(tmp_path) if path.endswith(".log")]
    assert left == ["bytes/b.log", "folder/a.log", "large/a.log", "link/a.log", "pipe/a.log"]


@each_row(
    "rule", ["*a" * 40 + "b", "**/a/" * 30 + "b", "/" + "*a*/" * 30 + "b", "[" * 5_000, "*" * 5_000, "\\" * 5_000]
)
def test_no_rule_makes_the_matcher_try_forever(rule):
    patterns = Patterns(f"{rule}\n!{rule}/\n")
    patterns.decide("a" * 250)
    patterns.decide("a/" * 500 + "a" * 200 + "c")


def test_walking_gives_a_folder_then_what_is_in_it_in_order(tmp_path):
    write(tmp_path, "b/z", "b/a/x", "a.txt", "c")
    assert [(entry.path, entry.is_dir) for entry in walk(tmp_path)] == [
        *[("a.txt", False), ("b", True), ("b/a", True), ("b/a/x", False), ("b/z", False), ("c", False)]
    ]


def test_walking_stops_at_a_depth(tmp_path):
    write(tmp_path, "a/b/c")
    assert [entry.path for entry in walk(tmp_path, max_depth=1)] == ["a"]
    assert [entry.path for entry in walk(tmp_path, max_depth=2)] == ["a", "a/b"]


def test_a_linked_folder_is_named_but_not_entered(tmp_path):
    write(tmp_path, "real/a")
    (tmp_path / "real" / "loop").symlink_to(tmp_path, target_is_directory=True)
    assert [tuple(entry) for entry in walk(tmp_path)] == [("real", True), ("real/a", False), ("real/loop", False)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_is_empty(tmp_path):
    write(tmp_path, "locked/a", "open/a")
    (tmp_path / "locked").chmod(0)
    try:
        assert [entry.path for entry in walk(tmp_path)] == ["locked", "open", "open/a"]
    finally:
        (tmp_path / "locked").chmod(0o700)


def test_a_missing_root_and_a_folder_that_goes_while_it_is_walked_are_empty(tmp_path):
    assert list(walk(tmp_path / "nowhere")) == []
    write(tmp_path, "a/b", "c")
    found = []
    for entry in walk(tmp_path):
        found.append(entry.path)
        if entry.is_dir:
            shutil.rmtree(tmp_path / entry.path)
    assert found == ["a", "c"]


def test_names_that_could_forge_a_line_or_are_no_text_are_passed_over(tmp_path):
    write(tmp_path, "good \u202f é", "bad\nname", "bad\x1b[31mname")
    with contextlib.suppress(OSError):  # macOS has no such names
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff")).write_text("")
    assert [entry.path for entry in walk(tmp_path)] == ["good \u202f é"]


@pytest.mark.skipif(sys.platform == "darwin", reason="its paths end at 1,024 bytes")
def test_a_tree_deeper_than_pythons_stack_is_walked(tmp_path):
    folders = "/".join("d" * 400)
    (tmp_path / folders).mkdir(parents=True)
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 200)
    try:
        assert [entry.path for entry in walk(tmp_path)][-1] == folders
        assert not IgnoreRules(tmp_path).is_ignored("d/" * 500 + "x", is_dir=False)
    finally:
        sys.setrecursionlimit(usual)
