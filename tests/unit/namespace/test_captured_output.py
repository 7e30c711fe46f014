"""What code prints, as a terminal would show it."""

from __future__ import annotations

from kin_nb.notebook.namespace.captured_output import terminal_text
from tests.table import each_row


@each_row(
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
    assert terminal_text(text) == shown


@each_row("size", [400_000], long=[4_000_000])
@each_row("piece", ["x", "x\r", "\r", "\n", "\x1b[", "\r\n"])
def test_a_line_of_millions_of_characters_is_read_to_its_end(piece, size):
    assert terminal_text(piece * (size // len(piece)) + "\nend\n").endswith("end\n")
