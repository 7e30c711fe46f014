"""A diff of several files: each has its own header and is highlighted in its own language."""

from __future__ import annotations

from kin_nb.render.diff import diff_lines, render_diff, side_by_side

PATCH = """\
Changed: a.py
--- a/a.py
+++ b/a.py
@@ -1,2 +1,2 @@
 import os
--- x
+++ y
New file: b.sql
--- a/b.sql
+++ b/b.sql
@@ -0,0 +1 @@
+import os
Deleted: c.txt (empty)
"""


def test_each_file_is_highlighted_in_its_own_language():
    lines = {(line.mark, line.text): line.html for line in diff_lines(PATCH)}
    texts = [line.text for line in diff_lines(PATCH)]
    assert texts == PATCH.removesuffix("\n").split("\n")
    assert "<span" in lines[" ", " import os"]
    assert "<span" not in lines["+", "+import os"]
    alone = {line.text: line.html for line in diff_lines(PATCH[PATCH.index("New file") :])}
    assert alone["+import os"] == lines["+", "+import os"]


def test_the_lines_of_each_file_are_marked():
    marks = [(line.mark, line.text) for line in diff_lines(PATCH) if line.mark]
    assert marks == [(" ", " import os"), ("-", "--- x"), ("+", "+++ y"), ("+", "+import os")]
    for html in (render_diff(PATCH), side_by_side(PATCH)):
        for title in ("Changed: a.py", "New file: b.sql", "Deleted: c.txt (empty)"):
            assert title in html
