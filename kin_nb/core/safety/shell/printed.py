"""What the commands of a line print and write, as far as the line spells it out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from kin_nb.core.safety.shell.simple_command import SimpleCommand, program

FETCHERS = frozenset(("curl", "wget", "aria2c", "http", "https", "fetch"))
_WRITERS = frozenset((*FETCHERS, "tee", "dd", "cp", "mv", "install", "ln"))
LONGEST_TEXT = 10_000
"""Characters of a text that are followed."""
_MOST_ASKED = 30
_PASS_ON = frozenset(("", "cat", "tee", "sort", "uniq", "head", "tail", "tac"))
_NARROWS = re.compile(
    r"-(i?(name|path|regex|lname)|wholename|[amc](time|min)|newer\w*|empty|size|user|group|perm|inum)$"
)

_OWN_NAME = re.compile(r"-[^-AbcCdDeEFhHKmoPQrtTuUwxXyYz]*O|--remote-name")
"""Of curl: `-O` in a bundle, but not in the value of another option (`-XPOST`)."""


def printed(commands: Iterable[SimpleCommand], seen: set[int] | None = None) -> str:
    """What they print together; "" when nothing of it is known. `seen`: those that were asked already."""
    seen = set() if seen is None else seen
    texts: list[str] = []
    for command in commands:
        if id(command) not in seen and len(seen) < _MOST_ASKED:
            seen.add(id(command))
            texts.append(_printed(command, seen))
    return "\n".join(text for text in texts if text)[:LONGEST_TEXT]


def _printed(command: SimpleCommand, seen: set[int]) -> str:
    name, words = program(command), command.words[1:]
    if name in ("echo", "yes"):
        return " ".join(words[1:] if words[:1] in (["-n"], ["-e"], ["-ne"], ["-en"]) else words)
    if name == "printf" and words:
        return _formatted(words[0], words[1:])
    if name == "pwd":
        return "$PWD"
    if name == "find":
        return "\n".join(searched(command))
    if name in _PASS_ON:
        files = [made for behind in command.made_by.values() for made in behind]
        return printed([*command.inputs, *files], seen)
    return ""


def _formatted(pattern: str, values: list[str]) -> str:
    rest = iter(values)
    text = re.sub(r"%[-\d.]*[a-z]", lambda _: next(rest, ""), pattern)
    return "\n".join([text.replace("\\n", "\n").replace("\\0", "\n"), *rest])


def searched(command: SimpleCommand) -> list[str]:
    """The folders all of which a `find` goes through; none when it looks for some files in there."""
    words = command.words[1:]
    begin = next((at for at, word in enumerate(words) if word not in ("-H", "-L", "-P")), len(words))
    end = next((at for at, word in enumerate(words) if at >= begin and word.startswith(("-", "(", "!"))), len(words))
    narrowed = any(_NARROWS.match(word) and after.strip("*") for word, after in pairwise([*words, "x"]))
    return [] if narrowed else words[begin:end] or ["."]


def written(command: SimpleCommand) -> Iterator[str]:
    """The files that it writes what it reads, fetches or copies to."""
    yield from command.writes
    begin = next((at for at, word in enumerate(command.words) if word.rpartition("/")[2] in _WRITERS), None)
    if begin is None:
        return
    name, words = command.words[begin].rpartition("/")[2], command.words[begin + 1 :]
    if name in FETCHERS:
        yield from _fetched(name, words)
    elif name == "tee":
        yield from (word for word in words if not word.startswith("-"))
    elif name == "dd":
        yield from (word.removeprefix("of=") for word in words if word.startswith("of="))
    elif command.made_by:
        yield from words[-1:]


def _fetched(name: str, words: list[str]) -> Iterator[str]:
    letter, long = ("O", "--output-document") if name == "wget" else ("o", "--output")
    named = False
    for word, after in pairwise([*words, ""]):
        is_cluster = word.startswith("-") and not word.startswith("--")
        if is_cluster and letter in word:
            named = True
            yield word.partition(letter)[2] or after
        elif word == long or word.startswith(f"{long}="):
            named = True
            yield word.partition("=")[2] or after
    own_name = name == "wget" or any(_OWN_NAME.match(word) for word in words)
    if own_name and not named:
        yield from (word.partition("?")[0].rpartition("/")[2] for word in words if not word.startswith("-"))
