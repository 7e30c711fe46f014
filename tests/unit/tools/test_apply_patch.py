"""apply_patch: the format, the places of hunks, the checks before anything is written, and writing all or none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kin_nb.core.tool_types import BaseToolConfig, ToolError
from kin_nb.core.tools.builtins import file_transaction, text_file
from kin_nb.core.tools.builtins.apply_patch import ApplyPatch
from kin_nb.core.tools.builtins.patch_format import parse_patch

CODE = "import os\n\n\ndef one():\n    x = 1\n    return x\n\n\ndef two():\n    x = 1\n    return x\n"


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch", ""])


def update(*lines: str, path: str = "a.py") -> str:
    return patch(f"*** Update File: {path}", *lines)


@pytest.fixture
def tool(workspace: Path) -> ApplyPatch:
    return ApplyPatch.from_config(BaseToolConfig(workdir=workspace))


@pytest.fixture
def apply(tool, workspace):
    """Preview and apply a patch, and return what the model reads. A failure leaves all files, and the preview has the reason."""

    async def apply(text: str, *, foreseen: bool = True) -> str:
        before = files(workspace)
        try:
            args, said = tool.parse_args({"patch": text}), failure_of_the_format(tool, text)
            said = said or tool.preview(args).error
            assert files(workspace) == before
            result, failure = tool.to_model(await tool.run(args)), ""
        except ToolError as error:
            result, failure = "", str(error)
        if not failure:
            assert said == ""
            return result
        assert files(workspace) == before
        assert said == (failure if foreseen else "")
        raise ToolError(failure)

    return apply


def failure_of_the_format(tool: ApplyPatch, text: str) -> str:
    """Why the call is not even resolved: then there is no preview."""
    try:
        tool.accesses(tool.parse_args({"patch": text}))
    except ToolError as error:
        return str(error)
    return ""


def files(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")
    }


async def failing(apply, text: str, *, foreseen: bool = True) -> str:
    with pytest.raises(ToolError) as failed:
        await apply(text, foreseen=foreseen)
    return str(failed.value)


# the whole


async def test_files_are_changed_created_moved_and_deleted_in_one_call(apply, tool, workspace):
    (workspace / "a.py").write_text(CODE)
    (workspace / "old.txt").write_text("one\ntwo\nthree\n")
    (workspace / "old.txt").chmod(0o755)
    (workspace / "gone.txt").write_text("gone\n")
    text = patch(
        "*** Update File: a.py",
        "@@ def two():",
        "-    x = 1",
        "+    x = 2",
        "     return x",
        "*** Add File: new/b.py",
        "+y = 1",
        "+",
        "+z = 2",
        "*** Update File: old.txt",
        "*** Move to: moved/new.txt",
        "@@",
        " one",
        "-two",
        "+2",
        " three",
        "*** Delete File: gone.txt",
    )
    preview = tool.preview(tool.parse_args({"patch": text}))
    assert preview.summary == (
        "patch 4 files (+5 -3): a.py, write new/b.py, move old.txt to moved/new.txt, delete gone.txt"
    )
    assert preview.kind == "diff"
    titles = [line for line in preview.body.split("\n") if line[:1] not in ("", " ", "+", "-", "@")]
    assert titles == [
        *("Changed: a.py", "New file: new/b.py", "Moved: old.txt to moved/new.txt", "Deleted: gone.txt"),
    ]
    assert "--- a/old.txt\n+++ b/moved/new.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n" in preview.body
    assert await apply(text) == (
        "Edited a.py: line 10 (+1 -1).\n"
        "Wrote new/b.py: lines 1-3 (+3 -0).\n"
        "Moved old.txt to moved/new.txt: line 2 (+1 -1).\n"
        "Deleted gone.txt: 1 line."
    )
    assert {name: content for name, content in files(workspace).items() if content is not None} == {
        "a.py": CODE.replace("def two():\n    x = 1", "def two():\n    x = 2").encode(),
        "new/b.py": b"y = 1\n\nz = 2\n",
        "moved/new.txt": b"one\n2\nthree\n",
    }
    assert (workspace / "moved/new.txt").stat().st_mode & 0o777 == 0o755


async def test_a_file_is_moved_as_it_is(apply, workspace):
    (workspace / "a.bin").write_bytes(b"\0\1")
    (workspace / "b.txt").write_bytes(b"caf\xe9\r\n")
    text = patch(
        *("*** Update File: a.bin", "*** Move to: c.bin", "*** Update File: b.txt", "*** Move to: d.txt"),
    )
    assert await apply(text) == ("Moved a.bin to c.bin: binary, 2 bytes.\nMoved b.txt to d.txt: not changed.")
    assert files(workspace) == {"c.bin": b"\0\1", "d.txt": b"caf\xe9\r\n"}


async def test_parts_of_one_file_are_applied_in_order(apply, workspace):
    (workspace / "a.py").write_text("x = 1\n")
    text = patch(
        *("*** Update File: a.py", "-x = 1", "+x = 2", "*** Update File: a.py", "-x = 2", "+x = 3"),
        *("*** Add File: b.py", "+y = 1", "*** Update File: b.py", "-y = 1", "+y = 2"),
    )
    assert await apply(text) == "Edited a.py: line 1 (+1 -1).\nWrote b.py: line 1 (+1 -0)."
    assert files(workspace) == {"a.py": b"x = 3\n", "b.py": b"y = 2\n"}


async def test_a_file_that_is_deleted_and_added_is_replaced(apply, workspace):
    (workspace / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    assert await apply(patch("*** Delete File: a.txt", "*** Add File: a.txt", "+three", "+two")) == (
        "Edited a.txt: line 1 (+1 -1)."
    )
    assert files(workspace) == {"a.txt": b"three\r\ntwo\r\n"}


async def test_the_syntax_of_each_file_is_checked(apply, tool, workspace):
    (workspace / "a.py").write_text("x = 1\n")
    text = patch("*** Update File: a.py", "-x = 1", "+x = (", "*** Add File: b.json", "+{", "*** Add File: c.txt", "+(")
    note = tool.preview(tool.parse_args({"patch": text})).note
    assert "a.py does not parse as Python" in note
    assert "b.json does not parse as JSON" in note
    first, *_, last = (await apply(text)).split("\n")
    assert first == "Edited a.py: line 1 (+1 -1)."
    assert last == "Wrote c.txt: line 1 (+1 -0)."


# the format


def test_what_models_write_around_and_between_is_read(subtests):
    plain = parse_patch(update("@@", " a", "-b", "+c"))
    for what, text in {
        "a code fence": f"```\n{update('@@', ' a', '-b', '+c')}```",
        "a here-document": f"apply_patch <<'EOF'\n{update('@@', ' a', '-b', '+c')}EOF",
        "line endings of Windows": update("@@", " a", "-b", "+c").replace("\n", "\r\n"),
        "no @@": update(" a", "-b", "+c"),
        "line numbers": update("@@ -1,2 +1,2 @@ def f():", " a", "-b", "+c"),
        "empty lines": patch("", "*** Update File: a.py", "", "@@", " a", "-b", "+c", "", ""),
        "spaces after a marker": update("@@ ", " a", "-b", "+c").replace("Patch\n", "Patch  \n"),
        "git's note": update("@@", " a", "-b", "\\ No newline at end of file", "+c"),
    }.items():
        with subtests.test(what):
            assert parse_patch(text) == plain


def test_an_empty_line_without_its_mark_is_an_empty_line():
    (part,) = parse_patch(update(" a", "", "-b", "+c"))
    assert part.hunks[0].lines == (" a", " ", "-b", "+c")
    (part,) = parse_patch(patch("*** Add File: b", "+a", "", "+c", ""))
    assert part.lines == ("a", "", "c")
    assert parse_patch(patch("*** Add File: empty"))[0].lines == ()


def test_the_argument_has_its_name_in_other_agents_too(tool):
    assert tool.parse_args({"input": patch("*** Delete File: a")}).patch == patch("*** Delete File: a")
    assert list(tool.get_parameters()["properties"]) == ["patch"]


BROKEN = {
    "no patch": ("x = 1", "The patch has no line `*** Begin Patch`. Expected:\n*** Begin Patch\n"),
    "cut off": ("*** Begin Patch\n*** Add File: b.py\n+x", "The patch has no line `*** End Patch`, so a part"),
    "no file": (patch(), "The patch names no file."),
    "two patches": (patch("*** Delete File: a.py") * 2, "There is more after `*** End Patch`."),
    "unknown marker": (
        patch("*** Rename File: a"),
        "Line 2 of the patch is '*** Rename File: a'. Expected `*** Update",
    ),
    "no path": (patch("*** Add File: ", "+a"), "Line 2 of the patch is '*** Add File: '. The path is missing."),
    "no new path": (update("*** Move to:", "-a"), "Line 3 of the patch is '*** Move to:'. The path is missing."),
    "a line without mark": (update("-a", "b"), "Line 4 of the patch is 'b'. Each line of a hunk must begin with"),
    "a new line without mark": (patch("*** Add File: b", "x"), "Line 3 of the patch is 'x'. Each line of a new file"),
    "no change": (update("@@", " a"), "The patch changes nothing in a.py: no line begins with - or +."),
    "a line after a deletion": (patch("*** Delete File: a.py", "-x"), "Line 3 of the patch is '-x'. Expected"),
    "a path with a line break": (patch("*** Delete File: a\x01b"), "'a\\x01b' is not a usable path"),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_broken_patch_names_its_line(apply, workspace, what):
    (workspace / "a.py").write_text("a\n")
    text, message = BROKEN[what]
    assert (await failing(apply, text)).startswith(message)


# the places of hunks


async def changed(apply, workspace, before: str, *lines: str) -> str:
    (workspace / "a.py").write_text(before, newline="")
    await apply(update(*lines))
    return (workspace / "a.py").read_bytes().decode()


async def test_hunks_are_found_by_context_anchor_and_end(apply, workspace, subtests):
    two = CODE.replace("def two():\n    x = 1", "def two():\n    x = 2")
    after_two = CODE.replace("def two():\n", "def two():\n    y = 0\n")
    change = ("-    x = 1", "+    x = 2")
    for what, (lines, after) in {
        "context": ((" def two():", *change), two),
        "anchor": (("@@ def two():", *change), two),
        "the beginning of an anchor": (("@@ def two", *change), two),
        "anchor that is context too": (("@@ def two():", " def two():", *change), two),
        "anchor in the file's indentation": (("@@   def two():", *change), two),
        "anchors": (("@@ def one():", "@@ def two():", *change), two),
        "insertion after an anchor": (("@@ def two():", "+    y = 0"), after_two),
        "insertion at the end": (("+end",), f"{CODE}end\n"),
        "end of file": (("@@", *change, "     return x", "*** End of File"), two),
        "the same function twice": (
            ("@@ def one():", "-    x = 1", "+    x = 3", "@@ def one():", "-    return x", "+    return 3", " ", " "),
            CODE.replace("    x = 1\n    return x\n\n\ndef two", "    x = 3\n    return 3\n\n\ndef two"),
        ),
        "in another order": (
            ("@@", " def two():", *change, "@@", "-import os", "+import re"),
            two.replace("import os", "import re"),
        ),
        "deletion": (("-import os", "-", "-", " def one():"), CODE.removeprefix("import os\n\n\n")),
    }.items():
        with subtests.test(what):
            assert await changed(apply, workspace, CODE, *lines) == after


async def test_line_endings_and_the_end_of_the_file_stay_as_they_are(apply, workspace, subtests):
    change = (" a", "-b", "+c", "+d")
    for before, after in {
        "a\r\nb\r\n": "a\r\nc\r\nd\r\n",
        "a\nb": "a\nc\nd",
        "a\r\nb": "a\r\nc\r\nd",
        "a\nb\n": "a\nc\nd\n",
        "a\r\nb\nz\r\n": "a\r\nc\r\nd\r\nz\r\n",
        "a\nb\n\x0cz\r": "a\nc\nd\n\x0cz\r",
    }.items():
        with subtests.test(before):
            assert await changed(apply, workspace, before, *change) == after
    assert await changed(apply, workspace, "a", "+b") == "a\nb"
    assert await changed(apply, workspace, "", "+b") == "b\n"
    assert await changed(apply, workspace, "a\nb", "-b") == "a\n"
    assert await changed(apply, workspace, "\ufeffa\n", "-a", "+b") == "\ufeffb\n"


async def test_a_hunk_that_fits_several_places_or_none_says_what_to_do(apply, workspace, subtests):
    (workspace / "a.py").write_text(CODE)
    change = ("-    x = 1", "+    x = 2")
    for what, (lines, message) in {
        "several": (change, "a.py: found 2 places for it, at lines 5, 10.\nAdd context lines, or a line `@@ def name`"),
        "whitespace": (
            ("-    x  = 1", "+    x = 2"),
            "a.py: its lines are not in the file.\nClosest: line 5, which differ only in whitespace: line 5 is '    x = 1', not",
        ),
        "at the first line": (
            ("-import  os", "+import re"),
            "a.py: its lines are not in the file.\nClosest: line 1, which differ only in whitespace",
        ),
        "the second of two": (
            ("-import os", "+import re", "@@", "-nowhere", "+z"),
            "a.py, hunk 2 of 2: its lines are not in the file.\nNo similar lines were found.",
        ),
        "no such anchor": (
            ("@@ def too():", *change),
            "a.py: the line `@@ def too():` is not in the file.\nClosest: line 9, ",
        ),
        "before its anchor": (
            ("@@ def two():", "-import os"),
            "a.py: its lines are not after `@@ def two():`, but at line 1.",
        ),
        "twice the same lines": (
            ("-import os", "+import re", "@@", "-import os", "+import sys"),
            "Two hunks for a.py change the same lines.",
        ),
        "numbered lines": (
            ("-     5\t    x = 1", "+y"),
            "a.py: its lines are not in the file.\nIts lines begin with read_file's",
        ),
        "nothing new": (
            ("-import os", "+import os"),
            "The patch changes nothing: the files are as it would make them.",
        ),
    }.items():
        with subtests.test(what):
            assert (await failing(apply, update(*lines))).startswith(message)


# what is checked before anything is written


async def test_a_part_that_cannot_be_applied_leaves_all_files(apply, workspace, subtests):
    (workspace / "a.py").write_text("x = 1\n")
    (workspace / "folder").mkdir()
    (workspace / "blob").write_bytes(b"\0" * 100)
    (workspace / "link").symlink_to("a.py")
    (workspace / "latin").write_bytes(b"caf\xe9\n")
    for what, (lines, message) in {
        "missing": (("*** Update File: b.py", "-x"), "b.py: there is no such file or folder."),
        "similar name": (
            ("*** Delete File: aa.py",),
            "aa.py: there is no such file or folder.\nIn the workspace: a.py",
        ),
        "existing": (("*** Add File: a.py", "+x"), "a.py exists already."),
        "existing target": (("*** Update File: blob", "*** Move to: a.py"), "a.py exists already."),
        "folder": (("*** Delete File: folder",), "folder is a folder, not a file"),
        "in a file": (("*** Add File: a.py/b", "+x"), "'a.py/b' is not a usable path: not a directory."),
        "below a file": (("*** Add File: a.py/b/c", "+x"), "'a.py/b/c' is not a usable path: not a directory."),
        "binary": (("*** Update File: blob", "-x", "+y"), "blob is a binary file (100 bytes)."),
        "link deleted": (("*** Delete File: link",), "link is a symbolic link to a.py."),
        "link moved": (("*** Update File: link", "*** Move to: b"), "link is a symbolic link to a.py."),
        "encoding": (("*** Update File: latin", "+€"), "This file's encoding, latin-1, cannot represent '€'."),
        "after its deletion": (
            ("*** Delete File: a.py", "*** Update File: a.py", "-x = 1"),
            "a.py is deleted or moved earlier in this patch.",
        ),
        "moved over a deleted one": (
            ("*** Delete File: blob", "*** Update File: a.py", "*** Move to: blob"),
            "blob is deleted in this patch",
        ),
        "secret": (
            ("*** Update File: a.py", "-[secret]", "+y"),
            "a.py: its lines are not in the file.\n[secret] in the patch is a placeholder",
        ),
    }.items():
        with subtests.test(what):
            assert (await failing(apply, patch("*** Add File: first", "+1", *lines))).startswith(message)


async def test_a_link_is_followed_by_an_update(apply, workspace):
    (workspace / "a.py").write_text("x = 1\n")
    (workspace / "link").symlink_to("a.py")
    assert await apply(update("-x = 1", "+x = 2", path="link")) == "Edited a.py: line 1 (+1 -1)."
    assert (workspace / "link").is_symlink()
    assert (workspace / "a.py").read_text() == "x = 2\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
async def test_read_only_files_and_folders_are_refused(apply, workspace):
    (workspace / "a.py").write_text("x = 1\n")
    (workspace / "a.py").chmod(0o444)
    assert (await failing(apply, patch("*** Add File: b", "+1", "*** Delete File: a.py"))).startswith(
        "a.py is read-only."
    )


# all or none


@pytest.mark.parametrize("fails", ["b.py", "new/deep/c.py", "gone.py"])
async def test_a_write_that_fails_midway_restores_what_was_written(apply, workspace, monkeypatch, fails):
    for name in ("a.py", "b.py", "gone.py", "also.py", "from.py"):
        (workspace / name).write_text(f"{name}\n")
    (workspace / "also.py").chmod(0o700)
    real_write, real_remove = text_file.write_atomically, text_file.remove
    failed: list[str] = []

    def once(name: str) -> None:
        if name == fails and not failed:
            failed.append(name)
            raise ToolError(f"Cannot write {name}: no space left on device.")

    def write(path, content, name, *, mode=None):
        once(name)
        return real_write(path, content, name, mode=mode)

    def remove(path, name):
        real_remove(path, name)  # a deletion fails after it was done: it is restored too
        once(name)

    monkeypatch.setattr(file_transaction.text_file, "write_atomically", write)
    monkeypatch.setattr(file_transaction.text_file, "remove", remove)
    lines = [
        *("*** Update File: a.py", "-a.py", "+1", "*** Delete File: also.py", "*** Add File: new/first.py", "+1"),
        *("*** Update File: from.py", "*** Move to: to.py", "*** Update File: b.py", "-b.py", "+1"),
        *("*** Add File: new/deep/c.py", "+1", "*** Delete File: gone.py"),
    ]
    assert await failing(apply, patch(*lines), foreseen=False) == (
        f"Cannot write {fails}: no space left on device.\n"
        "Nothing was changed: what had been written before it was restored."
    )
    assert failed == [fails]
    assert (workspace / "also.py").stat().st_mode & 0o777 == 0o700


async def test_what_cannot_be_restored_is_named(tool, workspace, monkeypatch):
    (workspace / "a.py").write_text("x\n")
    (workspace / "b.py").write_text("y\n")
    real = text_file.write_atomically

    def write(path, content, name, *, mode=None):
        if content != b"new a\n":
            raise ToolError(f"Cannot write {name}: input/output error.")
        return real(path, content, name, mode=mode)

    monkeypatch.setattr(file_transaction.text_file, "write_atomically", write)
    with pytest.raises(ToolError) as failed:
        await tool.invoke(patch=patch("*** Update File: a.py", "-x", "+new a", "*** Update File: b.py", "-y", "+new b"))
    assert str(failed.value) == (
        "Cannot write b.py: input/output error.\nWhat had been written before it was restored, except for: a.py."
    )


async def test_an_interrupt_restores_too(tool, workspace, monkeypatch):
    (workspace / "a.py").write_text("x\n")
    real = text_file.write_atomically

    def write(path, content, name, *, mode=None):
        if name == "b.py":
            raise KeyboardInterrupt
        return real(path, content, name, mode=mode)

    monkeypatch.setattr(file_transaction.text_file, "write_atomically", write)
    with pytest.raises(KeyboardInterrupt):
        await tool.invoke(patch=patch("*** Update File: a.py", "-x", "+y", "*** Add File: b.py", "+1"))
    assert files(workspace) == {"a.py": b"x\n"}


# for the safety chain


def test_it_says_what_it_reads_writes_and_removes(tool):
    text = patch(
        *("*** Update File: a", "-1", "*** Add File: b", "+1", "*** Delete File: c", "*** Update File: d"),
        *("*** Move to: e", "*** Update File: a", "-2"),
    )
    accesses = tool.accesses(tool.parse_args({"patch": text}))
    assert accesses.writes == ("a", "b", "c", "d", "e")
    assert accesses.reads == ("d",)
    assert accesses.removes == ("c", "d")


def test_an_allowlist_of_paths_allows_edits_and_no_deletion(workspace):
    tool = ApplyPatch.from_config(BaseToolConfig(workdir=workspace, allowlist=["src/*"], denylist=["src/no*"]))

    def decided(*lines: str) -> str | None:
        return tool.check_allowlist_denylist(tool.parse_args({"patch": patch(*lines)}))

    assert decided("*** Update File: src/a", "-1", "*** Add File: src/b", "+1") == "always"
    assert decided("*** Update File: src/a", "-1", "*** Add File: b", "+1") is None
    assert decided("*** Update File: src/a", "-1", "*** Add File: src/no", "+1") == "never"
    assert decided("*** Delete File: src/a") is None
    assert decided("*** Update File: src/a", "*** Move to: src/b") is None
