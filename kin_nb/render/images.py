"""Pictures that a call gave the model, or that went with a prompt: each a display of its own.

What a picture is, its first bytes say: what a record says of it may be wrong.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any

from kin_nb.core.records import RecordedCall, RecordedImage, TurnRecord
from kin_nb.render.card import Output
from kin_nb.render.text import one_line


def render_images(call: RecordedCall, *, turn: int, step: int) -> list[Output]:
    """Return the images of a call. They come after all calls of their step, in call order."""
    return list(_drawn(call.images, one_line(call.name), turn=turn, step=step, id=one_line(call.id)))


def render_prompt_images(record: TurnRecord) -> list[Output]:
    return list(_drawn(record.images, "the prompt", turn=record.turn))


def _drawn(images: Iterable[RecordedImage], whose: str, **kin: Any) -> Iterator[Output]:
    """Draw PNG, JPEG, GIF and WebP; anything else is a line of text (SVG can hold scripts)."""
    for number, image in enumerate(images, 1):
        data = "".join(image.data.split())
        try:
            found = image_size(base64.b64decode(data, validate=True))
        except (binascii.Error, ValueError):
            found = None
        metadata = {"kin": {"kind": "image", **kin, "number": number}}
        if found is None:
            what = f"{one_line(image.media_type, 40)}, not shown: not a PNG, JPEG, GIF or WebP"
            yield Output({"text/plain": f"[picture {number} of {whose}: {what}]"}, metadata)
        else:
            media_type, width, height = found
            text = f"[picture {number} of {whose}: {media_type}, {width} x {height}]"
            yield Output({media_type: data, "text/plain": text}, metadata)


_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of the segments that hold a JPEG's size (ITU T.81, table B.1)."""
_SHORTEST = 30
"""Bytes within which PNG, GIF and WebP have their size; no whole picture is shorter."""


def image_size(data: bytes) -> tuple[str, int, int] | None:
    """Return (media type, width, height in pixels) of a PNG, JPEG, GIF or WebP; None for other or truncated data."""
    found: tuple[str, int, int] | None = None
    if len(data) < _SHORTEST:
        return None
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
        found = ("image/png", _big(data[16:20]), _big(data[20:24]))
    elif data.startswith((b"GIF87a", b"GIF89a")):
        found = ("image/gif", _little(data[6:8]), _little(data[8:10]))
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        found = ("image/webp", *_webp(data))
    elif data.startswith(b"\xff\xd8"):
        found = ("image/jpeg", *next(_jpeg(data), (0, 0)))
    return found if found and found[1] and found[2] else None


def _webp(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8 ":
        return _little(data[26:28]) & 0x3FFF, _little(data[28:30]) & 0x3FFF
    if kind == b"VP8L":
        bits = _little(data[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return (_little(data[24:27]) + 1, _little(data[27:30]) + 1) if kind == b"VP8X" else (0, 0)


def _jpeg(data: bytes) -> Iterator[tuple[int, int]]:
    """Read the size of a JPEG, segment by segment: FF, marker, length, and that many bytes."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:  # noqa: PLR2004  (the marker's first byte)
        if data[at + 1] in _JPEG_SIZES:
            yield _big(data[at + 7 : at + 9]), _big(data[at + 5 : at + 7])
        at += 1 if data[at + 1] == 0xFF else 2 + max(2, _big(data[at + 2 : at + 4]))  # noqa: PLR2004  (a fill byte)


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
