"""How the play of a saved notebook ended, in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from kin_nb.render import one_line

_NETWORK = re.compile(
    r"(?i)name resolution|name or service not known|no address associated|nodename nor servname|could not resolve host"
    r"|failed to resolve|network is unreachable|cannot assign requested address|connection refused|max retries exceeded"
)
_READ_ONLY = re.compile(r"\[Errno 30\]|(?i:read-only file system)|attempt to write a readonly database")
_DATABASE = "unable to open database file"
_REPOSITORY = re.compile(r"(?i)not a git repository|^Command '(?:\['git'|git )[^\n]* exit status 128\b")
_MISSING = re.compile(r"No such file or directory(?: \(os error 2\))?: (?:'([^']+)'|([^'\n]+))")
_LONGEST = 400


@dataclass(frozen=True)
class Failure:
    """What a cell raised: the exception's name, its text, and all of its traceback without colours."""

    name: str
    text: str = ""
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.text else self.name

    @property
    def missing_file(self) -> str:
        """The file that it says is not there, "" when it says none."""
        found = _MISSING.search(self.text)
        return found[1] or found[2] if found else ""

    def cleaned(self, clean: Callable[[str], str]) -> Failure:
        return Failure(clean(self.name), clean(self.text), clean(self.traceback))


@dataclass(frozen=True)
class Played:
    """`ran` of `cells` code cells ran to their end. `at`: the cell (from 1, Markdown too) at which it ended, 0 where all ran.

    `failure`: how it ended there; None where it took too long.
    """

    cells: int
    ran: int
    at: int = 0
    failure: Failure | None = None

    @classmethod
    def of(cls, nb: Any, at: int | None, failure: Failure | None = None) -> Played:
        """`at`: the index of the cell of `nb` at which it ended, None where all of them ran."""
        code = [n for n, cell in enumerate(nb["cells"]) if cell["cell_type"] == "code" and cell["source"].strip()]
        ran = sum(at is None or n < at for n in code)
        return cls(len(code), ran, 0 if at is None else at + 1, failure)

    @property
    def whole(self) -> bool:
        return self.ran == self.cells and not self.at


def not_its_own(
    failure: Failure, withheld: Collection[str], is_there: Callable[[str], bool], clean: Callable[[str], str]
) -> str:
    """What a cell lacks because the play is confined, "" where no known sign of it is in the error.

    `withheld`: variables that hold secrets. `is_there`: whether a file is where the notebook is. `clean`: what a name goes
    through before it is cut.
    """
    if _NETWORK.search(failure.text) or _NETWORK.search(failure.traceback):
        return "needs the network"
    if variable := next((word for word in re.findall(r"\w+", failure.text) if word in withheld), ""):
        return f"needs the variable {variable}, which may hold a secret"
    if _READ_ONLY.search(failure.text):
        return "writes outside of the copy"
    if _DATABASE in failure.text:
        return "may need a database outside of the copy"
    if _REPOSITORY.search(failure.text):
        return "needs a git repository, which the copy is not"
    if failure.missing_file and is_there(failure.missing_file):
        return f"reads {one_line(clean(failure.missing_file), _LONGEST)}, which is not in the copy"
    return "needs more memory" if failure.name.endswith("MemoryError") else ""


def in_words(played: Played, seconds: int, lacks: str) -> str:
    """One sentence; `lacks`: what `not_its_own` says of its failure."""
    before = f"{played.ran} of {played.cells} cells ran"
    if played.whole:
        return f"Played once, without network, in a copy: {before}."
    if played.failure is None:
        return f"Stopped after {seconds} s in cell {played.at}; {before}."
    if lacks:
        return f"Cell {played.at} {lacks}, so a play confined to a copy ends there; {before}."
    return f"Stopped at cell {played.at}: {one_line(str(played.failure), _LONGEST)} (played once, in a copy; {before})."
