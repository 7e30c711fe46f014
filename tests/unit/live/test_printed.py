"""What code prints, as a terminal would show it."""

from __future__ import annotations

import time

import pytest

from kin_nb.notebook.live.printed import plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("10%\r50%\rdone\n", "done\n"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("waits\r", "waits\r"),
        ("a\r\rb", "b"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\rb\nc\rd", "b\nd"),
        ("", ""),
    ],
)
def test_of_a_line_that_was_written_over_the_last_state_stays(text, shown):
    assert plain(text) == shown


@pytest.mark.parametrize("piece", ["x", "x\r", "\r", "\n", "\x1b[", "\r\n"])
def test_its_time_grows_with_the_length_only(piece):
    started = time.process_time()
    plain(piece * (4_000_000 // len(piece)))
    assert time.process_time() - started < 5, "a long line froze the kernel"
