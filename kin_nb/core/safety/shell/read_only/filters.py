"""Programs whose first word is a program itself: sed, awk, jq. It is proven when every part of it is known."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from kin_nb.core.safety.shell.classification import UnprovenError, shown_word
from kin_nb.core.safety.shell.read_only.command_spec import CommandSpec, Invocation, ParsedArgs, section, specs

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


def _awk(call: Invocation, found: ParsedArgs) -> Iterable[str]:
    """The files that it reads. Raises UnprovenError for a program with a word that is not known."""
    if not found.operands:
        raise UnprovenError(f"`{call.name}` without a program is not known to be read-only")
    program, *files = found.operands
    if not _only_prints(program):
        raise UnprovenError(
            f"the `{call.name}` program {shown_word(program)} is not known to write nothing and run nothing"
        )
    there = [word for word in files if not _ASSIGNMENT.match(word) or os.path.lexists(call.working_dir.path(word))]
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


_PATTERN = r"(?:[^D\\\n\[]|\\[^\n]|\[\^?(?:[^]\[^D\\\n]|\[:[a-z]+:\])+\])*D"
"""Up to a delimiter D. Brackets hold no D, because GNU and BSD differ there, and a bracket only in `[:alpha:]`."""
_REPLACEMENT = r"(?:[^D\\\n]|\\[^\n])*D"
_ADDRESS = rf"(?:\d+(?:~\d+)?|\$|/{_PATTERN.replace('D', '/')}I?)"
_SED_COMMAND = re.compile(
    rf"(?:{_ADDRESS}(?:\s*,\s*(?:{_ADDRESS}|[+~]\d+))?)?\s*!?\s*"
    r"(?:[pd=nNhHgGxPl]|[qQ]\s*\d*|(?P<block>[{}])|s(?P<delimiter>[/|,#:@%!~+_]))"
)
_SED_FLAGS = re.compile(r"[gpI\d]*")
_SED_BETWEEN = re.compile(r"[\s;]*")


def _sed(_call: Invocation, found: ParsedArgs) -> Iterable[str]:
    scripts = found.values("-e", "--expression")
    files = found.operands
    if not scripts:
        if not files:
            raise UnprovenError("`sed` without a script is not known to be read-only")
        scripts, files = files[:1], files[1:]
    for script in scripts:
        if script.startswith("#n") or not _is_harmless_sed(script):
            raise UnprovenError(f"the `sed` script {shown_word(script)} is not known to write nothing and run nothing")
    return [word for word in files if word != "-"]


def _is_harmless_sed(script: str) -> bool:
    """Whether it is addresses, printing, deleting, substituting and quitting from its first character to its last."""
    position = _end(_SED_BETWEEN.match(script))
    while position < len(script):
        command = _SED_COMMAND.match(script, position)
        if command is None:
            return False
        position = command.end()
        if command["delimiter"]:
            both = (_PATTERN + _REPLACEMENT).replace("D", re.escape(command["delimiter"]))
            substitution = re.compile(both).match(script, position)
            if substitution is None:
                return False
            position = _end(_SED_FLAGS.match(script, substitution.end()))
        between = _end(_SED_BETWEEN.match(script, position))
        ends = between > position or between == len(script) or script[between] == "}" or bool(command["block"])
        if not ends:  # what follows belongs to the command
            return False
        position = between
    return True


def _end(match: re.Match[str] | None) -> int:
    return match.end() if match else 0


_JQ = section("jq")
_JQ_ALONE = frozenset(_JQ["alone"].split())
_JQ_LETTERS = re.compile(f"-[{_JQ['letters']}]+")
_JQ_REACHES_OUT = re.compile(r"\b(env|ENV|import|include|modulemeta|get_search_list)\b", re.ASCII)


class _Jq(CommandSpec):
    """jq's `--arg NAME VALUE` takes two words, which no other program's options do."""

    def prove(self, call: Invocation) -> list[str]:
        words, operands = list(call.words), []
        while words:
            word = words.pop(0)
            if word in _JQ["values"]:
                del words[: _JQ["values"][word]]
            elif word.startswith("-") and word != "-" and word not in _JQ_ALONE and not _JQ_LETTERS.fullmatch(word):
                raise UnprovenError(f"`jq {word}` is not a known read-only flag")
            elif not word.startswith("-"):
                operands.append(word)
        if operands and (reach := _JQ_REACHES_OUT.search(operands[0])):
            raise UnprovenError(f"`{reach[0]}` in a jq filter may show variables, or read other files")
        return operands[1:]


FILTERS: dict[str, CommandSpec] = {**specs("filters", checks={"sed": _sed, "awk": _awk}), "jq": _Jq()}
