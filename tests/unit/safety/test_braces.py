"""Braces and ANSI-C quotations stand for what bash has them stand for."""

from __future__ import annotations

import subprocess

from kin_nb.core.safety.shell.reader.parser import parse_commands

BRACES = [
    *(
        "{a,b}",
        "x{a,b}y",
        "{a,b}{c,d}",
        "{a,{b,c}d}e",
        "{a{b,c}}",
        "{,a}b",
        "{a,,b}",
        "{a,b",
        "a,b}",
        "{}",
        "{a}",
        "{a b,c}",
    ),
    *(
        "{1..3}",
        "{3..1}",
        "{a..e}",
        "{01..10}",
        "{1..9..3}",
        "{-1..1}",
        "x{1..2}{a,b}",
        "{a..}",
        "{1..b}",
        "{z..w..2}",
    ),
    *(
        "'{a,b}'",
        '"{a,b}"',
        "\\{a,b}",
        "{a\\,b}",
        "{'a,b',c}",
        '{"a b",c}',
        "{a,'b c'}d",
        "${x-{a,b}}",
        "{a,$(echo b,c)}",
    ),
    *(
        "$'a\\tb'",
        "$'\\x41\\102\\u0043'",
        "$'it\\'s'",
        "$'a\\\\b'",
        "\"$'a'\"",
        "$'\\e\\cA'",
        "{$'a',b}",
        "$'a\\0b'",
        "$'\\q'",
    ),
]


def test_words_are_those_of_bash(subtests):
    for words in BRACES:
        with subtests.test(words=words):
            run = subprocess.run(["bash", "-c", f"printf '%s\\0' {words}"], capture_output=True, check=True, text=True)
            assert parse_commands(f"printf '%s\\0' {words}")[-1].words[2:] == run.stdout.split("\0")[:-1]


def test_a_word_of_many_braces_is_read_in_linear_time_and_as_it_stands():
    text = "{a,b}" * 1_000
    assert parse_commands(f"echo {text}")[0].words == ["echo", text]
    assert parse_commands("echo {1..1000000}")[0].words == ["echo", "{1..1000000}"]
