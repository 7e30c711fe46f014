"""What undo leaves alone, and what it never does."""

from __future__ import annotations

import os
import stat

import pytest

from kin_nb.core.file_history import FileHistory, workspace_store
from kin_nb.core.file_history.file_state import file_name, recorded_name
from kin_nb.core.paths import kin_home
from kin_nb.core.records import FileChange, sha256
from tests.unit.file_history.tree import bash, run, tree, write


def test_a_command_is_recorded_with_patches_modes_and_links(root, history):
    (root / "a.py").write_text("x = 1\n")
    (root / "run").write_text("#!/bin/sh\n")
    (root / "old").write_bytes(b"\0binary")
    (root / "empty").mkdir()
    files, uncovered = run(history, root, "sed -i s/1/2/ a.py; chmod +x run; rm old; ln -s a.py link; rmdir empty")
    by_path = {file.path: file for file in files}
    assert uncovered == ""
    assert list(by_path) == ["a.py", "empty", "link", "old", "run"]
    assert by_path["a.py"].patch == "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
    assert by_path["a.py"].after == sha256(b"x = 2\n")
    assert by_path["old"].patch is None
    assert by_path["link"].after == sha256(b"a.py")
    modes = {path: (file.before_mode, file.after_mode) for path, file in by_path.items()}
    assert modes == {
        "a.py": ("100644", "100644"),
        "empty": ("040000", ""),
        "link": ("", "120000"),
        "old": ("100644", ""),
        "run": ("100644", "100755"),
    }


def test_what_the_person_changed_since_is_kept_and_listed_and_the_rest_comes_back(root, history):
    for name in ("edited", "deleted", "other"):
        (root / name).write_text("before\n")
    files, _ = run(history, root, "for f in edited deleted other new; do echo after > $f; done")
    (root / "edited").write_text("mine\n")
    (root / "deleted").unlink()
    (root / "new").write_text("mine too\n")
    restored = history.undo(files)
    assert restored.kept == (
        ("deleted", "you deleted it since"),
        ("edited", "you changed it since"),
        ("new", "you changed it since"),
    )
    assert [file.path for file in restored.files] == ["other"]
    assert {name: content for name, (_, _, content) in tree(root).items()} == {
        b"edited": b"mine\n",
        b"new": b"mine too\n",
        b"other": b"before\n",
    }


def test_what_the_person_did_between_two_calls_is_what_comes_back_and_is_reported(root, history):
    path = root / "a.txt"
    path.write_text("first\n")
    changes = list(write(history, path, "by the first call\n"))
    path.write_text("mine\n")
    changes += write(history, path, "by the second call\n")
    restored = history.undo(changes)
    assert path.read_text() == "mine\n"
    assert restored.kept == (("a.txt", "you changed it between two of these calls: it is what it was then"),)


def test_a_file_that_is_as_it_was_already_is_fine_and_no_change(root, history):
    (root / "a").write_text("before")
    files, _ = run(history, root, "printf after > a; printf new > b")
    (root / "a").write_text("before")
    (root / "b").unlink()
    assert history.undo(files) == type(history.undo(()))()


def test_a_folder_that_became_a_link_is_not_followed(root, history, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "sub").mkdir()
    (root / "sub" / "gone.txt").write_text("before\n")
    (root / "sub" / "changed.txt").write_text("before\n")
    files, _ = run(history, root, "rm sub/gone.txt; echo after > sub/changed.txt")
    (root / "sub").rename(root / "moved")
    (outside / "changed.txt").write_text("after\n")
    (root / "sub").symlink_to(outside)
    restored = history.undo(files)
    assert dict(restored.kept)["sub/gone.txt"] == "a folder above it is a file or a link now"
    assert "sub/changed.txt" in dict(restored.kept)
    assert tree(outside) == {b"changed.txt": ("file", 0o644, b"after\n")}


def test_a_link_that_leads_out_comes_back_as_a_link(root, history, tmp_path):
    target = tmp_path / "secret"
    target.write_text("keep\n")
    (root / "link").symlink_to(target)
    files, _ = run(history, root, "rm link; echo instead > link")
    assert history.undo(files).kept == ()
    assert (root / "link").readlink() == target
    assert target.read_text() == "keep\n"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../out.txt", "that is not the path of a file in the workspace"),
        ("sub/../../out.txt", "that is not the path of a file in the workspace"),
        ("", "that is not the path of a file in the workspace"),
        ("a\\x00b", "that is not the path of a file in the workspace"),
        (".git/hooks/pre-commit", "git's own files are left alone"),
        ("nested/.GIT/config", "git's own files are left alone"),
        (".g\u200cit/config", "git's own files are left alone"),
        ("/tmp/\ud800", "that is not the path of a file in the workspace"),
        ("/etc/kin-nb-test", "it is outside of the workspace, and no tool changed it from here"),
    ],
)
def test_a_record_from_elsewhere_makes_undo_write_nowhere_else(root, history, tmp_path, path, why):
    store = workspace_store(root)
    content = store.put(b"evil\n")
    store.close()
    before = tree(tmp_path)
    restored = history.undo([FileChange(path=path, before=content, before_mode="100755")])
    assert restored.kept == ((path, why),)
    assert tree(tmp_path) == before


def test_our_own_settings_and_what_is_kept_apart_are_neither_seen_nor_written(root, tmp_path, monkeypatch):
    monkeypatch.setenv("KIN_HOME", str(root / "home"))
    notebook = root / "session.ipynb"
    notebook.write_text("{}")
    history = FileHistory(root, workspace_store(root), apart=[notebook])
    files, uncovered = run(
        history, root, "echo saved > session.ipynb; mkdir -p home; echo x > home/config.toml; echo y > a"
    )
    assert ([file.path for file in files], uncovered) == (["a"], "")
    made = [FileChange(path=name, after=sha256(b"y\n")) for name in ("session.ipynb", "home/config.toml")]
    assert [why for _, why in history.undo(made).kept] == ["kin_nb itself writes there"] * 2
    assert kin_home().joinpath("config.toml").exists()
    history.close()


def test_what_a_file_tool_wrote_outside_comes_back_but_only_where_it_was_recorded(root, history, tmp_path):
    outside = tmp_path / "notes.txt"
    outside.write_text("before\n")
    files = write(history, outside, "after\n")
    assert files[0].path == str(outside)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = FileHistory(elsewhere, workspace_store(elsewhere))
    assert [path for path, _ in other.undo(files).kept] == [str(outside)]
    assert outside.read_text() == "after\n"
    other.close()
    restored = history.undo(files)
    assert (restored.kept, outside.read_text()) == ((), "before\n")
    assert history.redo(files).kept == ()
    assert outside.read_text() == "after\n"


def test_two_tools_at_once_in_an_empty_folder_leave_it_as_it_was(root, history):
    (root / "sub").mkdir()
    one, two = history.before_writes([root / "sub/one"]), history.before_writes([root / "sub/new/two"])
    (root / "sub/one").write_text("1\n")
    (root / "sub/new").mkdir()
    (root / "sub/new/two").write_text("2\n")
    changes = [*history.changes(two)[0], *history.changes(one)[0]]
    assert {change.path for change in changes if change.after} == {"sub/one", "sub/new/two"}
    restored = history.undo(changes)
    assert (restored.kept, tree(root)) == ((), {b"sub": ("folder", 0, b"")})
    assert history.undo(restored.files).kept == ()
    assert sorted(tree(root)) == [b"sub", b"sub/new", b"sub/new/two", b"sub/one"]


def test_a_folder_that_a_tool_names_stands_for_all_that_is_in_it(root, history):
    (root / "out").mkdir()
    (root / "out" / "old").write_text("old\n")
    (root / "beside").write_text("x\n")
    first = tree(root)
    before = history.before_writes([root / "out", root / "fresh"])
    bash(root, "rm out/old; mkdir out/deep fresh; echo 1 > out/deep/a; echo 2 > fresh/b; echo y > beside")
    files, uncovered = history.changes(before)
    assert ([file.path for file in files], uncovered) == (["fresh/b", "out/deep/a", "out/old"], "")
    (root / "beside").write_text("x\n")
    assert history.undo(files).kept == ()
    assert tree(root) == first


def test_private_files_and_folders_come_back_private(root, history):
    (root / "keys").mkdir(mode=0o700)
    (root / "keys" / "id").write_text("secret\n")
    (root / "keys" / "id").chmod(0o600)
    files, _ = run(history, root, "rm -r keys")
    assert history.undo(files).kept == ()
    assert stat.S_IMODE((root / "keys").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "keys" / "id").stat().st_mode) == 0o600


def test_another_name_of_the_same_file_outside_is_not_written_to(root, history, tmp_path):
    (root / "a").write_text("before\n")
    os.link(root / "a", tmp_path / "outside")
    files, _ = run(history, root, "echo after > a")
    assert history.undo(files).kept == ()
    assert (root / "a").read_text() == "before\n"
    assert (tmp_path / "outside").read_text() == "after\n"


def test_names_that_differ_in_case_only_lose_nothing(root, history):
    (root / "Read").mkdir()
    (root / "Read" / "Me.md").write_text("hello\n")
    first = tree(root)
    files, _ = run(history, root, "mv Read tmp; mv tmp READ; mv READ/Me.md READ/ME.md")
    assert history.undo(files).kept == ()
    assert tree(root) == first


def test_a_workspace_that_is_gone_is_made_again(root, history):
    (root / "sub").mkdir()
    (root / "sub" / "a").write_text("here\n")
    first = tree(root)
    before = history.before_anything()
    bash(root.parent, "rm -r workspace")
    files, uncovered = history.changes(before)
    assert uncovered == ""
    assert history.undo(files).kept == ()
    assert tree(root) == first


def test_without_a_store_changes_are_recorded_and_nothing_is_undone(root):
    history = FileHistory(root, None)
    files = write(history, root / "a.txt", "new\n")
    assert files[0].patch == "--- a/a.txt\n+++ b/a.txt\n@@ -0,0 +1 @@\n+new\n"
    assert history.undo(files).kept == (("a.txt", "its content is not kept any more"),)
    assert (root / "a.txt").read_text() == "new\n"
    assert run(history, root, "echo x > b") == ((), "not covered: no history of files is kept")
    assert history.redo(files).kept == (), "it is there already"


def test_content_that_is_given_up_and_in_no_patch_leaves_the_file_as_it_is(root, history):
    (root / "a").write_bytes(b"\0before")
    files, _ = run(history, root, "echo after > a; echo new > b")
    store = workspace_store(root)
    store.prune(max_bytes=0, max_age_days=0)
    store.close()
    restored = history.undo(files)
    assert restored.kept == (("a", "its content is not kept any more"),)
    assert sorted(tree(root)) == [b"a"], "b needs no content"
    assert history.undo(run(history, root, "echo later > a")[0]).kept == (), "what is there now is kept again"
    assert (root / "a").read_text() == "after\n"


def test_records_of_before_that_have_no_modes_are_files(root, history):
    path = root / "a"
    path.write_text("before\n")
    old = [
        change.model_copy(update={"before_mode": "", "after_mode": ""}) for change in write(history, path, "after\n")
    ]
    assert history.undo(old).kept == ()
    assert path.read_text() == "before\n"


def test_a_folder_with_files_of_the_person_is_not_removed(root, history):
    files, _ = run(history, root, "mkdir made; echo x > made/a; mkdir empty; rm -rf nothing")
    (root / "made" / "mine").write_text("mine\n")
    (root / "empty" / "mine").write_text("mine\n")
    restored = history.undo(files)
    assert restored.kept == (("empty", "other files are in it now"),)
    assert sorted(tree(root)) == [b"empty", b"empty/mine", b"made", b"made/mine"]


def test_a_file_whose_place_a_folder_of_the_person_took_is_not_put_back(root, history):
    (root / "a").write_text("before\n")
    files, _ = run(history, root, "rm a")
    (root / "a").mkdir()
    (root / "a" / "mine").write_text("mine\n")
    assert history.undo(files).kept == (("a", "other files are in it now"),)
    assert (root / "a" / "mine").read_text() == "mine\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_where_nothing_may_be_written_is_reported(root, history):
    (root / "sub").mkdir()
    (root / "sub" / "a").write_text("before\n")
    files, _ = run(history, root, "echo after > sub/a")
    (root / "sub").chmod(0o500)
    assert history.undo(files).kept == (("sub/a", "permission denied"),)
    (root / "sub").chmod(0o700)


def test_every_name_is_written_in_one_line_of_text_and_found_again(subtests):
    for name in ["plain.py", "a\nb", "caf\u00e9", "\udcff\udcfe", "back\\slash", "\\x41", "tab\t\x7f", "\u2028"]:
        with subtests.test(name=name):
            recorded = recorded_name(name)
            assert file_name(recorded) == name
            assert recorded.isprintable() or "\u2028" in recorded
            recorded.encode("utf-8")


def test_a_name_in_an_old_record_stands_for_itself():
    assert file_name("back\\slash\\xyz") == "back\\slash\\xyz"
