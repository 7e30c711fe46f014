"""Figures about a series of rainfall readings, in millimetres."""

from __future__ import annotations


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def median(values: list[float]) -> float:
    """The middle reading, or the mean of the two middle ones."""
    values.sort()
    middle = len(values) // 2
    if len(values) % 2:
        return values[middle]
    return (values[middle - 1] + values[middle]) / 2


def longest_dry_spell(values: list[float], threshold: float = 0.2) -> int:
    """The most days in a row with less than `threshold` millimetres."""
    longest = current = 0
    for value in values:
        current = current + 1 if value < threshold else 0
        longest = max(longest, current)
    return longest


def summary(values: list[float]) -> dict[str, float]:
    """Total, mean and median, the longest dry spell in days, and the latest reading."""
    return {
        "total": round(sum(values), 1),
        "mean": round(mean(values), 2),
        "median": median(values),
        "dry_spell": longest_dry_spell(values),
        "latest": values[-1],
    }
