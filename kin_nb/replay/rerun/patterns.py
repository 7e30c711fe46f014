"""Apply the patterns of drift rules to two texts. As a program of its own, so that a slow pattern of a user can be ended.

    python -I patterns.py SECONDS < {"patterns": [{"pattern": …, "compare": …, "signature": …}], "texts": [A, B]}

Prints a line of JSON for each pattern, whether the texts differed in what it matches; then one with the two texts without what
may differ. Ends by SIGXCPU after SECONDS of processor time. Imports no more than the standard library.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from dataclasses import dataclass
from typing import Literal

Compare = Literal["groups", "numbered", "sorted"]


@dataclass(frozen=True)
class Pattern:
    """A regular expression, and what is compared of the texts that it matches.

    `compare`: "groups": the text of its groups; "numbered": which matches of its one group are equal; "sorted": all lines, in
    any order. `signature`: what both texts must match, or the pattern is not used; an empty one matches every text.
    """

    pattern: re.Pattern[str]
    compare: Compare = "groups"
    signature: re.Pattern[str] = re.compile("")

    def apply(self, texts: tuple[str, str]) -> tuple[bool, tuple[str, str]]:
        """Return (whether the texts differ in what the pattern matches, the texts without what may differ)."""
        if not all(self.signature.search(text) for text in texts):
            return False, texts
        first, second = ([found[0] for found in self.pattern.finditer(text)] for text in texts)
        return first != second, (self.hide(texts[0]), self.hide(texts[1]))

    def hide(self, text: str) -> str:
        """Return `text` without what may differ."""
        seen: dict[str, str] = {}

        def compared(found: re.Match[str]) -> str:
            if self.compare == "sorted":
                return "".join(sorted(found[0].splitlines(keepends=True)))
            if self.compare == "numbered":
                return seen.setdefault(found[1], f"#{len(seen) + 1}")
            return "".join(group or "" for group in found.groups())

        return self.pattern.sub(compared, text)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile with ^ and $ at the ends of lines. Raises re.error, OverflowError and RecursionError."""
    return re.compile(pattern, re.MULTILINE)


def main() -> None:
    seconds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    question = json.load(sys.stdin)
    texts = tuple(question["texts"])
    for each in question["patterns"]:
        signature = compile_pattern(each["signature"])
        differed, texts = Pattern(compile_pattern(each["pattern"]), each["compare"], signature).apply(texts)
        print(json.dumps(differed), flush=True)  # noqa: T201
    print(json.dumps(texts))  # noqa: T201


if __name__ == "__main__":
    main()
