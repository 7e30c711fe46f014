"""python -m postage FILE: print a label for each order."""

from __future__ import annotations

import sys
from pathlib import Path

from postage.labels import label
from postage.orders import read_orders

with Path(sys.argv[1]).open(encoding="utf-8") as file:
    for name, weight, length, width, height in read_orders(file):
        print(label(name, weight, length, width, height))
