"""Pictures in tool results: which of them the model gets."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from kin_nb.core.messages import ImageContent

MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What every provider that takes images takes."""
LARGEST = 5 * 1024 * 1024
"""Bytes of one picture."""
MOST = 8
"""Pictures of one result."""


def usable(images: Iterable[ImageContent]) -> tuple[list[ImageContent], list[str]]:
    """(the pictures to send, a line for each that is left out and why)."""
    kept: list[ImageContent] = []
    left_out = []
    for number, image in enumerate(images, 1):
        reason = f"more than {MOST} pictures" if len(kept) == MOST else _unusable(image)
        if reason:
            left_out.append(f"[picture {number} ({image.media_type}) left out: {reason}]")
        else:
            kept.append(image)
    return kept, left_out


def _unusable(image: ImageContent) -> str | None:
    if image.media_type not in MEDIA_TYPES:
        return "models take PNG, JPEG, GIF and WebP"
    try:
        size = len(base64.b64decode(image.data, validate=True))
    except (binascii.Error, ValueError):
        return "its data is not base64"
    return f"it is larger than {LARGEST // 1024 // 1024} MB" if size > LARGEST else None
