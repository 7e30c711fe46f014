"""Name every line of the recipes that is not metric yet; exit 1 when there is one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

IMPERIAL = re.compile(r"\d (?:fl )?oz\b|\d F\b")

found = 0
for path in sorted(Path("recipes").glob("*.md")):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if IMPERIAL.search(line):
            found += 1
            print(f"{path}:{number}: {line}")
print(f"{found} lines are not metric")
sys.exit(1 if found else 0)
