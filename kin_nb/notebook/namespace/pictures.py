"""Pictures for the model: no larger than a model can use. Pillow, where installed, makes them smaller."""

from __future__ import annotations

import base64
import binascii
import io
import struct
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from kin_nb.core.messages import ImageContent
from kin_nb.core.tools.truncation import LARGEST_PICTURE

LONGEST_SIDE = 1_568
"""Pixels."""
_JPEG_SIZES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""Markers of a JPEG's segments that say how large it is."""


def shrink_to_fit(picture: ImageContent) -> tuple[ImageContent | None, str]:
    """The picture, made smaller if need be; or None, and why it is not sent."""
    try:
        content = base64.b64decode(picture.data, validate=True)
    except (binascii.Error, ValueError):
        return None, "its data is not base64"
    sides = dimensions(content)
    if sides is None or max(sides) <= LONGEST_SIDE:  # other data is refused, with the reason, when it is sent
        return picture, ""
    if find_spec("PIL") is None:
        return None, f"{sides[0]} x {sides[1]} pixels are too many ({LONGEST_SIDE} a side), and Pillow is not installed"
    return _smaller(content)


def dimensions(content: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, GIF, JPEG or WebP, by its header; None when that tells neither."""
    try:
        if content.startswith(b"\x89PNG"):
            return struct.unpack(">II", content[16:24])
        if content.startswith(b"GIF8"):
            return struct.unpack("<HH", content[6:10])
        if content.startswith(b"\xff\xd8"):
            return _of_jpeg(content)
        return _of_webp(content) if content[8:12] == b"WEBP" else None
    except (struct.error, IndexError):
        return None


def _of_jpeg(content: bytes) -> tuple[int, int] | None:
    at = 2
    while content[at] == 0xFF:  # noqa: PLR2004  (each segment begins with it)
        marker, length = content[at + 1], struct.unpack(">H", content[at + 2 : at + 4])[0]
        if marker in _JPEG_SIZES:
            height, width = struct.unpack(">HH", content[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return None


def _of_webp(content: bytes) -> tuple[int, int] | None:
    kind = content[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(content[at : at + 3], "little") + 1 for at in (24, 27))
        return width, height
    if kind == b"VP8L":
        bits = int.from_bytes(content[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", content[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return None


def from_figure(figure: Any) -> tuple[ImageContent | None, str]:
    """Return a matplotlib Figure as PNG; or None and the reason."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    return shrink_to_fit(ImageContent(media_type="image/png", data=base64.b64encode(drawn.getvalue()).decode()))


def from_image(image: Any) -> ImageContent:
    """A Pillow image as a PNG of at most LONGEST_SIDE; as a JPEG where that would be too large to send."""
    small = image.copy() if image.mode in {"1", "L", "LA", "RGB", "RGBA"} else image.convert("RGBA")
    small.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    made = io.BytesIO()
    small.save(made, "png")
    kind = "png"
    if made.tell() > LARGEST_PICTURE:
        made, kind = io.BytesIO(), "jpeg"
        small.convert("RGB").save(made, "jpeg")
    return ImageContent(media_type=f"image/{kind}", data=base64.b64encode(made.getvalue()).decode())


def _smaller(content: bytes) -> tuple[ImageContent | None, str]:
    pillow = import_module("PIL.Image")
    try:
        with pillow.open(io.BytesIO(content)) as image:
            return from_image(image), ""
    except Exception as error:  # noqa: BLE001  (a broken picture, or one that is a bomb)
        return None, f"it cannot be made smaller: {type(error).__name__}"
