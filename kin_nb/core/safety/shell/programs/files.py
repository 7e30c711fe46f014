"""Programs that list files, show them, or say what they are."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.program import Invocation, ParsedArgs, CommandSpec

_NO_END = "may never end"


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


FILES: dict[str, CommandSpec] = {
    "ls": CommandSpec(
        letters="aAbBcCdfFgGhHiklmnNopqQrRsStuUvxXZ1",
        long="all almost-all author color? classify? directory full-time group-directories-first human-readable inode "
        "no-group numeric-uid-gid recursive reverse si size sort= time= time-style=",
        operands="names",
        here=True,
    ),
    "tree": CommandSpec(
        letters="adfipugshDFCnNQqxJUrtcv",
        alone="LPI",
        long="noreport dirsfirst gitignore prune matchdirs ignore-case du si inodes",
        operands="names",
        here=True,
        why={"-o": "writes a file", "-R": "writes files"},
    ),
    "stat": CommandSpec(letters="Lft", values="c", long="dereference terse format= printf=", operands="names"),
    "file": CommandSpec(
        letters="bikLhN", long="brief mime mime-type mime-encoding dereference no-dereference", why={"-C": "writes a file"}
    ),
    "du": CommandSpec(
        letters="abchHklmsSx0P",
        values="dt",
        long="all apparent-size bytes exclude= human-readable max-depth= one-file-system summarize threshold= total",
        operands="names",
        here=True,
    ),
    "df": CommandSpec(
        letters="ahHiklPTm", long="human-readable inodes print-type local portability total", operands="text"
    ),
    "basename": CommandSpec(letters="az", values="s", long="multiple suffix= zero", operands="text"),
    "dirname": CommandSpec(letters="z", long="zero", operands="text"),
    "realpath": CommandSpec(
        letters="emsLPqz",
        long="canonicalize-existing canonicalize-missing no-symlinks relative-base= relative-to=",
        operands="names",
    ),
    "readlink": CommandSpec(
        letters="fenmqsvz", long="canonicalize canonicalize-existing canonicalize-missing", operands="names"
    ),
    "cat": CommandSpec(letters="AbeEnstTuv", long="number number-nonblank show-all show-ends show-tabs squeeze-blank"),
    "tac": CommandSpec(letters="br", values="s", long="before regex separator="),
    "head": CommandSpec(letters="qvz", values="nc", long="lines= bytes= quiet silent verbose zero-terminated", number=True),
    "tail": CommandSpec(
        letters="qvz",
        values="nc",
        long="lines= bytes= quiet silent verbose zero-terminated",
        number=True,
        check=_tail,
        why={"-f": _NO_END, "-F": _NO_END, "--follow": _NO_END},
    ),
    "nl": CommandSpec(letters="p", values="bdfhilnsvw"),
    "wc": CommandSpec(letters="clmwL", long="bytes chars lines words max-line-length total="),
    "od": CommandSpec(
        letters="abcdfhilosxv", values="AjNt", attached="w", long="address-radix= format= skip-bytes= read-bytes="
    ),
    "xxd": CommandSpec(
        values="cglso", whole="-a -b -e -i -p -ps -u", most=1, options_first=True, check=_xxd, why={"-r": "writes a file"}
    ),
    "hexdump": CommandSpec(letters="bcCdovx", values="ns"),
    "hd": CommandSpec(letters="v", values="ns"),
    "md5sum": CommandSpec(letters="btz", long="binary text tag zero"),
    "cksum": CommandSpec(values="a", long="algorithm="),
    "shasum": CommandSpec(letters="bt", values="a", long="algorithm="),
    "cmp": CommandSpec(letters="bls", values="ni", long="print-bytes verbose silent quiet"),
    "comm": CommandSpec(letters="123iz", long="check-order nocheck-order output-delimiter= total zero-terminated"),
}
for _sum in ("sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum"):
    FILES[_sum] = FILES["md5sum"]
