"""Programs that search text or change it on its way to the output."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.place import Search
from kin_nb.core.safety.shell.program import Invocation, ParsedArgs, CommandSpec

_RUNS = "runs a program"
_WRITES = "writes a file"
_PLAIN_NAME = re.compile(r"[\w.-]+")
_PLAIN_GLOB = re.compile(r"[\w.*-]+", re.ASCII)
"""Without `?`, which may stand for a byte."""
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


_GREP = CommandSpec(
    letters="EFGPivwxcLlqosabHhnrRzZI",
    values="emABC",
    files="f",
    long="extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match word-regexp "
    "line-regexp count color? colour? files-with-matches files-without-match max-count= only-matching quiet silent "
    "no-messages byte-offset with-filename no-filename line-number null text binary-files= recursive "
    "dereference-recursive after-context= before-context= context= include= exclude= exclude-dir= regexp= file< "
    "line-buffered initial-tab null-data",
    number=True,
    operands="pattern",
    search=_grep_search,
)

TEXT: dict[str, CommandSpec] = {
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": CommandSpec(
        letters="iSsvwxnNcloFPUuHIa0.qp",
        values="egtTABCmrMdj",
        files="f",
        long="ignore-case smart-case case-sensitive fixed-strings hidden no-ignore no-ignore-vcs no-config files "
        "files-with-matches files-without-match count count-matches only-matching line-number no-line-number heading "
        "no-heading with-filename no-filename multiline multiline-dotall pcre2 word-regexp line-regexp invert-match "
        "type= type-not= glob= iglob= max-count= max-depth= max-columns= context= after-context= before-context= "
        "color= sort= sortr= stats trim json vimgrep column null replace= regexp= passthru type-list unrestricted "
        "no-messages quiet text file<",
        operands="pattern",
        search=_rg_search,
        why={"--pre": _RUNS, "-z": _RUNS, "--search-zip": _RUNS, "--hostname-bin": _RUNS},
    ),
    "sort": CommandSpec(
        letters="bcCdfghiMmnrRsuVz",
        values="kt",
        long="unique numeric-sort general-numeric-sort human-numeric-sort month-sort version-sort reverse ignore-case "
        "ignore-leading-blanks ignore-nonprinting dictionary-order stable check key= field-separator= zero-terminated",
        why={
            "-o": _WRITES,
            "--output": _WRITES,
            "--compress-program": _RUNS,
            "-T": "writes to a folder",
            "--temporary-directory": "writes to a folder",
        },
    ),
    "uniq": CommandSpec(
        letters="cdDiuz",
        values="fsw",
        long="count repeated all-repeated? unique ignore-case skip-fields= skip-chars= check-chars= zero-terminated",
        most=1,
        options_first=True,
    ),
    "cut": CommandSpec(
        letters="nsz",
        values="bcdf",
        long="bytes= characters= fields= delimiter= complement only-delimited output-delimiter= zero-terminated",
    ),
    "tr": CommandSpec(letters="cCdst", long="complement delete squeeze-repeats truncate-set1", operands="text"),
    "diff": CommandSpec(
        letters="abBcdeEHinNpqrstTuwyZ",
        values="UCWxIFL",
        long="unified? context? brief recursive side-by-side width= suppress-common-lines ignore-all-space "
        "ignore-space-change ignore-blank-lines ignore-case ignore-trailing-space ignore-matching-lines= exclude= label= "
        "text new-file report-identical-files strip-trailing-cr minimal color? show-c-function normal",
        search=_diff_search,
        why={"-l": _RUNS, "--paginate": _RUNS},
    ),
    "column": CommandSpec(letters="tx", values="sc", long="table separator="),
    "fold": CommandSpec(letters="bs", values="w", long="bytes spaces width="),
    "fmt": CommandSpec(values="w", long="width="),
    "paste": CommandSpec(letters="sz", values="d", long="serial delimiters= zero-terminated"),
    "join": CommandSpec(letters="i", values="12tjoave"),
    "expand": CommandSpec(letters="i", values="t", long="initial tabs="),
    "unexpand": CommandSpec(letters="a", values="t", long="all tabs="),
    "rev": CommandSpec(),
    "strings": CommandSpec(
        letters="af", values="nt", long="all bytes= radix= print-file-name", number=True, check=_no_response_file
    ),
}
