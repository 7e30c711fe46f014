"""What it costs to send a parcel."""

from __future__ import annotations

RATES = ((1_000, 4.10), (2_000, 5.60), (5_000, 8.90), (10_000, 13.50))
BULKY = 3.20


def price(weight: int, length: int, width: int, height: int) -> float:
    """In pounds, for grams and centimetres."""
    rate = next(rate for limit, rate in RATES if weight <= limit)
    if around(length, width, height) > 200:
        rate += BULKY
    return round(rate, 2)


def around(length: int, width: int, height: int) -> int:
    """The longest side, and once around the other two."""
    short, middle, long = sorted((length, width, height))
    return long + 2 * (short + middle)
