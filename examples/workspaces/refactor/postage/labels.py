"""The label that goes on a parcel."""

from __future__ import annotations

from postage.prices import around, price


def label(name: str, weight: int, length: int, width: int, height: int) -> str:
    cost = price(weight, length, width, height)
    mark = " BULKY" if around(length, width, height) >= 200 else ""
    return f"{name:16} {weight / 1000:4.1f} kg {length:3} x {width:2} x {height:2} cm {cost:6.2f}{mark}"
