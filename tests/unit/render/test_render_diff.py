"""Unified diffs: what counts as a change, what is coloured, what is cut."""

from __future__ import annotations

import re

from kin_nb.core.records import FileChange
from kin_nb.render import diff_text, render_diff, side_by_side
from kin_nb.render.changes import render_changes
from kin_nb.render.diff import changed_lines, without_header
from kin_nb.render.highlight import STYLES as HIGHLIGHTED

SQL = """--- a/q.sql
+++ b/q.sql
@@ -1,3 +1,3 @@
--- old comment
+++ odd line
 select 1

@@ -9 +9 @@ x
-a
+b
\\ No newline at end of file
"""


def test_removed_lines_that_look_like_a_file_header_count_as_removed() -> None:
    assert changed_lines(SQL) == (2, 2)
    html = render_diff(SQL)
    comment = f'<span style="{HIGHLIGHTED["comment"]}">-- old comment</span>'
    assert f'<span style="background:#f8514933">-{comment}</span>' in html
    assert "<span" not in html.split("@@")[0]


def test_signs_are_literal_and_the_text_is_the_patch() -> None:
    assert diff_text(SQL) == SQL.removesuffix("\n")


def test_a_form_feed_does_not_split_a_line() -> None:
    assert changed_lines("@@ -0,0 +1 @@\n+a\x0cb\n") == (1, 0)
    assert "+a⟨U+000C⟩b" in diff_text("@@ -0,0 +1 @@\n+a\x0cb\n")


def test_a_change_of_line_ends_is_visible() -> None:
    assert diff_text("@@ -1 +1 @@\n-a\n+a\r\n") == "@@ -1 +1 @@\n-a\n+a⟨U+000D⟩"


def test_a_long_diff_is_cut_at_a_line_and_says_how_much_is_missing() -> None:
    patch = "@@ -0,0 +1,3000 @@\n" + "+0123456789\n" * 3000
    text = diff_text(patch, limit=1_000)
    *shown, note = text.split("\n")
    assert set(shown[1:]) == {"+0123456789"}
    assert note == f"… {3001 - len(shown):,} more lines of this change; the session log has all of it"
    assert note in render_diff(patch, limit=1_000)
    assert diff_text(patch).count("\n") == 3000


def test_one_endless_line_is_cut_too() -> None:
    assert len(diff_text("+" * 50_000, limit=1_000)) < 1_100


def test_the_header_goes_where_the_card_names_the_file() -> None:
    assert without_header(SQL).startswith("@@ -1,3")
    assert without_header("@@ -1 +1 @@\n-a\n+b\n").startswith("@@")
    assert without_header("no hunks") == "no hunks"


def test_a_patch_that_lies_about_its_lengths_is_still_shown_whole() -> None:
    patch = "@@ -1,99999999999999999999 +1 @@\n-a\n@@ nonsense\n+b\n"
    assert diff_text(patch) == patch.removesuffix("\n")
    assert "@@ nonsense" in render_diff(patch)


def test_lines_are_highlighted_by_the_name_of_the_file_they_belong_to() -> None:
    patch = '@@ -1,2 +1,2 @@\n x = """a\n-b"""\n+c"""\n'
    html = render_diff(patch, path="a.py")
    string = f'<span style="{HIGHLIGHTED["string"]}">{{}}</span>'
    assert f" x = {string.format(chr(34) * 3 + 'a')}\n" in html
    assert f"-{string.format('b' + chr(34) * 3)}</span>" in html  # each side is read as a text of its own
    assert f"+{string.format('c' + chr(34) * 3)}</span>" in html
    assert "color:" not in render_diff(patch, path="a.txt")
    assert "color:" not in render_diff(patch)


def test_a_file_that_is_gone_is_known_by_its_old_name() -> None:
    patch = "--- a/x.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x = 1\n"
    assert f'{HIGHLIGHTED["number"]}">1</span>' in render_diff(patch)
    assert "color:" not in render_diff(patch.replace("x.py", "x.txt"))


def test_a_line_without_its_blank_is_escaped_like_any_other() -> None:
    patch = "@@ -1,2 +1,2 @@\n<script>alert(1)</script>\n&x\n-a\n"
    for html in (render_diff(patch, path="a.py"), side_by_side(patch, "a.py")):
        assert "<script" not in html
        assert "&lt;" in html
        assert "&amp;" in html


def test_a_patch_over_the_limit_of_highlighting_is_drawn_plain() -> None:
    patch = "@@ -0,0 +1,3000 @@\n" + "+x = 1\n" * 3000
    assert "color:" not in render_diff(patch, path="a.py")


def cells(html: str) -> list[list[str]]:
    """The text of each cell of each row."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", html, re.DOTALL)
    return [
        [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)]
        for row in rows
    ]


def test_side_by_side_pairs_what_was_removed_with_what_was_added() -> None:
    patch = "--- a/x.py\n+++ b/x.py\n@@ -7,4 +7,5 @@ def f\n a\n-b\n-c\n+B\n+C\n+D\n e\n"
    assert cells(side_by_side(patch)) == [
        ["Line", "Before", "Line", "After"],
        ["--- a/x.py"],
        ["+++ b/x.py"],
        ["@@ -7,4 +7,5 @@ def f"],
        ["7", " a", "7", " a"],
        ["8", "-b", "8", "+B"],
        ["9", "-c", "9", "+C"],
        ["", "", "10", "+D"],
        ["10", " e", "11", " e"],
    ]


def test_side_by_side_numbers_each_hunk_and_loses_no_line() -> None:
    table = cells(side_by_side(SQL))
    assert table[4:] == [
        ["1", "--- old comment", "1", "+++ odd line"],
        ["2", " select 1", "2", " select 1"],
        ["3", "", "3", ""],
        ["@@ -9 +9 @@ x"],
        ["9", "-a", "9", "+b"],
        ["\\ No newline at end of file"],
    ]


def test_side_by_side_is_a_table_with_scopes_and_reads_without_css() -> None:
    html = side_by_side("@@ -1 +1 @@\n-a\n+  b\n")
    assert html.count('<th scope="col"') == 4
    bare = re.sub(r' style="[^"]*"', "", html)
    assert "<td><pre><code>-a</code></pre></td>" in bare
    assert "<td><pre><code>+  b</code></pre></td>" in bare


def test_side_by_side_of_a_patch_with_absurd_numbers_is_a_table() -> None:
    patch = "@@ -" + "9" * 5_000 + " +1 @@\n-a\n+b\n"
    assert changed_lines(patch) == (0, 0)
    assert "-a" in side_by_side(patch)


def test_changes_of_many_files_share_a_limit_and_what_is_left_out_is_reported() -> None:
    patch = "--- /dev/null\n+++ b/x.txt\n@@ -0,0 +1,2000 @@\n" + "+line\n" * 2_000
    card = render_changes([FileChange(path=f"{n}.txt", after="0" * 64, patch=patch) for n in range(60)], turn=2)
    for text in card.data.values():
        assert text.startswith("Turn 2 made 60 changes to files") or "<b>Turn 2 made 60 changes to files</b>" in text
        assert text.count("+line") == 50 * 19
        assert text.count("… 1,981 more lines of this change; the session log has all of it") == 50
        assert "and 10 more changes: %kin last shows them" in text


def test_a_table_of_changes_stays_small_however_short_the_lines_are() -> None:
    patch = "--- /dev/null\n+++ b/x.txt\n@@ -0,0 +1,30000 @@\n" + "+y\n" * 30_000
    for files in (1, 10):
        card = render_changes([FileChange(path=f"{n}.txt", after="0" * 64, patch=patch) for n in range(files)], turn=2)
        assert card.data["text/html"].count("+y") == card.data["text/plain"].count("+y") == 1_000 - files
        assert card.data["text/plain"].count("more lines of this change") == files
        assert len(card.data["text/html"]) < 400_000
