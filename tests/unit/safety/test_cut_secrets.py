"""A known secret is one also where a text was cut within it, wherever that was."""

from __future__ import annotations

from kin_nb.core.redaction import secrets_redactor
from kin_nb.core.tools import truncation
from kin_nb.core.tools.builtins.grep_output import LONGEST_LINE, _shortened
from kin_nb.notebook.namespace.attachments import LONGEST, _cut
from kin_nb.notebook.namespace.short_repr import short_repr

KEY = "tok-5f0c9e77a1-AAAABBBBCCCCDDDD"
redact = secrets_redactor([KEY]).text


def interrupted(text: str) -> str:
    seen = truncation.PrintedTails()
    seen.add("c1", text)
    return seen.take("c1")


CUTTERS = {
    "a long line that grep shows": (LONGEST_LINE, lambda before: _shortened(f"{before}{KEY}{'x' * 99}".encode())),
    "@file": (LONGEST, lambda before: _cut(f"{before}{KEY}{'x' * 99}".encode(), LONGEST + 1)),
    "a glimpse": (1000, lambda before: short_repr(f"{before}{KEY}{'x' * 2000}")),
    "an interrupted call": (truncation.PRINTED_LIMIT, lambda after: interrupted(f"{KEY}{after}")),
}


def test_what_a_cut_leaves_of_a_secret_is_half_of_it_at_most(subtests):
    for cutter, (size, show) in CUTTERS.items():
        with subtests.test(cutter=cutter):
            shown = [show("z" * (size - left)) for left in range(40)]
            parts = {KEY[:16], KEY[-16:]}
            assert any(part in text for part in parts for text in shown), "nothing was cut within it"
            assert not any(part in redact(text) for part in parts for text in shown)


def test_a_beginning_or_an_end_counts_from_half_of_it_on(subtests):
    for text, redacted in [
        (f"a {KEY[:16]}", "a [secret]"),
        (f"a {KEY[:16]}… {KEY[16:]}", "a [secret]… " + KEY[16:]),
        (f"{KEY[-16:]} b", "[secret] b"),
        (f"{KEY[:30]}x{KEY}", "[secret]x[secret]"),
        (f"{KEY[:15]} {KEY[-15:]}", f"{KEY[:15]} {KEY[-15:]}"),
        ("tok-5f0c", "tok-5f0c"),
    ]:
        with subtests.test(text=text, redacted=redacted):
            assert redact(text) == redacted
            assert redact(redacted) == redacted


def test_ten_characters_are_the_least_and_words_and_paths_count_whole():
    redact = secrets_redactor(["abcdef12345", "/home/ada/secret.token"]).text
    assert redact("abcdef1234 and abcdef123") == "[secret] and abcdef123"
    assert redact("/home/ada/sec /home/ada/other") == "/home/ada/sec /home/ada/other"


def test_secrets_that_begin_alike_are_taken_out_whole_where_they_are_whole():
    redact = secrets_redactor(["prefix-prefix-alpha", "prefix-prefix-beta1"]).text
    assert redact("prefix-prefix-beta1 prefix-prefix-alpha prefix-prefix-b") == "[secret] [secret] [secret]b"
