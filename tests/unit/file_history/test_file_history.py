"""Whatever commands do to a tree is undone exactly, in a git workspace and in a plain one; and done again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kin_nb.core.records import FileChange
from tests.unit.file_history.tree import bash, git_state, make_repository, run, tree


def quoted(path: bytes) -> str:
    return "$'" + "".join(f"\\x{byte:02x}" for byte in path) + "'"


NAMES = [
    b"a",
    b"b.txt",
    b"sub",
    b"deep",
    b"new\nline",
    b"\xff\xfe",
    b"sp ace",
    "\u00e9t\u00e9".encode(),
    b"-rf",
    b"back\\x41",
]


def any_path(rng: random.Random) -> bytes:
    return b"/".join([b".", *(rng.choice(NAMES) for _ in range(rng.randint(1, 3)))])


def any_operation(rng: random.Random) -> str:
    """A command; it may well fail, as commands do. Links lead out of the workspace too, to a folder beside it."""
    one, two = quoted(any_path(rng)), quoted(any_path(rng))
    text = quoted(rng.choice([b"x\n", b"", b"no end", b"\0binary\0", b"a\r\nb\n", b"long " * 500]))
    return rng.choice(
        [
            f'mkdir -p "$(dirname {one})"; printf %s {text} > {one}',
            f"printf %s {text} > {one}",
            f"printf %s {text} >> {one}",
            f"chmod +x {one}",
            f"chmod -x {one}",
            f"mv {one} {two}",
            f"mv -T {one} {two}",
            f"rm -f {one}",
            f"rm -rf {one}",
            f"mkdir -p {one}",
            f"rmdir {one}",
            f"ln -s {two} {one}",
            f'ln -sfn "$OUTSIDE" {one}',
            f"ln -f {one} {two}",
            f"cp -r {one} {two}",
            f"sed -i s/x/y/ {one}",
            f"rm -rf {one}; mkdir -p {one}; echo in > {one}/file",
            f"rm -rf {one}; echo instead > {one}",
            f'mv {one} {two}; ln -s -- "$(basename {two})" {one}',
        ]
    )


@pytest.fixture
def outside(tmp_path, monkeypatch) -> Path:
    """Commands write there through links: no folder of this machine may stand for it."""
    folder = tmp_path / "outside"
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_text("a\n")
    monkeypatch.setenv("OUTSIDE", str(folder))
    return folder


@pytest.mark.parametrize("in_git", [False, True], ids=["plain", "git"])
@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 40))])
def test_undo_of_any_commands_gives_the_tree_back_and_redo_what_they_made(root, history, seed, in_git, outside):
    rng = random.Random(seed)
    if in_git:
        make_repository(root)
    bash(root, "; ".join(any_operation(rng) for _ in range(25)))
    trees, changes = [tree(root)], []
    untouched = git_state(root) if in_git else None
    for _ in range(4):
        files, uncovered = run(history, root, "; ".join(any_operation(rng) for _ in range(rng.randint(1, 8))))
        assert not uncovered or uncovered.startswith("not covered: permissions of "), "of folders"
        changes.append(files)
        trees.append(tree(root))
    together = [change for files in changes for change in files]
    for change in together:
        assert FileChange.model_validate_json(change.model_dump_json()) == change
    outside_now = tree(outside)
    back = history.undo(together)
    assert (tree(root), back.kept) == (trees[0], ())
    assert (history.undo(back.files).kept, tree(root)) == ((), trees[-1]), "an undo is undone by its own changes"
    assert (history.redo(back.files).kept, tree(root)) == ((), trees[0])
    assert (history.redo(together).kept, tree(root)) == ((), trees[-1])
    assert (history.undo(together).kept, tree(root)) == ((), trees[0])
    for files, expected in zip(changes, trees[1:], strict=True):
        assert (history.redo(files).kept, tree(root)) == ((), expected)
    for files, expected in zip(reversed(changes), reversed(trees[:-1]), strict=True):
        assert (history.undo(files).kept, tree(root)) == ((), expected)
    assert tree(outside) == outside_now, "neither way writes through a link"
    if in_git:
        assert git_state(root) == untouched
