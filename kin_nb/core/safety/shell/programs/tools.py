"""Programming tools: mostly what version they are."""

from __future__ import annotations

from collections.abc import Iterable

from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.program import Invocation, ParsedArgs, CommandSpec

_NETWORK = "uses the network"


class _AsksForVersion(CommandSpec):
    """Known for saying its version, and for nothing else."""

    def prove(self, call: Invocation) -> list[str]:
        if len(call.words) != 1 or call.words[0] not in ("--version", *self.whole.split()):
            raise UnprovenError(f"`{call.name}` is known to be harmless only with `--version`")
        return list(self.check(call, ParsedArgs({}, [], []))) if self.check else []


def _no_toolchain_here(call: Invocation, _found: ParsedArgs) -> Iterable[str]:
    """rustup runs the toolchain that a folder names, which may be a program of the folder's own."""
    home = call.place.environment.get("HOME")
    for folder in (call.place.cwd, *call.place.cwd.parents):
        if str(folder) != home and any(
            (folder / name).exists() for name in ("rust-toolchain", "rust-toolchain.toml", ".cargo")
        ):
            raise UnprovenError(f"`{call.name}` runs the toolchain that {folder} names")
    return ()


def _pip(call: Invocation, found: ParsedArgs) -> Iterable[str]:
    if "PYTHONPATH" in call.place.environment:
        raise UnprovenError(f"`{call.name}` may load modules from the folders in PYTHONPATH")
    if (
        found.operands[:1] == ["show"]
        or found.operands == ["list"]
        or (found.has("--version", "-V") and not found.operands)
    ):
        return ()
    raise UnprovenError(f"`{call.name}` is known to be harmless only with `list`, `show` and `--version`")


_PIP = CommandSpec(
    letters="Vlfv",
    long="version format= local user not-required files verbose disable-pip-version-check",
    operands="text",
    check=_pip,
    why={"--outdated": _NETWORK, "-o": _NETWORK},
)
_OTHERS = (
    *("gcc", "g++", "cc", "c++", "clang", "clang++", "make", "cmake", "ninja", "ruby", "bash", "curl", "wget"),
    *("docker", "sqlite3", "ruff", "uv", "perl", "tar", "gzip"),
)
_RUST = _AsksForVersion(whole="-V", check=_no_toolchain_here)
TOOLS: dict[str, CommandSpec] = {
    **dict.fromkeys(_OTHERS, _AsksForVersion()),
    **dict.fromkeys(("python", "python3"), _AsksForVersion(whole="-V")),
    **dict.fromkeys(("cargo", "rustc"), _RUST),
    **dict.fromkeys(("pip", "pip3"), _PIP),
    "node": _AsksForVersion(whole="-v"),
}
