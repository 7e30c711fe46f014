"""Unified diffs: what counts as a change, what is coloured, what is cut."""

from __future__ import annotations

from kin_nb.render import diff_text, render_diff
from kin_nb.render.diff import changed_lines, without_header

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
    assert '<span style="background:#f8514933">--- old comment</span>' in html
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
