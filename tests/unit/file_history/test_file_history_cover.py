"""What a look at the workspace covers, what it says of the rest, and what it costs."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from kin_nb.core.file_history import FileHistory, ScanLimits, scan, workspace_store
from tests.unit.file_history.tree import bash, git, make_repository, run, tree, write


def limited(root: Path, **limits: float) -> FileHistory:
    return FileHistory(root, workspace_store(root), ScanLimits(**limits))


def paths(files) -> list[str]:
    return [file.path for file in files]


def test_large_files_that_change_are_named_and_not_recorded(root, history):
    for name in ("changed.bin", "gone.bin", "same.bin", "shrunk.bin", "grown.bin"):
        (root / name).write_bytes(b"x" * (3_000_000 if name != "grown.bin" else 10))
    files, uncovered = run(
        history,
        root,
        "echo y >> changed.bin; rm gone.bin; echo small > shrunk.bin; cp changed.bin grown.bin; cp same.bin zz.bin",
    )
    assert files == ()
    assert uncovered == (
        "not covered: changed.bin (3.0 MB) changed and is over 2 MB; gone.bin (3.0 MB) is gone and was over 2 MB; "
        "grown.bin (3.0 MB) changed and is over 2 MB; 2 more like these"
    )


def test_ignored_files_are_named_when_they_change_or_go_and_not_when_they_are_new(root, history):
    (root / ".gitignore").write_text("*.log\n.env\nnode_modules\n")
    (root / ".env").write_text("KEY=1\n")
    (root / "same.log").write_text("1\n")
    (root / "node_modules").mkdir()
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "a.pyc").write_text("")
    files, uncovered = run(
        history, root, "echo KEY=2 > .env; echo new > new.log; rm -r node_modules __pycache__; touch a"
    )
    assert paths(files) == ["a"]
    assert uncovered == "not covered: .env changed and is ignored; node_modules is gone and was ignored"
    assert history.undo(files).kept == ()
    assert (root / ".env").read_text() == "KEY=2\n"


def test_an_ignored_folder_is_named_when_files_come_or_go_in_it(root, history):
    (root / ".gitignore").write_text("data/\n")
    for name in ("data", "build", "node_modules", "__pycache__"):
        (root / name).mkdir()
        (root / name / "mine").write_text("x\n")
    files, uncovered = run(history, root, "rm data/mine; touch build/new __pycache__/new; echo y > node_modules/mine")
    assert (files, uncovered) == ((), "not covered: build changed and is ignored; data changed and is ignored")
    assert run(history, root, "cat data/* build/*; ls -R; touch -a build; echo y > a")[1] == ""


def test_what_was_ignored_before_is_not_taken_for_new_when_the_rules_change(root, history):
    (root / ".gitignore").write_text("secret\nkept/\n")
    (root / "secret").write_text("mine\n")
    (root / "kept").mkdir()
    (root / "kept" / "a").write_text("mine\n")
    files, uncovered = run(history, root, "rm .gitignore")
    assert (paths(files), uncovered) == ([".gitignore"], "")
    history.undo(files)
    assert (root / "secret").exists()
    assert (root / "kept" / "a").exists()


def test_what_becomes_ignored_still_comes_back(root, history):
    (root / "a.log").write_text("1\n")
    (root / "same.log").write_text("same\n")
    (root / "gone.log").write_text("1\n")
    first = tree(root)
    files, _ = run(history, root, "echo '*.log' > .gitignore; echo 2 > a.log; rm gone.log")
    assert paths(files) == [".gitignore", "a.log", "gone.log"]
    assert history.undo(files).kept == ()
    assert tree(root) == first


def test_pipes_sockets_and_devices_are_never_opened(root, history, monkeypatch):
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        files, uncovered = run(history, root, "rm pipe; mkfifo other; echo x > a")
    assert paths(files) == ["a"]
    assert uncovered == "not covered: pipe is gone and was not a regular file"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_not_taken_for_gone(root, history):
    (root / "closed").mkdir()
    (root / "closed" / "a").write_text("x\n")
    (root / "b").write_text("x\n")
    files, _ = run(history, root, "chmod 000 closed b")
    (root / "closed").chmod(0o700)
    assert files == ()


def test_permissions_that_do_not_come_back_are_named(root, history):
    for name in ("a", "b", "c", "d"):
        (root / name).write_text("x\n")
    (root / "sub").mkdir()
    for command, uncovered in (
        ("chmod 600 a", "not covered: permissions of a"),
        ("chmod o+x a; chmod 700 sub", "not covered: permissions of a; permissions of sub"),
        ("chmod 640 a b c d", "not covered: permissions of a; permissions of b; permissions of c; 1 more permissions"),
    ):
        assert run(history, root, command) == ((), uncovered)


def test_permissions_of_a_file_that_changed_besides_come_back(root, history):
    for name in ("a", "run"):
        (root / name).write_text("x\n")
    (root / "a").chmod(0o644)
    files, uncovered = run(history, root, "chmod 600 a; echo y >> a; chmod +x run")
    assert (paths(files), uncovered) == (["a", "run"], "")
    history.undo(files)
    assert (root / "a").stat().st_mode & 0o777 == 0o644


def test_git_folders_are_left_alone_and_a_moved_head_is_reported(root, history):
    make_repository(root)
    nested = root / "nested"
    nested.mkdir()
    git(nested, "init", "--quiet", "--template=")
    identity = "-c user.name=n -c user.email=e"
    files, uncovered = run(history, root, f"echo x > nested/a; git {identity} commit -qm second; git -C nested add a")
    assert (paths(files), uncovered) == (["nested", "nested/a"], "not covered: git's HEAD moved")
    git_folders = tree(root / ".git"), tree(nested / ".git")
    assert history.undo(files).kept == ()
    assert (tree(root / ".git"), tree(nested / ".git")) == git_folders


def test_a_workspace_of_too_many_files_is_reported_and_what_was_seen_comes_back(root):
    for number in range(12):
        (root / f"{number:02}").write_text("before\n")
    history = limited(root, entries=10)
    files, uncovered = run(history, root, "for f in *; do echo after > $f; done; echo x > new")
    assert uncovered == "not covered: the workspace has more than 10 files and folders"
    assert len(files) == 10, "those that were looked at, and none that may have been there before"
    assert history.undo(files).kept == ()
    history.close()


def test_a_command_that_makes_too_many_files_hides_nothing_that_was_there_before(root):
    (root / "sub").mkdir()
    for number in range(4):
        (root / "sub" / f"{number}").write_text("before\n")
    history = limited(root, entries=10)
    files, uncovered = run(history, root, "rm sub/0; echo after > sub/1; for i in {10..30}; do echo x > $i; done")
    assert uncovered == "not covered: the workspace has more than 10 files and folders"
    assert history.undo(files).kept == ()
    assert [(root / "sub" / f"{number}").read_text() for number in range(4)] == ["before\n"] * 4
    history.close()


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"seconds": 0.0}, "looking through the workspace took longer than 0 s"),
        ({"total_bytes": 4}, "the workspace has more than 0 MB of files"),
    ],
)
def test_a_look_that_would_take_too_much_is_not_covered(root, limits, why):
    (root / "a").write_text("before\n")
    history = limited(root, **limits)
    assert run(history, root, "echo after > a") == ((), f"not covered: {why}")
    history.close()


def test_a_change_that_hides_in_the_same_tick_of_the_clock_is_seen(root, history):
    path = root / "a"
    path.write_text("one\n")
    status = path.stat()
    history.before_anything()
    files, _ = run(history, root, "printf 'two\\n' > a; touch -d @1 a")
    assert paths(files) == ["a"]
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    before = history.before_anything()
    path.write_text("six\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert paths(history.changes(before)[0]) == ["a"], "as large and as old as before"


def test_an_unchanged_file_is_not_read_again_not_even_by_the_next_session(root, monkeypatch):
    monkeypatch.setattr(scan, "_TICK", 0)  # files made a moment ago are settled
    (root / "a").write_text("before\n")
    first = limited(root)
    assert run(first, root, "true") == ((), "")
    first.close()
    damaged = workspace_store(root)
    with damaged.database.writing() as connection:
        connection.execute("UPDATE files SET sha = 'as remembered'")
    damaged.close()
    history = limited(root)
    assert history.before_anything().snapshot.entries["a"].sha == "as remembered"
    (root / "a").write_text("after\n")
    assert history.before_anything().snapshot.entries["a"].sha != "as remembered"
    history.close()


def test_a_large_file_that_a_tool_writes_is_recorded_and_said_not_to_come_back(root, history):
    path = root / "data.txt"
    path.write_bytes(b"x" * 2_500_000)
    before = history.before_writes([path])
    path.write_bytes(b"y" * 2_500_000)
    files, uncovered = history.changes(before)
    assert (paths(files), files[0].patch) == (["data.txt"], None)
    assert uncovered == "not covered: data.txt is over 2 MB"
    assert history.undo(files).kept == (("data.txt", "its content is not kept any more"),)


def test_a_store_that_cannot_be_used_is_reported_and_named_files_are_recorded_all_the_same(root, tmp_path, monkeypatch):
    (tmp_path / "home").write_text("a file where the folder should be")
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    history = FileHistory(root, workspace_store(root))
    (root / "a").write_text("before\n")
    files, uncovered = run(history, root, "echo after > a")
    assert [(change.path, change.patch) for change in files] == [("a", None)]
    assert history.undo(files).kept == (("a", uncovered.removeprefix("not covered: no snapshot was kept: ")),)
    assert uncovered.startswith("not covered: no snapshot was kept: ")
    assert uncovered.endswith("cannot be used (not a directory)")
    files = write(history, root / "a", "again\n")
    assert paths(files) == ["a"]
    assert files[0].patch.endswith("-after\n+again\n")
    assert [path for path, _ in history.undo(files).kept] == ["a"]
    assert (root / "a").read_text() == "again\n"


def test_many_patches_are_cut_short_and_the_files_come_back_all_the_same(root, history):
    text = "line\n" * 20_000
    for number in range(30):
        (root / f"{number}.txt").write_text(text)
    first = tree(root)
    files, _ = run(history, root, "for f in *; do echo more >> $f; done")
    assert len(files) == 30
    assert files[0].patch
    assert files[29].patch is None
    assert history.undo(files).kept == ()
    assert tree(root) == first


def test_files_that_change_while_they_are_read_do_no_harm(root, history):
    (root / "log").write_text("")
    script = "for i in {1..50}; do echo $i >> log; echo $i > tmp.$i; mv tmp.$i f; done"
    with subprocess.Popen(["bash", "-c", script], cwd=root) as writer:
        while writer.poll() is None:
            history.changes(history.before_anything())
    files, _ = run(history, root, "rm log f")
    assert history.undo(files).kept == ()
    assert (root / "log").read_text().splitlines()[-1] == "50"
    bash(root, "rm -f tmp.*")
