"""Pictures that a call gave the model, or that went with a prompt: each a display of its own."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any

from kin_nb.core.session.records import RecordedCall, RecordedImage, TurnRecord
from kin_nb.render.image_size import image_size
from kin_nb.render.output import Output
from kin_nb.render.text import one_line


def render_images(call: RecordedCall, *, turn: int, step: int) -> list[Output]:
    """They stand after all the calls of their step, in call order: while calls run, their places are taken."""
    return list(_drawn(call.images, one_line(call.name), turn=turn, step=step, id=one_line(call.id)))


def render_prompt_images(record: TurnRecord) -> list[Output]:
    return list(_drawn(record.images, "the prompt", turn=record.turn))


def _drawn(images: Iterable[RecordedImage], whose: str, **kin: Any) -> Iterator[Output]:
    """What is no picture of a kind that browsers draw and nothing runs in (SVG holds scripts) is a line of text."""
    for number, image in enumerate(images, 1):
        data = "".join(image.data.split())
        try:
            found = image_size(base64.b64decode(data, validate=True))
        except (binascii.Error, ValueError):
            found = None
        metadata = {"kin": {"kind": "image", **kin, "number": number}}
        if found is None:
            what = f"{one_line(image.media_type, 40)}, not shown: no PNG, JPEG, GIF or WebP"
            yield Output({"text/plain": f"[picture {number} of {whose}: {what}]"}, metadata)
        else:
            media_type, width, height = found
            text = f"[picture {number} of {whose}: {media_type}, {width} x {height}]"
            yield Output({media_type: data, "text/plain": text}, metadata)
