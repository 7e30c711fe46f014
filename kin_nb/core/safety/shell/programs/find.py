"""find and fd: names of files, unless they are told to run or change something."""

from __future__ import annotations

from collections.abc import Iterable

from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.program import Invocation, ParsedArgs, CommandSpec

_ALONE = frozenset(
    (
        *(
            "-print",
            "-print0",
            "-ls",
            "-depth",
            "-d",
            "-empty",
            "-xdev",
            "-mount",
            "-prune",
            "-true",
            "-false",
            "-quit",
        ),
        *("-readable", "-writable", "-executable", "-not", "-and", "-or", "-a", "-o", "!", "(", ")", ",", "-noleaf"),
        *("-daystart", "-nouser", "-nogroup", "-ignore_readdir_race"),
    )
)
_WITH_VALUE = frozenset(
    (
        *(
            "-name",
            "-iname",
            "-path",
            "-ipath",
            "-wholename",
            "-iwholename",
            "-regex",
            "-iregex",
            "-regextype",
            "-type",
        ),
        *(
            "-xtype",
            "-size",
            "-mtime",
            "-mmin",
            "-atime",
            "-amin",
            "-ctime",
            "-cmin",
            "-maxdepth",
            "-mindepth",
            "-newer",
        ),
        *("-anewer", "-cnewer", "-newermt", "-perm", "-user", "-group", "-uid", "-gid", "-links", "-lname", "-ilname"),
        *("-inum", "-samefile", "-printf", "-fstype", "-used"),
    )
)
_WHY = {
    "-L": "follows links",
    "-H": "follows links",
    "-follow": "follows links",
    "-exec": "runs a program",
    "-execdir": "runs a program",
    "-ok": "runs a program",
    "-okdir": "runs a program",
    "-delete": "deletes files",
    "-fls": "writes a file",
    "-fprint": "writes a file",
    "-fprint0": "writes a file",
    "-fprintf": "writes a file",
    "-files0-from": "takes folders from a file",
}


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
            raise UnprovenError(f"`find {word}` {_WHY.get(word, 'is not known to be harmless')}")
    return [call.place.named(path) for path in paths or ["."]]


class _AsItIs(CommandSpec):
    """All words are operands: find's own are no options in getopt's sense."""

    def prove(self, call: Invocation) -> list[str]:
        return list(_find(call, ParsedArgs({}, list(call.words), [])))


_FD = CommandSpec(
    letters="HIsigaFp0u1q",
    values="eEtdcSj",
    long="hidden no-ignore no-ignore-vcs case-sensitive ignore-case glob fixed-strings absolute-path full-path print0 "
    "extension= exclude= type= max-depth= min-depth= max-results= size= changed-within= changed-before= color= unrestricted",
    operands="pattern",
    here=True,
    why={"-x": "runs a program", "-X": "runs a program", "--exec": "runs a program", "--exec-batch": "runs a program"},
)

FIND: dict[str, CommandSpec] = {"find": _AsItIs(), "fd": _FD, "fdfind": _FD}
