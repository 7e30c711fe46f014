"""What code prints and shows while it runs: kept for the model, and handed on to the card as it comes."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any

from kin_nb.core.tools.builtins.bash import OUTPUT_LIMIT, CappedOutput
from kin_nb.core.tools.images import MOST
from kin_nb.core.types import ImageContent

_PICTURES = ("image/png", "image/jpeg")
_EVERY = 0.05
"""Seconds between two pieces for the card."""
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class Printed:
    """Written on the main thread. `emit` is called on the loop's thread, in the context that this is made in."""

    def __init__(self, loop: asyncio.AbstractEventLoop, emit: Callable[[str], None]) -> None:
        self._loop, self._emit, self._context = loop, emit, copy_context()
        self._kept = CappedOutput(OUTPUT_LIMIT, self._to_the_card)
        self._waiting: list[str] = []
        self._due = False
        self.pictures: list[ImageContent] = []

    def write(self, text: str) -> None:
        self._kept.add(text.encode("utf-8", "replace"))

    def show(self, data: Mapping[str, Any]) -> None:
        """A MIME bundle that was displayed: its picture, or else its text."""
        if not self.take_picture(data) and isinstance(data.get("text/plain"), str):
            self.write(f"{data['text/plain']}\n")

    def take_picture(self, data: Mapping[str, Any]) -> bool:
        """Keep the picture of a MIME bundle, as far as the model can be sent more. False: there is none."""
        for media_type in _PICTURES:
            found = data.get(media_type)
            if isinstance(found, bytes | str) and found:
                if len(self.pictures) <= MOST:  # one too many, so that it is said
                    encoded = base64.b64encode(found).decode() if isinstance(found, bytes) else "".join(found.split())
                    self.pictures.append(ImageContent(media_type=media_type, data=encoded))
                return True
        return False

    def text(self) -> str:
        """All of it, as a terminal would show it: no colours, and of a line that was written over the last state."""
        text = self._kept.text()
        self._kept.keep_whole(plain)
        return plain(text)

    def flush(self) -> None:
        """On the loop's thread: what waits goes to the card now."""
        self._due = False
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._emit("".join(waiting))

    def _to_the_card(self, text: str) -> None:
        self._waiting.append(text)
        if not self._due:  # code that prints without end must not fill the loop
            self._due = True
            self._loop.call_soon_threadsafe(self._loop.call_later, _EVERY, self._flush_there)

    def _flush_there(self) -> None:
        self._context.run(self.flush)


def plain(text: str) -> str:
    lines = _ANSI.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line[line.rfind("\r", 0, -1) + 1 :] if "\r" in line else line for line in lines)
