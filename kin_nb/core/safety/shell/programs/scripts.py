"""Programs whose first word is a program itself: sed, awk, jq. It is proven when every part of it is known."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.program import Invocation, ParsedArgs, CommandSpec
from kin_nb.core.safety.shell.programs.awk import awk
from kin_nb.core.safety.shell.syntax import shown_word

_PATTERN = r"(?:[^D\\\n\[]|\\[^\n]|\[\^?(?:[^]\[^D\\\n]|\[:[a-z]+:\])+\])*D"
"""Up to a delimiter D. In brackets stands no D, for GNU and BSD differ there, and no bracket but in `[:alpha:]`."""
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
            raise UnprovenError("`sed` without a script is not known to be harmless")
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


_JQ_ALONE = frozenset(
    (
        *(
            "--raw-output",
            "--raw-output0",
            "--compact-output",
            "--sort-keys",
            "--slurp",
            "--null-input",
            "--join-output",
        ),
        *("--color-output", "--monochrome-output", "--ascii-output", "--tab", "--seq", "--stream", "--exit-status"),
        *("--raw-input", "--unbuffered", "--version"),
    )
)
_JQ_VALUES = {"--arg": 2, "--argjson": 2, "--indent": 1}
_JQ_LETTERS = re.compile(r"-[nrcCMSsjaeR]+")
_JQ_REACHES_OUT = re.compile(r"\b(env|ENV|import|include|modulemeta|get_search_list)\b", re.ASCII)


class _Jq(CommandSpec):
    """jq's `--arg NAME VALUE` takes two words, which no other program's options do."""

    def prove(self, call: Invocation) -> list[str]:
        words, operands = list(call.words), []
        while words:
            word = words.pop(0)
            if word in _JQ_VALUES:
                del words[: _JQ_VALUES[word]]
            elif word.startswith("-") and word != "-" and word not in _JQ_ALONE and not _JQ_LETTERS.fullmatch(word):
                raise UnprovenError(f"`jq {word}` is not a flag known to be harmless")
            elif not word.startswith("-"):
                operands.append(word)
        if operands and (told := _JQ_REACHES_OUT.search(operands[0])):
            raise UnprovenError(f"`{told[0]}` in a jq filter may show variables, or read other files")
        return operands[1:]


_AWK = CommandSpec(
    values="Fv", operands="text", options_first=True, check=awk, why={"-f": "runs a file", "-i": "loads a file"}
)
SCRIPTS: dict[str, CommandSpec] = {
    "sed": CommandSpec(
        letters="nErsuz",
        values="e",
        long="quiet silent regexp-extended expression= null-data separate unbuffered",
        operands="text",
        options_first=True,
        check=_sed,
        why={"-i": "writes files", "--in-place": "writes files", "-f": "runs a file", "--file": "runs a file"},
    ),
    "jq": _Jq(),
    "awk": _AWK,
    "gawk": _AWK,
    "mawk": _AWK,
}
