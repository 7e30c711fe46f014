"""Two readers of a line: where they agree, bash does what they say."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
from itertools import groupby
from pathlib import Path

import pytest

from kin_nb.core.safety.shell.classification import UnprovenError
from kin_nb.core.safety.shell.read_only.plain_line import Token, agreed_tokens, lists, tokens
from kin_nb.core.safety.shell.read_only.words import WordReader

_PIECES = (
    *("args", "args", "args", " ", " ", " ", "\t", "\n", "\\\n", "\\\n", ";", "&&", "(", ")", "{ ", "}", "!", "# "),
    *("#", "'", "''", '"', '""', "'a b'", '"a b"', "\\ ", "\\'", "a", "b-", "-", "=", "0", "1", "2", "7", "10", "é"),
    *(">", ">", "<", ">&", "<&", ">>", "&>", ">|", "<in", ">out", "2>err", " 2>&1", " 1>&2", ">/dev/null", "2", " -2"),
    *("if", "then", "fi", "for", "in", "do", "done", "[[", "]]", "time", "{a}", "|", "||", "&", "$", "$(", "`", "<<"),
)
_FILES = ("/dev/null", "in", "out", "err", "a", "0", "1", "2", "7", "10")
_ARGS = r"""
for name in in out err a 0 1 2 7 10; do : > "$name"; done
args() {
  for word in "$@"; do printf '%s\0' "$word"; done >&19
  for number in 0 1 2 3 4 5 6 7 8 9; do
    for name in /dev/null in out err a 0 1 2 7 10; do
      [[ /dev/fd/$number -ef $name ]] && printf '%s>%s\0' "$number" "$name" >&19
    done
  done
  printf '\n\0' >&19
}
command_not_found_handle() { printf 'no args\0\n\0' >&19; }
"""


def agree(line: str) -> list[Token] | None:
    """What both readers see; None when they differ."""
    try:
        found = agreed_tokens(line)
        lists(found)
    except UnprovenError:
        return None
    return found


def text(raw: str) -> str:
    return WordReader(raw).read().text


def told(found: list[Token]) -> str | None:
    """What `args` prints for each of the commands, in order; None for lines that are more than a list of them."""
    printed = ""
    for operator, group in groupby(found, lambda token: token.kind == "operator"):
        command = list(group)
        if operator and any(token.text not in (";", "&&", "\n") for token in command):
            return None
        if not operator:
            printed += _of_command(command)
    return printed


def _of_command(command: list[Token]) -> str:
    words: list[str] = []
    leads = {0: "/dev/null", 1: "/dev/null", 2: "/dev/null"}
    before: Token | None = None
    for token in command:
        if token.kind == "word" and before is not None and before.kind == "redirection":
            _redirect(leads, before.text, text(token.text))
        elif token.kind == "word":
            words.append(text(token.text))
        before = token
    if words[:1] != ["args"]:
        raise UnprovenError("it runs nothing that is known")
    shown = [*words[1:], *(f"{number}>{name}" for number, name in sorted(leads.items()) if name)]
    return "".join(f"{word}\0" for word in (*shown, "\n"))


def _redirect(leads: dict[int, str], operator: str, target: str) -> None:
    kind = operator.lstrip("0123456789")
    number = int(operator.removesuffix(kind) or ("0" if kind[0] == "<" else "1"))
    if kind in (">&", "<&") and target in ("0", "1", "2"):
        leads[number] = leads[int(target)]
    elif target not in _FILES or kind == "<&" or (kind == ">&" and (number != 1 or target.isdigit())):
        raise UnprovenError("it reads or writes something else")
    elif kind in ("&>", "&>>", ">&"):
        leads[1] = leads[2] = target
    else:
        leads[number] = target


def run(lines: list[str], folder: Path) -> list[str]:
    """What `args` printed for each line, run by bash in `folder`."""
    script = [_ARGS]
    for number, line in enumerate(lines):
        (folder / f"line{number}").write_text(line)
        script.append(f"( exec 19>seen{number} 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; . ./line{number} )")
    subprocess.run(
        [shutil.which("bash") or "bash", "-c", "\n".join(script)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/nowhere", "LC_ALL": "C.UTF-8"},
        timeout=60,
        check=False,
    )
    return [(folder / f"seen{number}").read_text() for number in range(len(lines))]


def spoiled(chance: random.Random) -> str:
    pieces = ["args "] + [chance.choice(_PIECES) for _ in range(chance.randint(1, 7))]
    if chance.random() < 0.5:
        pieces += [" ", chance.choice(_PIECES), chance.choice(("", " x", "\nargs y", "; args z", " >out", "\\\n>out"))]
    return "".join(pieces)


@pytest.mark.parametrize("rounds", [1_000, pytest.param(4_000, marks=pytest.mark.long)])
def test_what_both_readers_agree_on_is_what_bash_does(tmp_path, rounds):
    chance = random.Random(11)
    expected: dict[str, str] = {}
    for _ in range(rounds):
        line = spoiled(chance)
        found = agree(line)
        try:
            printed = told(found) if found is not None else None
        except UnprovenError:
            continue
        if printed is not None:
            expected[line] = printed
    done = dict(zip(expected, run(list(expected), tmp_path), strict=True))
    assert {line: (done[line], printed) for line, printed in expected.items() if done[line] != printed} == {}
    assert len(expected) > rounds // 20
    assert sum("2>" in printed for printed in expected.values()) > rounds // 80


AMBIGUOUS_LINES = [
    *("a 0</dev/null", "a 0>/dev/null b", "a 1\\\n</dev/null", "a \\\n0</dev/null b", "a 12>/dev/null", "a 10>&1"),
    *("a -2>&1", "a 99999999999>/dev/null", "a 2000000000>/dev/null", "a {b}>/dev/null", "a >&2>/dev/null"),
    *("[ x = x && b = y ]", "[ x = x || b ]", "a\\\nb", "a \\\n b", "a &\\\n& b", 'a "b\\\nc"', "a\\"),
    *(
        "a <<b\nb",
        "a <<< b",
        "a <(b)",
        "((a))",
        "echo $((1))",
        "echo `a`",
        "echo $'a'",
        "a; ; b",
        "a 'b",
        'a "b',
        "a)",
    ),
]


def test_a_line_that_may_be_read_in_two_ways_is_not_agreed_on(subtests):
    for line in AMBIGUOUS_LINES:
        with subtests.test(line=line):
            assert agree(line) is None


NOT_PLAIN_LINES = [
    *("if a; then b\nfi", "for x in in do; do a; done", "while a; do b; done", "case a in b) c;; esac", "time a"),
    *(
        "{ a; }",
        "(a)",
        "! a",
        "a &",
        "a |& b",
        "a;& b",
        "f() { a; }",
        "x=1",
        "x=1 a",
        "a[1]=2 b",
        "x+=1",
        "[[ a ]]",
    ),
    *('a "$(b c)"d', "a ${b}", 'a "${b}"', "a <&-", "a 2>&-", "a <> b", "coproc a", "function a { b; }", "a $[1]"),
    *("| a", "a |", "&& a", "a && ; b", "a\n| b", ">a >b", "2>&1"),
]


def test_what_is_more_than_a_plain_line_is_not_proven(subtests):
    for line in NOT_PLAIN_LINES:
        with subtests.test(line=line):
            assert agree(line) is None


def test_a_plain_line_is_agreed_on(subtests):
    for line, found in [
        ("a 2>/dev/null b", "a 2> /dev/null b"),
        ("a x2>&1", "a x2 >& 1"),
        ("a 'b c'#d # e\nf", "a 'b c'#d \n f"),
        ("a &&\n\n b;\n", "a && b ;"),
        ("a if then", "a if then"),
        ('a "b $? c" $? \\$x', 'a "b $? c" $? \\$x'),
        ("[ -f x ] || test -d if", "[ -f x ] || test -d if"),
    ]:
        with subtests.test(line=line, found=found):
            assert " ".join(token.text for token in agree(line) or ()) == found


@pytest.mark.parametrize(("rounds", "size"), [(500, 50_000), pytest.param(3_000, 200_000, marks=pytest.mark.long)])
def test_no_text_breaks_the_reader(rounds, size):
    chance = random.Random(3)
    for _ in range(rounds):
        line = "".join(chance.choice(_PIECES) for _ in range(chance.randint(0, 30)))
        with contextlib.suppress(UnprovenError):
            assert all(token.text in line or token.kind == "redirection" for token in tokens(line)), line
    for piece in ("a", "a ", "\\\n", "'", '"', "$(", "${", "(", "a\n", '"a"', "#", "\n#", '"$(a)"', "0>", "$"):
        with contextlib.suppress(UnprovenError):
            tokens(piece * (size // len(piece)))
