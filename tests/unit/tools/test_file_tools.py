"""Reading, listing, writing and editing files."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from pathlib import Path

import pytest

from kin_nb.core.tool_types import BaseToolConfig, ToolError
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins import builtin_tools


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, BaseTool]:
    return {name: tool.from_config(BaseToolConfig(workdir=tmp_path)) for name, tool in builtin_tools().items()}


@pytest.fixture
def call(tools):
    async def run(name: str, **args) -> str:
        return tools[name].to_model(await tools[name].invoke(**args))

    return run


@pytest.fixture
def preview(tools):
    return lambda name, **args: tools[name].preview(tools[name].parse_args(args))


def block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


def test_the_tools_come_in_one_order_and_take_little_room():
    schemas = [vars(tool.get_info()) for tool in builtin_tools().values()]
    assert sum(len(json.dumps(schema, ensure_ascii=False)) for schema in schemas) < 12_000
    names = "read_file list_dir glob grep write_file search_replace edit_file apply_patch bash web_fetch web_search"
    assert list(builtin_tools()) == [*names.split(), "todo", "task", "ask_user", "memory", "skill", "send_dmail"]


def test_each_tool_says_what_it_touches(tools):
    def touched(name, **args):
        return tools[name].accesses(tools[name].parse_args(args))

    assert touched("read_file", path="a").reads == touched("list_dir", path="a").reads == ("a",)
    assert touched("grep", pattern="x", path="a").only_reads
    for name, args in {
        "write_file": {"path": "a", "content": ""},
        "edit_file": {"path": "a", "old_string": "x", "new_string": "y"},
        "search_replace": {"path": "a", "content": "x"},
    }.items():
        assert touched(name, **args).writes == ("a",)


# read_file


async def test_each_line_of_a_file_comes_after_its_number_and_a_tab(call, tools, tmp_path):
    (tmp_path / "a").write_bytes("\ufefféa\r\n\r\n  b\u2028c\n".encode())
    assert await call("read_file", path="a") == "     1\téa\n     2\t\n     3\t  b\u2028c"
    assert (await tools["read_file"].invoke(path="a")).content == "éa\n\n  b\u2028c\n"


async def test_part_of_a_file_says_which_of_how_many_lines_and_where_to_continue(call, tmp_path):
    (tmp_path / "a").write_text("".join(f"line {n}\n" for n in range(1, 2_011)) + "end")

    async def read(**part: int) -> str:
        return await call("read_file", path="a", **part)

    assert (
        await read(offset=3, limit=2) == "     3\tline 3\n     4\tline 4\n[lines 3-4 of 2,011; continue with offset=5]"
    )
    assert (
        await read(limit=1)
        == await read(offset=0, limit=1)
        == "     1\tline 1\n[lines 1-1 of 2,011; continue with offset=2]"
    )
    assert await read(offset=2_010) == "  2010\tline 2010\n  2011\tend\n[lines 2010-2011 of 2,011]"
    assert (await read()).endswith("  1000\tline 1000\n[lines 1-1000 of 2,011; continue with offset=1001]")
    assert (await read(limit=1_500)).endswith("[lines 1-1500 of 2,011; continue with offset=1501]")


async def test_whole_lines_are_read_until_no_more_fit_and_the_rest_follows(tools, tmp_path):
    text = "".join(f"{n:06} {'é' * 90}\n" for n in range(2_000))
    (tmp_path / "a").write_text(text)
    read, offset = "", 1
    while True:
        result = await tools["read_file"].invoke(path="a", offset=offset)
        assert len(tools["read_file"].to_model(result)) <= 40_000
        assert len(result.content.encode()) <= 64_000
        read, offset = read + result.content, offset + result.lines_read
        if not result.was_truncated:
            break
    assert read == text


async def test_the_lines_of_a_very_large_file_are_not_counted(call, tmp_path, monkeypatch):
    monkeypatch.setattr("kin_nb.core.tools.builtins.read_file._COUNTED", 10)
    (tmp_path / "a").write_text("1\n" * 100)
    assert (await call("read_file", path="a", limit=1)).endswith("[lines 1-1 of very many; continue with offset=2]")
    assert (await call("read_file", path="a", offset=97, limit=1)).endswith(
        "[lines 97-97 of 100; continue with offset=98]"
    )


async def test_an_empty_file_and_an_offset_past_the_end_are_reported(call, tmp_path):
    (tmp_path / "empty").write_text("")
    (tmp_path / "one").write_text("1")
    (tmp_path / "two").write_text("1\n2")
    assert await call("read_file", path="empty") == "[empty is empty.]"
    assert await call("read_file", path="one", offset=9) == "[one has 1 line; offset 9 is past the end.]"
    assert await call("read_file", path="two", offset=3) == "[two has 2 lines; offset 3 is past the end.]"
    assert await call("read_file", path="two", offset=2) == "     2\t2\n[lines 2-2 of 2]"


async def test_a_line_that_is_too_long_is_an_error_and_not_silence(call, tmp_path):
    (tmp_path / "a").write_text("short\n" + "x" * 200_000 + "\nend\n")
    assert await call("read_file", path="a") == "     1\tshort\n[lines 1-1 of 3; continue with offset=2]"
    with pytest.raises(ToolError, match="Line 2 of a is too long"):
        await call("read_file", path="a", offset=2)
    assert await call("read_file", path="a", offset=3) == "     3\tend\n[lines 3-3 of 3]"


async def test_latin_1_is_read_and_said(call, tmp_path):
    (tmp_path / "a").write_bytes(b"caf\xe9\n")
    assert await call("read_file", path="a") == "     1\tcafé\n[not UTF-8: read as Latin-1]"


async def test_what_is_no_text_file_is_refused_at_once(call, tmp_path):
    (tmp_path / "blob").write_bytes(b"PNG\0" * 100)
    os.mkfifo(tmp_path / "pipe")
    refused = {
        "blob": r"binary file \(400 bytes\)",
        "pipe": "named pipe",
        "/dev/zero": "device",
        ".": "folder",
        "no": "no such",
    }
    for path, reason in refused.items():
        with pytest.raises(ToolError, match=reason):
            await call("read_file", path=path)


PICTURES = {
    "png": b"\x89PNG\r\n\x1a\n\0\0",
    "jpeg": b"\xff\xd8\xff\xe0\0",
    "gif": b"GIF89a\0",
    "webp": b"RIFF\x04\0\0\0WEBPVP8 ",
}


async def test_a_picture_is_given_as_a_picture_whatever_its_name(subtests, tools, tmp_path):
    for kind, picture in PICTURES.items():
        with subtests.test(kind=kind):
            (tmp_path / "plot.dat").write_bytes(picture)
            result = await tools["read_file"].invoke(path="plot.dat")
            (image,) = tools["read_file"].images(result)
            assert (image.media_type, base64.b64decode(image.data)) == (f"image/{kind}", picture)
            assert tools["read_file"].to_model(result) == (
                f"[plot.dat is a {kind.upper()} image of {len(picture)} bytes; it is attached to this result.]"
            )


async def test_a_picture_that_is_too_large_is_an_error(call, tmp_path):
    (tmp_path / "ok.png").write_bytes(PICTURES["png"].ljust(5 * 1024 * 1024, b"x"))
    (tmp_path / "large.png").write_bytes(PICTURES["png"].ljust(5 * 1024 * 1024 + 1, b"x"))
    assert "5,242,880 bytes" in await call("read_file", path="ok.png")
    with pytest.raises(ToolError, match="more than 5,242,880 bytes"):
        await call("read_file", path="large.png")


async def test_text_has_no_pictures(tools, tmp_path):
    (tmp_path / "a").write_text("text")
    assert tools["read_file"].images(await tools["read_file"].invoke(path="a")) == []


async def test_a_notebook_is_read_as_its_cells(call, tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "source": "1 + 1\nprint('x')",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["x\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "2", "image/png": "iVBOR" * 1000}},
                {"output_type": "stream", "text": "y" * 1_500},
                {"output_type": "error", "ename": "ValueError", "evalue": "\x1b[31mno\x1b[0m", "traceback": []},
            ],
        },
        {"cell_type": "code", "source": "", "outputs": []},
    ]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))
    note = "[a notebook, shown as its cells; the file itself is JSON, and edits must match that]"
    assert await call("read_file", path="a.ipynb") == (
        "[cell 1: markdown]\n# Title\ntext\n\n"
        "[cell 2: code]\n1 + 1\nprint('x')\n[output]\nx\n[output]\n2\n(image/png)\n"
        f"[output]\n{'y' * 1_000}\n[… 500 characters left out …]\n[output]\nValueError: no\n\n"
        f"[cell 3: code]\n{note}"
    )
    part = await call("read_file", path="a.ipynb", offset=5, limit=2)
    assert part == f"[cell 2: code]\n1 + 1\n{note}\n[lines 5-6 of 19; continue with offset=7]"


async def test_what_is_no_notebook_is_read_as_it_is(subtests, tools, tmp_path):
    for number, text in enumerate(
        ["", "no json", "[1]", '{"cells": {}}', "[" * 100_000, '{"cells": 1, "worksheets": []}']
    ):
        with subtests.test(number=number):
            (tmp_path / "a.ipynb").write_text(text + "\n")
            if len(text) < 1_000:
                assert (await tools["read_file"].invoke(path="a.ipynb")).content == text + "\n"
            else:
                with pytest.raises(ToolError, match="too long to return"):
                    await tools["read_file"].invoke(path="a.ipynb")


async def test_a_malformed_notebook_shows_what_there_is(call, tmp_path):
    cells = [None, {"source": 1, "outputs": [None, {"data": []}, {"data": {"text/plain": ["a", 1]}}]}, {"outputs": {}}]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    assert (await call("read_file", path="a.ipynb")).startswith(
        "[cell 1: ]\n\n[cell 2: ]\n[output]\na\n\n[cell 3: ]\n["
    )


# list_dir


async def test_folders_come_first_and_links_show_their_target(call, tmp_path):
    for folder in ("b", ".git"):
        (tmp_path / folder).mkdir()
    for file in ("a", "c\nd"):
        (tmp_path / file).write_text("")
    (tmp_path / "to").symlink_to("b")
    (tmp_path / "broken").symlink_to("nowhere")
    assert await call("list_dir") == ".git/\nb/\nto/ -> b\na\nbroken -> nowhere\nc\\nd"


async def test_a_long_listing_is_capped_with_a_count(call, tmp_path):
    for n in range(520):
        (tmp_path / f"{n:03}").touch()
    listed = (await call("list_dir")).split("\n")
    assert (len(listed), listed[499], listed[500]) == (501, "499", "[… 20 more …]")


async def test_an_empty_folder_and_no_folder_are_reported(call, tmp_path):
    assert await call("list_dir") == ". is an empty folder."
    (tmp_path / "file").touch()
    for path, reason in {"file": "not a directory", "missing": "no such"}.items():
        with pytest.raises(ToolError, match=reason):
            await call("list_dir", path=path)


async def test_a_path_that_leads_nowhere_is_shown_with_the_names_that_are_near(subtests, call, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ("utils.md", "util\nx.md", ".utils.md", *(f"{n}.txt" for n in range(20))):
        (tmp_path / "docs" / name).touch()
    for tool, rest in {
        "read_file": {},
        "list_dir": {},
        "grep": {"pattern": "x"},
        "edit_file": {"old_string": "x", "new_string": "y"},
        "search_replace": {"content": block("x\n", "y\n")},
    }.items():

        async def said(path: str, tool: str = tool, rest: dict[str, str] = rest) -> str:
            with pytest.raises(ToolError) as error:
                await call(tool, path=path, **rest)
            return str(error.value)

        with subtests.test(tool=tool):
            missing = "there is no such file or folder."
            assert await said("docs/util.md") == f"docs/util.md: {missing}\nIn docs: utils.md, util\\nx.md and 20 more."
            assert (await said("docs/qqqqqqqq")).endswith(
                "In docs: 0.txt, 1.txt, 10.txt, 11.txt, 12.txt, 13.txt, 14.txt, 15.txt and 14 more."
            )
            assert await said("dosc/sub/util.md") == f"dosc/sub/util.md: {missing}\nIn the workspace: docs/."
            assert await said(".git/x") == f".git/x: {missing}"
            assert await said("/nowhere/x") == f"/nowhere/x: {missing}"


# write_file


async def test_a_new_file_comes_with_its_folders(call, tmp_path):
    assert await call("write_file", path="a/b/c.txt", content="é\ne\n") == "Wrote a/b/c.txt: lines 1-2 (+2 -0)."
    assert (tmp_path / "a/b/c.txt").read_bytes() == "é\ne\n".encode()
    assert [p.name for p in (tmp_path / "a/b").iterdir()] == ["c.txt"]


async def test_overwriting_is_asked_for(call, tmp_path):
    (tmp_path / "a").write_text("old")
    with pytest.raises(ToolError, match="a exists"):
        await call("write_file", path="a", content="new")
    assert (tmp_path / "a").read_text() == "old"
    assert await call("write_file", path="a", content="new", overwrite=True) == "Overwrote a: line 1 (+1 -1)."
    assert await call("write_file", path="a", content="new", overwrite=True) == "Overwrote a: nothing changed."
    assert await call("write_file", path="a", content="", overwrite=True) == "Overwrote a: empty."
    assert await call("write_file", path="b", content="") == "Wrote b: empty."


async def test_overwriting_keeps_line_endings_mark_mode_and_encoding(call, tmp_path):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf1\r\n2\r\n")
    (tmp_path / "a").chmod(0o750)
    await call("write_file", path="a", content="3\n4\n", overwrite=True)
    assert (tmp_path / "a").read_bytes() == b"\xef\xbb\xbf3\r\n4\r\n"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o750
    (tmp_path / "l").write_bytes(b"\xe9\n")
    await call("write_file", path="l", content="è\n", overwrite=True)
    assert (tmp_path / "l").read_bytes() == b"\xe8\n"


async def test_a_link_is_written_through(call, tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    await call("write_file", path="link", content="new", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


async def test_a_write_that_cannot_be_is_an_error_of_its_own(call, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for path, overwrite in {"file/below": False, "folder": True}.items():
        with pytest.raises(ToolError):
            await call("write_file", path=path, content="x", overwrite=overwrite)
    with pytest.raises(ToolError, match="utf-8"):
        await call("write_file", path="x", content="\ud800")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


# edit_file


async def test_a_unique_string_is_replaced(call, tmp_path):
    (tmp_path / "a").write_text("one\ntwo\nthree")
    assert await call("edit_file", path="a", old_string="two\n", new_string="2\n2½\n") == "Edited a: lines 2-3 (+2 -1)."
    assert (tmp_path / "a").read_text() == "one\n2\n2½\nthree"


async def test_an_ambiguous_string_is_refused_with_its_lines(call, tmp_path):
    (tmp_path / "a").write_text("x\ny\nx\n")
    with pytest.raises(ToolError, match=r"Found 2 matches of old_string in a, at lines 1, 3\."):
        await call("edit_file", path="a", old_string="x", new_string="z")
    assert (tmp_path / "a").read_text() == "x\ny\nx\n"
    assert (
        await call("edit_file", path="a", old_string="x", new_string="z", replace_all=True)
        == "Edited a: lines 1, 3 (+2 -2)."
    )
    assert (tmp_path / "a").read_text() == "z\ny\nz\n"


async def test_a_receipt_gives_the_line_numbers_after_the_edit(call, tmp_path):
    (tmp_path / "a").write_text("x\nkept\n" * 12)
    edited = await call("edit_file", path="a", old_string="x\n", new_string="1\n2\n3\n", replace_all=True)
    assert edited == (
        "Edited a: lines 1-3, 5-7, 9-11, 13-15, 17-19, 21-23, 25-27, 29-31, 33-35, 37-39 and 2 more (+36 -12)."
    )
    assert await call("edit_file", path="a", old_string="1\n2\n3\nkept\n1\n2\n3\nkept\n" * 6, new_string="y") == (
        "Edited a: line 1 (+1 -48)."
    )
    (tmp_path / "b").write_text("1\n2\n3\n4\n")
    assert await call("edit_file", path="b", old_string="1\n2\n3", new_string="1\n3") == "Edited b: line 2 (+0 -1)."
    assert await call("edit_file", path="b", old_string="3\n4\n", new_string="3\n") == "Edited b: line 2 (+0 -1)."
    assert await call("edit_file", path="b", old_string="1\n3\n", new_string="") == "Edited b: empty now (+0 -2)."


@pytest.mark.parametrize("tool", ["edit_file", "search_replace"])
async def test_text_with_the_numbers_of_read_file_is_refused_by_name(call, tmp_path, tool):
    (tmp_path / "a").write_text("one\ntwo\n")
    numbered = await call("read_file", path="a")
    args = (
        {"old_string": numbered, "new_string": "x"}
        if tool == "edit_file"
        else {"content": block(f"{numbered}\n", "x\n")}
    )
    with pytest.raises(ToolError, match=r"begin with read_file's line numbers.*without them"):
        await call(tool, path="a", **args)
    (tmp_path / "a").write_text(numbered)  # a table may look like that
    await call(tool, path="a", **args)


async def test_a_hint_shows_what_differs_of_a_long_text_and_not_all_of_it(call, tmp_path):
    lines = [f"value_{n} = {n}" for n in range(60)]
    (tmp_path / "a").write_text("\n".join(lines))
    old = "\n".join([*lines[:10], *lines[12:40], "value_40 = 41", *lines[41:50]])
    with pytest.raises(ToolError) as error:
        await call("edit_file", path="a", old_string=old, new_string="x")
    assert str(error.value).split("\n")[1:] == [
        "Closest: lines 1-50, 95 % alike (- old_string, + the file):",
        *("      9\tvalue_8 = 8", "     10\tvalue_9 = 9", "+    11\tvalue_10 = 10", "+    12\tvalue_11 = 11"),
        *(
            "     13\tvalue_12 = 12",
            "     14\tvalue_13 = 13",
            "  …",
            "     39\tvalue_38 = 38",
            "     40\tvalue_39 = 39",
        ),
        *("-      \tvalue_40 = 41", "+    41\tvalue_40 = 40", "     42\tvalue_41 = 41", "     43\tvalue_42 = 42"),
    ]


async def test_places_that_overlap_are_ambiguous_too(call, tmp_path):
    (tmp_path / "a").write_text("aaa")
    with pytest.raises(ToolError, match="Found 2 matches"):
        await call("edit_file", path="a", old_string="aa", new_string="b")
    await call("edit_file", path="a", old_string="aa", new_string="b", replace_all=True)
    assert (tmp_path / "a").read_text() == "ba"


async def test_every_other_byte_of_the_file_stays(subtests, call, tmp_path):
    for before, old, new, after in [
        (b"\xef\xbb\xbfa\r\nb\r\nc", "a\nb", "x\ny\nz", b"\xef\xbb\xbfx\r\ny\r\nz\r\nc"),
        (b"caf\xe9\r\n\x80\n", "café", "thé", b"th\xe9\r\n\x80\n"),
        (b"a\nb\r\nc\nd\n", "b\nc", "B\nC", b"a\nB\nC\nd\n"),
        (b"a\rb\x0cc\xe2\x80\xa8d\n", "b", "B", b"a\rB\x0cc\xe2\x80\xa8d\n"),
        (b"a\r\nb\r\n", "a\r\nb", "c\r\nd", b"c\r\nd\r\n"),
        (b"a", "a", "", b""),
        (b"a\r\nb\r\n", "\nb", "\nc", b"a\r\nc\r\n"),
        (b"\\1 a", "a", "\\1\\g<0>", b"\\1 \\1\\g<0>"),
    ]:
        with subtests.test(before=before, old=old, new=new, after=after):
            (tmp_path / "a").write_bytes(before)
            (tmp_path / "a").chmod(0o755)
            await call("edit_file", path="a", old_string=old, new_string=new)
            assert (tmp_path / "a").read_bytes() == after
            assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755


async def test_an_edit_that_cannot_be_says_why_and_changes_nothing(call, tmp_path):
    (tmp_path / "a").write_text("def f():\n\treturn 1\n")
    (tmp_path / "latin").write_bytes(b"\xe9")
    refused = [
        ({"path": "a", "old_string": "", "new_string": "x"}, "old_string is empty"),
        ({"path": "a", "old_string": "x", "new_string": "x"}, "the same"),
        ({"path": "a", "old_string": "absent", "new_string": "x"}, "not in a"),
        (
            {"path": "a", "old_string": "def f():\n    return 1", "new_string": "x"},
            r"lines 1-2, which differ only in whitespace: line 2 is '\\treturn 1', not '    return 1'",
        ),
        (
            {"path": "a", "old_string": "def f():\n\treturn 2", "new_string": "x"},
            "Closest: lines 1-2, 93 % alike",
        ),
        ({"path": "missing", "old_string": "x", "new_string": "y"}, "no such file"),
        ({"path": "latin", "old_string": "é", "new_string": "→"}, "latin-1"),
    ]
    for args, reason in refused:
        with pytest.raises(ToolError, match=reason):
            await call("edit_file", **args)
    assert (tmp_path / "a").read_text() == "def f():\n\treturn 1\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "latin"]


async def test_whole_lines_that_are_deleted_leave_no_blank_line(subtests, call, tmp_path):
    for before, old, after in [
        ("a\nb\nc\n", "b", "a\nc\n"),
        ("a\r\nb\r\nc", "b\n", "a\r\nc"),
        ("a\nb\n\nc\n", "b\n", "a\n\nc\n"),
        ("a\n\nb\nc\n", "\nb", "a\nc\n"),
        ("a\nb", "b", "a"),
        ("ab\n", "b", "a\n"),
        ("a\nab\n", "\nab", "a\n"),
    ]:
        with subtests.test(before=before, old=old, after=after):
            (tmp_path / "a").write_bytes(before.encode())
            await call("edit_file", path="a", old_string=old, new_string="")
            assert (tmp_path / "a").read_bytes() == after.encode()


async def test_every_occurrence_can_be_deleted_with_its_line(call, tmp_path):
    (tmp_path / "a").write_text("b\nxb\nb\nb")
    await call("edit_file", path="a", old_string="b", new_string="", replace_all=True)
    assert (tmp_path / "a").read_text() == "x\n"


async def test_an_error_shows_the_closest_lines(call, tmp_path):
    (tmp_path / "a").write_text("import os\n\n\ndef total(items):\n    count = 0\n    return count\n\n\nend\n")

    async def hint(old: str) -> str:
        with pytest.raises(ToolError) as error:
            await call("edit_file", path="a", old_string=old, new_string="x")
        return str(error.value)

    assert await hint("def total(items):\n    counter = 0\n    return count") == (
        "old_string is not in a.\nClosest: lines 4-6, 97 % alike (- old_string, + the file):\n"
        "      4\tdef total(items):\n-      \t    counter = 0\n+     5\t    count = 0\n      6\t    return count"
    )
    assert (await hint("def totals(item):")).endswith("\n-      \tdef totals(item):\n+     4\tdef total(items):")
    assert (await hint("import os\n\ndef total(items):")).endswith(
        "lines 1-4, 96 % alike (- old_string, + the file):\n"
        "      1\timport os\n      2\t\n+     3\t\n      4\tdef total(items):"
    )
    assert (await hint("\n\n\n    return count\n")).endswith(
        "Closest: line 6, which differs only in blank lines before or after."
    )
    assert (await hint("something else entirely\n\n")).endswith("No similar lines were found. Read the file again.")
    assert (await hint(" \n \n ")).endswith("No similar lines were found. Read the file again.")


async def test_the_hint_for_a_long_text_in_a_large_file_is_bounded(call, tmp_path):
    (tmp_path / "a").write_text("".join(f"value_{n} = {n}\n{{\n}}\n" for n in range(50_000)))
    old = "".join(f"value_{n} = {n + 1}\n{{\n}}\n" for n in range(300))
    with pytest.raises(ToolError, match="Closest: ") as error:
        await call("edit_file", path="a", old_string=old, new_string="x")
    assert len(str(error.value)) < 3_000
    assert "\n+     4\tvalue_1 = 1\n" in str(error.value)
    assert re.search(r"\n- … \d+ more\n", str(error.value))


async def test_edits_of_one_file_at_the_same_time_all_land(call, tmp_path):
    (tmp_path / "a").write_text("".join(f"line {n:02}\n" for n in range(20)))
    edits = [
        call("edit_file", path="a", old_string=f"line {n:02}", new_string=f"edited {n:02}")
        if n % 2
        else call("search_replace", path="a", content=block(f"line {n:02}\n", f"edited {n:02}\n"))
        for n in range(20)
    ]
    await asyncio.gather(*edits)
    assert (tmp_path / "a").read_text() == "".join(f"edited {n:02}\n" for n in range(20))


# search_replace


async def test_blocks_apply_in_order_all_or_none(call, tmp_path):
    (tmp_path / "a").write_text("one\ntwo\nthree\n")
    both = block("one\n", "1\nuno\n") + block("uno\ntwo\n", "2\n")
    assert await call("search_replace", path="a", content=f"```\n{both}```") == "Edited a: lines 1-2 (+2 -2)."
    assert (tmp_path / "a").read_text() == "1\n2\nthree\n"
    with pytest.raises(ToolError, match=r"(?s)Block 2 of 2: SEARCH is not in a.*Nothing was written"):
        await call("search_replace", path="a", content=block("1\n", "x\n") + block("absent\n", "y\n"))
    assert (tmp_path / "a").read_text() == "1\n2\nthree\n"


async def test_the_path_may_be_called_file_path_and_is_shown_as_path(call, tools, tmp_path):
    (tmp_path / "a").write_text("one\n")
    edited = await call("search_replace", file_path="a", content=block("one\n", "two\n"))
    assert edited == "Edited a: line 1 (+1 -1)."
    assert await call("read_file", file_path="a") == "     1\ttwo"
    for name in ("read_file", "write_file", "edit_file", "search_replace"):
        schema = tools[name].get_parameters()
        assert schema["properties"]["path"]["description"] == "File, relative to the workspace"
        assert "path" in schema["required"]
        assert "file_path" not in schema["properties"]


async def test_a_block_that_fits_several_places_is_refused_with_their_lines(call, tmp_path):
    (tmp_path / "a").write_text("x\ny\nx\n")
    with pytest.raises(ToolError, match="Found 2 matches of SEARCH in a, at lines 1, 3"):
        await call("search_replace", path="a", content=block("x\n", "z\n"))


async def test_whole_lines_come_before_parts_of_lines(call, tmp_path):
    (tmp_path / "a").write_text("x = 1\nxx = 1\nx = 10\n")
    await call("search_replace", path="a", content=block("x = 1\n", "x = 2\n"))
    assert (tmp_path / "a").read_text() == "x = 2\nxx = 1\nx = 10\n"


async def test_an_empty_replacement_leaves_no_blank_line(subtests, call, tmp_path):
    for before, search, after in [
        ("a\nb\nc\n", "b\n", "a\nc\n"),
        ("a\r\nb\r\nc\r\n", "b\n", "a\r\nc\r\n"),
        ("a\nb", "b\n", "a"),
        ("a\nb\n", "a\nb\n", ""),
        ("f(a, b)\n", ", b\n", "f(a)\n"),
    ]:
        with subtests.test(before=before, search=search, after=after):
            (tmp_path / "a").write_bytes(before.encode())
            await call("search_replace", path="a", content=block(search, ""))
            assert (tmp_path / "a").read_bytes() == after.encode()


async def test_the_text_may_look_like_a_divider(call, tmp_path):
    (tmp_path / "a").write_text("Title\n=====\ntext\n")
    await call("search_replace", path="a", content=block("Title\n=====\n", "Other\n=====\n"))
    assert (tmp_path / "a").read_text() == "Other\n=====\ntext\n"
    with pytest.raises(ToolError, match="2 lines could divide SEARCH from REPLACE"):
        await call("search_replace", path="a", content=block("Other\n=======\n", "x\n"))


async def test_what_is_no_block_is_refused(subtests, call, tmp_path):
    for content in [
        "",
        "just text",
        "<<<<<<< SEARCH\na\n=======\nb\n",
        "<<<<<<< SEARCH\na\n>>>>>>> REPLACE",
        block("", "x\n"),
    ]:
        with subtests.test(content=content):
            (tmp_path / "a").write_text("a\n")
            with pytest.raises(ToolError):
                await call("search_replace", path="a", content=content)
            assert (tmp_path / "a").read_text() == "a\n"


# previews


def test_a_person_sees_the_diff_before_anything_is_written(preview, tmp_path):
    (tmp_path / "a").write_bytes(b"one\r\ntwo\r\nthree")
    shown = preview("edit_file", path="a", old_string="two\nthree", new_string="2\n3\n4")
    assert (shown.kind, shown.summary) == ("diff", "edit a (+3 -2)")
    assert shown.body == (
        "--- a/a\n+++ b/a\n@@ -1,3 +1,4 @@\n one\n-two\n-three\n\\ No newline at end of file\n"
        "+2\n+3\n+4\n\\ No newline at end of file\n"
    )
    assert preview("search_replace", path="a", content=block("one\n", "1\n")).summary == "edit a (+1 -1)"
    assert preview("write_file", path="b", content="1\n2\n").summary == "write b (+2 -0)"
    assert preview("write_file", path="a", content="x", overwrite=True).summary == "overwrite a (+1 -3)"
    assert (tmp_path / "a").read_bytes() == b"one\r\ntwo\r\nthree"
    assert not (tmp_path / "b").exists()


def test_a_call_that_will_fail_says_so_before(preview, tmp_path):
    (tmp_path / "a").write_text("x\nx\n")
    for shown in (
        preview("edit_file", path="a", old_string="x", new_string="y"),
        preview("edit_file", path="missing", old_string="x", new_string="y"),
        preview("search_replace", path="a", content="nothing"),
        preview("write_file", path="a", content="y"),
        preview("write_file", path="a\0", content="y"),
    ):
        assert "will fail: " in shown.summary
        assert "\n" not in shown.summary
