"""python -m rainfall FILE: print the summary of a station's file."""

from __future__ import annotations

from pathlib import Path
import sys

from rainfall.reader import read_days
from rainfall.stats import summary

with Path(sys.argv[1]).open(encoding="utf-8") as file:
    for name, value in summary(list(read_days(file).values())).items():
        print(f"{name:10} {value}")
