"""An awk program that only computes and prints. It is known by its words: none of them opens a file or runs anything."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.program import Invocation, ParsedArgs
from kin_nb.core.safety.shell.syntax import shown_word

_TOKEN = re.compile(
    r"""(?xa) \s+
    | (?P<string> "(?:[^"\\\n]|\\.)*" )
    | (?P<number> \d+(?:\.\d+)? )
    | (?P<word> [A-Za-z_]\w* )
    | (?P<operator> &&|\|\||[-+*%=!<>]=|\+\+|--|!~|[-+*%!~?:,;=(){}$\[\]<>/^] )"""
)
_REGEX = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\^?(?:[^]\[^/\\\n]|\[:[a-z]+:\])+\])*/")
"""In brackets no `]`, and a `[` only as part of `[:alpha:]`: awks differ about where others end."""
_BEFORE_REGEX = frozenset(("", "(", ",", "{", "}", ";", "~", "!~", "!", "&&", "||", "\n"))
_WORDS = frozenset(
    (
        *("print", "printf", "BEGIN", "END", "if", "else", "for", "in", "next", "exit", "delete"),
        *("NR", "NF", "FNR", "FS", "OFS", "RS", "ORS", "FILENAME", "SUBSEP", "RSTART", "RLENGTH"),
        *("length", "substr", "index", "split", "sub", "gsub", "match", "toupper", "tolower", "sprintf", "int"),
        *("sqrt", "log", "exp", "sin", "cos", "rand", "srand"),
    )
)
_OWN_VARIABLE = re.compile(r"[a-z]\w{0,15}", re.ASCII)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_OTHERS = frozenset(
    (
        *("system", "getline", "close", "fflush", "function", "func", "return", "while", "do", "nextfile", "switch"),
        *("include", "load", "namespace", "extension", "systime", "strftime", "asort", "asorti", "gensub", "strtonum"),
    )
)


def awk(call: Invocation, found: ParsedArgs) -> Iterable[str]:
    """The files that it reads. Raises UnprovenError for a program with a word that is not known."""
    if not found.operands:
        raise UnprovenError(f"`{call.name}` without a program is not known to be harmless")
    program, *files = found.operands
    if not _only_prints(program):
        raise UnprovenError(
            f"the `{call.name}` program {shown_word(program)} is not known to write nothing and run nothing"
        )
    there = [word for word in files if not _ASSIGNMENT.match(word) or os.path.lexists(call.place.path(word))]
    return [word for word in there if word != "-"]


def _only_prints(program: str) -> bool:
    position, before = 0, ""
    braces = brackets = 0
    while position < len(program):
        regex = _REGEX.match(program, position) if before in _BEFORE_REGEX else None
        token = regex or _TOKEN.match(program, position)
        if token is None:
            return False
        position, text = token.end(), token[0]
        if regex is not None or token["string"] or token["number"]:
            before = "value"
        elif token["word"]:
            if text in _OTHERS or not (text in _WORDS or _OWN_VARIABLE.fullmatch(text)):
                return False
            before = text
        elif token["operator"]:
            braces += {"{": 1, "}": -1}.get(text, 0)
            brackets += {"(": 1, ")": -1}.get(text, 0)
            redirects = text in (">", ">=") and braces and not brackets  # compares in a pattern, and in brackets
            if text == "/" or redirects:
                return False
            before = text
        elif "\n" in text:
            before = "\n"
    return braces == brackets == 0
