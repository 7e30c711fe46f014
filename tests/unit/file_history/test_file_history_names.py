"""Files whose recorded names are not their real ones, and files whose contents no record may hold."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kin_nb.core.file_history import FileHistory
from kin_nb.core.file_history.compare import not_covered
from kin_nb.core.file_history.file_state import State, Unknown
from kin_nb.core.file_history.scan import FolderSnapshot, Skipped
from kin_nb.core.records import FileChange
from kin_nb.core.redaction import Redactor
from tests.unit.file_history.tree import bash, run, tree, write

UNKNOWN = "its name is not whole in the record, and which file it was is not known here"
SECRET_LINE = "PASSWORD=correct-horse-battery"


@pytest.fixture
def redact(root: Path, tmp_path: Path) -> Callable[[str], str]:
    return Redactor(["postgres"], root, tmp_path / "home").text


def recorded(files: tuple[FileChange, ...], redact: Callable[[str], str]) -> list[FileChange]:
    return [file.model_copy(update={"path": redact(file.path)}) for file in files]


def test_files_whose_names_hold_a_secret_come_back_under_their_own_names(root, history, redact):
    (root / "postgres").mkdir()
    (root / "postgres" / "init.sql").write_text("create table mine;\n")
    (root / "postgres.conf").write_text("a=1\n")
    first = tree(root)
    files, _ = run(history, root, "sed -i s/1/2/ postgres.conf; rm -r postgres")
    changed = tree(root)
    records = recorded(files, redact)
    assert [file.path for file in records] == ["[secret].conf", "[secret]/init.sql"]
    undone = history.undo(history.real_names(records, redact))
    assert (undone.kept, tree(root)) == ((), first)
    again = history.undo(history.real_names(recorded(undone.files, redact), redact))
    assert (again.kept, tree(root)) == ((), changed)


def test_a_file_that_changed_in_several_calls_is_found_for_each_of_them(root, history, redact):
    (root / "postgres.conf").write_text("1\n")
    calls = [run(history, root, f"echo {text} > postgres.conf")[0] for text in (2, 1, 2, 3)]
    records = recorded(tuple(file for files in calls for file in files), redact)
    assert history.undo(history.real_names(records, redact)).kept == ()
    assert (root / "postgres.conf").read_text() == "1\n"


def test_what_could_be_one_of_two_files_is_left_alone_and_listed(root, history, redact):
    for name in ("postgres.txt", "[secret].txt"):
        (root / name).write_text("same\n")
    files, _ = run(history, root, "rm *.txt")
    restored = history.undo(history.real_names(recorded(files, redact), redact))
    assert (restored.files, restored.kept) == ((), (("[secret].txt", UNKNOWN),))
    assert tree(root) == {}


def test_a_record_of_a_name_that_was_never_seen_here_makes_nothing(root, history, redact):
    run(history, root, "echo x > a; rm a")
    content = history._store.put(b"evil\n")
    for name in ("[secret].conf", "{workspace}/a", "~/a", "a~"):
        change = FileChange(path=name, before=content, before_mode="100644")
        assert history.undo(history.real_names([change], redact)).kept == ((name, UNKNOWN),)
    assert tree(root) == {}


def test_the_home_folder_and_a_folder_that_is_named_so_are_told_apart(root, history, redact, tmp_path):
    files, _ = run(history, root, "mkdir '~'; echo inside > '~/f.txt'; echo backup > a~; echo x > '{workspace}'")
    outside = write(history, tmp_path / "home" / "f.txt", "outside\n")
    assert recorded(outside, redact)[0].path == "~/f.txt"
    restored = history.undo(history.real_names(recorded(files, redact), redact))
    assert (restored.kept, tree(root)) == ((), {})
    assert (tmp_path / "home" / "f.txt").read_text() == "outside\n"
    assert history.undo(history.real_names(recorded(outside, redact), redact)).kept == ()
    assert not (tmp_path / "home" / "f.txt").exists()


def test_without_a_store_no_name_that_may_be_another_ones_is_used(root, redact):
    change = FileChange(path="[secret].conf", after="0" * 64, after_mode="100644")
    history = FileHistory(root, None)
    assert history.undo(history.real_names([change], redact)).kept == (("[secret].conf", UNKNOWN),)


def test_a_file_that_gave_way_to_a_pipe_is_named_and_comes_back_when_the_pipe_is_gone(root, history):
    (root / "notes.txt").write_text("mine\n")
    files, uncovered = run(history, root, "rm notes.txt; mkfifo notes.txt")
    assert uncovered == "not covered: notes.txt changed and is not a regular file"
    assert history.undo(files).kept == (("notes.txt", "what is there now is not a regular file"),)
    bash(root, "rm notes.txt")
    assert history.undo(files).kept == ()
    assert (root / "notes.txt").read_text() == "mine\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_any_more_is_named(root, history):
    (root / "a").write_text("mine\n")
    files, uncovered = run(history, root, "echo theirs > a; chmod 000 a")
    assert (files, uncovered) == ((), "not covered: a changed and is not readable")


@pytest.mark.parametrize(
    "before", [FolderSnapshot(entries={"a": State("100644", "0" * 64)}), FolderSnapshot(folders={"", "a"})]
)
def test_what_was_covered_and_cannot_be_read_any_more_is_named(root, before):
    after = FolderSnapshot(skipped={"a": Skipped(Unknown.UNREADABLE, 0, None)})
    assert not_covered(before, after, root, 1_000_000, ()) == "not covered: a changed and is not readable"
    assert not_covered(FolderSnapshot(), after, root, 1_000_000, ()) == "", "it was not covered before"


@pytest.mark.parametrize("name", [".env", "sub/prod.env", "id_rsa", ".aws/config", ".kin-code/.env"])
def test_a_file_with_secrets_is_recorded_by_hash_only_and_comes_back(root, history, name):
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(f"{SECRET_LINE}\nDEBUG=0\n")
    files, _ = run(history, root, f"sed -i s/DEBUG=0/DEBUG=1/ {name}")
    assert [(file.path, file.patch) for file in files] == [(name, None)]
    undone = history.undo(files)
    assert ([file.patch for file in undone.files], undone.kept) == ([None], ())
    assert (root / name).read_text().endswith("DEBUG=0\n")


@pytest.mark.parametrize("script", ["mv .env plain.txt", "cp .env plain.txt", "cp .env plain.txt; rm .env"])
def test_a_copy_of_a_file_with_secrets_shows_none_either(root, history, script):
    (root / ".env").write_text(f"{SECRET_LINE}\n")
    files, _ = run(history, root, f"{script}; echo shown > other.txt; touch empty .env.local")
    patches = {file.path: file.patch for file in files}
    assert (patches["plain.txt"], patches["empty"]) == (None, "")
    assert patches["other.txt"].endswith("+shown\n")
    undone = history.undo(files)
    assert undone.kept == ()
    assert SECRET_LINE not in "".join(file.model_dump_json() for file in (*files, *undone.files))
    assert (root / ".env").read_text() == f"{SECRET_LINE}\n"


def test_a_file_with_secrets_that_is_filled_and_ignored_at_once_shows_none(root, history):
    (root / ".env").touch()
    files, _ = run(history, root, f"echo .env > .gitignore; echo {SECRET_LINE} > .env")
    assert {file.path: file.patch is None for file in files} == {".env": True, ".gitignore": False}
