"""The programs of commands.toml, and the checks of their other words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kin_nb.core.safety.shell.classification import UnprovenError
from kin_nb.core.safety.shell.read_only.command_spec import CommandSpec, Invocation, ParsedArgs, section, specs
from kin_nb.core.safety.shell.read_only.working_dir import Search


def _xxd(call: Invocation, found: ParsedArgs) -> Iterable[str]:
    """It knows no `--`, and takes `-cols` for a word whose value is the next one."""
    numbers = all(re.fullmatch(r"[0-9]+|0x[0-9a-f]+", value) for value in found.values("-c", "-g", "-l", "-s", "-o"))
    if "--" in call.words or not numbers:
        raise UnprovenError(f"`xxd {' '.join(call.words)}` may write a file")
    return ()


def _tail(_call: Invocation, found: ParsedArgs) -> Iterable[str]:
    if any(word.startswith("+") for word in found.operands):  # `+5f` is an old way to say -n +5 -f
        raise UnprovenError("`tail +N` may never end; give `-n +N`")
    return ()


_FIND = section("find")
_ALONE = frozenset(_FIND["alone"].split())
_WITH_VALUE = frozenset(_FIND["with_value"].split())


def _find(call: Invocation, found: ParsedArgs) -> Iterable[str]:
    words = list(found.operands)
    while words and words[0] == "-P":
        words.pop(0)
    paths: list[str] = []
    while words and not words[0].startswith("-") and words[0] not in ("(", "!", ",", ")"):
        paths.append(words.pop(0))
    while words:
        word = words.pop(0)
        if word in _WITH_VALUE and words:
            words.pop(0)
        elif word not in _ALONE:
            raise UnprovenError(f"`find {word}` {_FIND['why'].get(word, 'is not known to be read-only')}")
    return [call.working_dir.named(path) for path in paths or ["."]]


class _Find(CommandSpec):
    """All words are operands: find's expressions are not options as getopt knows them."""

    def prove(self, call: Invocation) -> list[str]:
        return list(_find(call, ParsedArgs({}, list(call.words), [])))


_PLAIN_NAME = re.compile(r"[\w.-]+")
_PLAIN_GLOB = re.compile(r"[\w.*-]+", re.ASCII)
"""Without `?`, which may match a single byte."""
_TYPES_OF_CODE = frozenset(("py", "js", "ts", "rust", "go", "c", "cpp", "java", "md"))
"""Types of rg's that name no hidden file."""


def _grep_search(found: ParsedArgs) -> Search | None:
    follows = found.has("-R", "--dereference-recursive")
    if not follows and not found.has("-r", "--recursive"):
        return None
    without = tuple(name for name in found.values("--exclude-dir") if _PLAIN_NAME.fullmatch(name))
    only = tuple(found.values("--include"))
    if found.has("--exclude") or not all(_PLAIN_GLOB.fullmatch(glob) for glob in only):
        only = ()  # with both, grep searches what neither names; and its brackets are not Python's
    return Search(follows=follows, without=without, only=only)


def _rg_search(found: ParsedArgs) -> Search | None:
    if found.has("--files", "--type-list"):  # names only
        return None
    shows_hidden = found.has("-u", "--hidden", "--unrestricted", "-.", "-g", "--glob", "--iglob")  # `-g .env`
    types = set(found.values("-t", "--type"))
    return Search(hidden=shows_hidden or not types <= _TYPES_OF_CODE, obeys_ignore_files=not types)


def _diff_search(_found: ParsedArgs) -> Search | None:
    return Search(follows=True)


def _no_response_file(call: Invocation, _found: ParsedArgs) -> Iterable[str]:
    """Any word: also the value of an option, and what follows `--`."""
    if any(word.startswith("@") for word in call.words):
        raise UnprovenError(f"`{call.name} @FILE` takes its arguments from a file")
    return ()


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
    """Known by whole words. `e` shows variables, unless it is `-e`.

    It shows them again when another word makes ps parse its arguments a second time.
    """

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
        raise UnprovenError(f"`{' '.join(['set', *call.words])}` is not known to be read-only")
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


class _AsksForVersion(CommandSpec):
    """Known for saying its version, and for nothing else."""

    def prove(self, call: Invocation) -> list[str]:
        if len(call.words) != 1 or call.words[0] not in ("--version", *self.whole.split()):
            raise UnprovenError(f"`{call.name}` is read-only only with `--version`")
        return list(self.check(call, ParsedArgs({}, [], []))) if self.check else []


def _no_toolchain_here(call: Invocation, _found: ParsedArgs) -> Iterable[str]:
    """rustup runs the toolchain that a folder names, which may be a program of the folder's own."""
    home = call.working_dir.environment.get("HOME")
    for folder in (call.working_dir.cwd, *call.working_dir.cwd.parents):
        if str(folder) != home and any(
            (folder / name).exists() for name in ("rust-toolchain", "rust-toolchain.toml", ".cargo")
        ):
            raise UnprovenError(f"`{call.name}` runs the toolchain that {folder} names")
    return ()


def _pip(call: Invocation, found: ParsedArgs) -> Iterable[str]:
    if "PYTHONPATH" in call.working_dir.environment:
        raise UnprovenError(f"`{call.name}` may load modules from the folders in PYTHONPATH")
    if (
        found.operands[:1] == ["show"]
        or found.operands == ["list"]
        or (found.has("--version", "-V") and not found.operands)
    ):
        return ()
    raise UnprovenError(f"`{call.name}` is read-only only with `list`, `show` and `--version`")


BUILTINS = specs("builtins", checks={"printf": _printf, "exit": _exit, "set": _set})
PROGRAMS: dict[str, CommandSpec] = {
    **specs("files", checks={"tail": _tail, "xxd": _xxd}),
    **specs(
        "text",
        checks={"no_response_file": _no_response_file},
        searches={"grep": _grep_search, "rg": _rg_search, "diff": _diff_search},
    ),
    **specs("system", checks={"date": _date, "sleep": _sleep, "seq": _seq, "secrets": _secrets}),
    **specs("version", kind=_AsksForVersion, checks={"no_toolchain_here": _no_toolchain_here}),
    **specs("tools", checks={"pip": _pip}),
    "find": _Find(),
    "ps": _Ps(),
}
