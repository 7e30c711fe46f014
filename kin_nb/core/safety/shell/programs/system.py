"""Shell builtins, and programs that say something about the machine."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.program import Invocation, ParsedArgs, CommandSpec

LONGEST_SLEEP = 600
_SECRETS = "would show variables that may hold secrets"
_COLUMN = "(?:p?pid|user|comm|cmd|args|command|etimes?|[%p]?cpu|[%p]mem|rss|vsz|stat|tty|time|lstart|ni)"
_COLUMNS = re.compile(rf"{_COLUMN}=?(?:,{_COLUMN}=?)*")
_PS_OF_ALL = frozenset(("-e", "-ef", "-el", "-efww"))
_PS_ALONE = frozenset(
    (
        *("a", "x", "u", "ax", "aux", "auxw", "auxww", "auxf", "axf"),
        *("-A", "-a", "-x", "-f", "-l", "-w", "-ww", "-ax", "-aux", "-Af"),
    )
)
_PS_BESIDE = frozenset(("--no-headers", "--forest"))
_PS_SORT = re.compile(rf"--sort=[-+]?{_COLUMN}")
_PS_VALUES = {
    **dict.fromkeys(("-o", "-eo", "-Ao", "-axo"), _COLUMNS),
    "-p": re.compile(r"\d+(,\d+)*"),
    "-C": re.compile(r"[a-z]\w*"),
}
_CONVERSION = re.compile(r"%(?:%|[-+ #0]*\d*(?:\.\d*)?[diouxXeEfFgGaAcsbq])")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_SET = frozenset(("pipefail", "errexit", "nounset", "xtrace"))


def _date(call: Invocation, found: ParsedArgs) -> Iterable[str]:
    if any(not word.startswith("+") for word in found.operands):
        raise UnprovenError(f"`{call.name}` may set the clock")
    return ()


def _sleep(_call: Invocation, found: ParsedArgs) -> Iterable[str]:
    for word in found.operands:
        if not re.fullmatch(r"\d{1,3}(\.\d+)?s?", word) or float(word.rstrip("s")) > LONGEST_SLEEP:
            raise UnprovenError(f"`sleep {word}` is not known to end soon")
    return ()


def _printf(_call: Invocation, found: ParsedArgs) -> Iterable[str]:
    text = found.operands[0] if found.operands else ""
    if "%" in _CONVERSION.sub("", text):
        raise UnprovenError("`printf` with a conversion that is not known, such as `%n`, may set a variable")
    return ()


class _Ps(CommandSpec):
    """Known by whole words. `e` shows variables, unless it is `-e`; and that again when another word makes ps start anew."""

    def prove(self, call: Invocation) -> list[str]:
        words, known = list(call.words), set[str]()
        while words:
            word = words.pop(0)
            value = _PS_VALUES.get(word)
            if value is not None and words and value.fullmatch(words[0]):
                words.pop(0)
            elif word not in _PS_OF_ALL | _PS_ALONE | _PS_BESIDE and not _PS_SORT.fullmatch(word):
                raise UnprovenError(f"`ps {word}` may show other programs' variables")
            known.add(word)
        if known & {*_PS_OF_ALL, "-eo"} and known & {*_PS_ALONE, *_PS_VALUES} - {"-o", "-eo"}:
            raise UnprovenError(f"`ps {' '.join(call.words)}` may show other programs' variables")
        return []


def _set(call: Invocation, found: ParsedArgs) -> Iterable[str]:
    if not call.words or any(word not in _SET for word in (*found.operands, *found.values("-o"))):
        raise UnprovenError(f"`{' '.join(['set', *call.words])}` is not known to be harmless")
    return ()


def _seq(_call: Invocation, found: ParsedArgs) -> Iterable[str]:
    if any(not _NUMBER.fullmatch(word) for word in found.operands):
        raise UnprovenError("`seq` counts with numbers only")
    return ()


def _exit(_call: Invocation, found: ParsedArgs) -> Iterable[str]:
    if any(not word.isdigit() for word in found.operands):
        raise UnprovenError("`exit` takes a number")
    return ()


def _secrets(call: Invocation, _found: ParsedArgs) -> Iterable[str]:
    raise UnprovenError(f"`{call.name}` {_SECRETS}")


_NO_WORDS = CommandSpec(operands="none")
BUILTINS: dict[str, CommandSpec] = {
    "pwd": CommandSpec(letters="LP", operands="none"),
    "printf": CommandSpec(operands="text", check=_printf, why={"-v": "sets a variable"}),
    "true": CommandSpec(operands="text"),
    "false": CommandSpec(operands="text"),
    ":": CommandSpec(operands="text"),
    "type": CommandSpec(letters="aptPf", operands="text"),
    "exit": CommandSpec(operands="text", check=_exit),
    "set": CommandSpec(letters="eux", values="o", operands="text", check=_set),
}
SYSTEM: dict[str, CommandSpec] = {
    "which": CommandSpec(letters="a", operands="text"),
    "date": CommandSpec(
        letters="uR",
        values="d",
        attached="I",
        long="utc universal date= iso-8601? rfc-3339= rfc-email",
        operands="text",
        check=_date,
        why={"-s": "sets the clock", "--set": "sets the clock"},
    ),
    "sleep": CommandSpec(operands="text", check=_sleep),
    "seq": CommandSpec(letters="w", values="sf", number=True, operands="text", check=_seq),
    "expr": CommandSpec(operands="text"),
    "bc": CommandSpec(letters="lqs", operands="none"),
    "id": CommandSpec(letters="ugGnrz", operands="text"),
    "whoami": _NO_WORDS,
    "groups": _NO_WORDS,
    "arch": _NO_WORDS,
    "tty": _NO_WORDS,
    "lscpu": _NO_WORDS,
    "locale": _NO_WORDS,
    "nvidia-smi": _NO_WORDS,
    "uname": CommandSpec(letters="asnrvmpio", long="all kernel-name kernel-release machine", operands="none"),
    "hostname": CommandSpec(letters="sI", operands="none"),
    "nproc": CommandSpec(long="all ignore=", operands="none"),
    "uptime": CommandSpec(letters="ps", operands="none"),
    "free": CommandSpec(letters="bkmghtwl", long="human mebi gibi total", operands="none"),
    "ps": _Ps(),
    "pgrep": CommandSpec(letters="flaxnouiv", values="u", operands="text"),
    "env": CommandSpec(operands="none", check=_secrets),
    "printenv": CommandSpec(operands="none", check=_secrets),
}
