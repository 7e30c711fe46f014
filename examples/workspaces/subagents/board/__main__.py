"""python -m board TIMETABLE DAY"""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

from board.rows import rows

with Path(sys.argv[1]).open(encoding="utf-8") as file:
    for row in rows(file, date.fromisoformat(sys.argv[2])):
        print(row)
