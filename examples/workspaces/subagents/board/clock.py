"""Times of day on the board."""

from __future__ import annotations

from datetime import date

SUMMER = (4, 10)
"""First month of summer time, and the first one after it."""


def shown(departs: str, day: date) -> str:
    """A time of the timetable, as the board shows it on `day`."""
    hour, minute = map(int, departs.split(":"))
    if SUMMER[0] <= day.month < SUMMER[1]:
        hour += 1  # the boards' clocks ran on winter time until 2019
    return f"{hour:02}:{minute:02}"
