"""python -m web TIMETABLE DAY"""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

from web.page import sentences

with Path(sys.argv[1]).open(encoding="utf-8") as file:
    for sentence in sentences(file, date.fromisoformat(sys.argv[2])):
        print(sentence)
