"""What an equivalence rule is; rules.py has them all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kin_nb.replay.rerun.named_programs import UNSEEN


@dataclass(frozen=True)
class Rule:
    """One harmless difference in what one program prints.

    Of what `pattern` matches only its groups count; `numbered`: its one group counts by which of them are equal;
    `sorted`: all of its lines count, in whatever order. `names`: the programs that a command line must name; none: any line.
    `sign`: what both outputs must hold where the line names a script, a Makefile or the like; None: then it is not used.
    """

    number: int
    program: str
    says: str
    pattern: re.Pattern[str]
    names: frozenset[str] = frozenset()
    sign: re.Pattern[str] | None = None
    counts: Literal["groups", "numbered", "sorted"] = "groups"

    def is_for(self, programs: frozenset[str], texts: Iterable[str]) -> bool:
        if not self.names or self.names & programs:
            return True
        return UNSEEN in programs and self.sign is not None and all(self.sign.search(text) for text in texts)

    def found(self, text: str) -> list[str]:
        return [found[0] for found in self.pattern.finditer(text)]

    def hide(self, text: str) -> str:
        """`text` without what may differ."""
        seen: dict[str, str] = {}

        def shown(found: re.Match[str]) -> str:
            if self.counts == "sorted":
                return "".join(sorted(found[0].splitlines(keepends=True)))
            if self.counts == "numbered":
                return seen.setdefault(found[1], f"#{len(seen) + 1}")
            return "".join(group or "" for group in found.groups())

        return self.pattern.sub(shown, text)
