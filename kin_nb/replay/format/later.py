"""What a later version wrote: said as such and refused, since this one would lose it."""

from __future__ import annotations

from typing import Any

from kin_nb.core.session.records import Record
from kin_nb.render import one_line
from kin_nb.replay.errors import LaterFormatError
from kin_nb.replay.recording import FORMAT


def later_format(found: object, wrote: object) -> str:
    """The sentence about a recording in another format, `found`, by the version `wrote`."""
    what = "use that version" if isinstance(found, int | float) and found < FORMAT else "update kin_nb"
    return f"Recorded in format {short(found)} by kin_nb {short(wrote)}; this one reads format {FORMAT}: {what}."


def refuse_later(where: str, raw: Any, known: Record, wrote: str) -> None:
    """Raises LaterFormatError when `raw`, of which `known` was read, has a field that `known` has not.

    Hashes cover known fields alone, so one that somebody added by hand looks the same.
    """
    field = _later_field(raw, known)
    if field:
        raise later_field(where, field, wrote)


def later_field(where: str, field: str, wrote: str) -> LaterFormatError:
    """`wrote`: the version that the notebook names, "" when it names none."""
    return LaterFormatError(
        f"{where}: field {short(field)} is of a later version (kin_nb {short(wrote) or '?'} wrote this): update kin_nb, or "
        "take the field out if it was added by hand."
    )


def short(value: object) -> str:
    """What a file says of itself, on a line with our words: it may be of any length, and hold what a terminal obeys."""
    return one_line(str(value), 80)


def _later_field(raw: Any, known: Any) -> str:
    """The first field of `raw` that `known` has not, dotted; "" when there is none."""
    if isinstance(raw, list) and isinstance(known, tuple):
        return next((found for pair in zip(raw, known, strict=False) if (found := _later_field(*pair))), "")
    if not isinstance(raw, dict) or not isinstance(known, Record):
        return ""
    for key, item in raw.items():
        if key not in type(known).model_fields:
            return str(key)
        if found := _later_field(item, getattr(known, key)):
            return f"{key}.{found}"
    return ""
