"""Truncate tool results for the model and the record, and store the full text of longer ones.

A tool that truncates its own output passes the full text to `keep_whole`; `fitted` truncates any text that is too long.
`CappedOutput` collects the bytes of a running program, `PrintedTails` the last output of running calls. Images: `usable_pictures`.
"""

from __future__ import annotations

import base64
import binascii
import codecs
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kin_nb.core.messages import ImageContent
from kin_nb.core.session.full_outputs import FULL_OUTPUT_LIMIT, note

if TYPE_CHECKING:
    from kin_nb.core.session.recorder import TurnRecorder


MODEL_LIMIT = 40_000
"""Characters of a result for the model."""


def capped(text: str) -> str:
    """Replace the middle of a long text by a line with the number of characters left out."""
    if len(text) <= MODEL_LIMIT:
        return text
    half = MODEL_LIMIT // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def closed(text: str) -> str:
    """Add a last line to a result that contains an imitated kin_nb note: only real notes may end a message."""
    return f"{text}\n[end of the result]" if "[kin_nb:" in text else text


KEPT_UNTIL_REDACTED = FULL_OUTPUT_LIMIT + 65_536
"""Bytes of a longer output that a tool keeps. The final cut is made after redaction, so that no half of a secret remains."""


@dataclass(frozen=True)
class Whole:
    """A full output, or its beginning and the number of bytes that followed."""

    text: str = field(repr=False)
    more: int = 0


whole_output: ContextVar[Callable[[Whole], None] | None] = ContextVar("whole_output", default=None)
"""The receiver of the full output that the running call truncates; set by the executor for the call's own task."""


def keep_whole(text: str, more: int = 0) -> None:
    """Store the full `text` of a truncated result. `more`: the number of bytes that followed it."""
    sink = whole_output.get()
    if sink is not None:
        rest = text[KEPT_UNTIL_REDACTED:]
        sink(Whole(text[:KEPT_UNTIL_REDACTED], more + len(rest.encode("utf-8", "surrogatepass"))))


class Fitted(NamedTuple):
    """A result's text. `shown`: for the model, without secrets. `recorded`: for the record, redacted.

    `whole`: the file with the full text, "" if nothing was cut. `hint`: the last line of both, which refers to that file.
    """

    shown: str
    recorded: str
    whole: str = ""
    hint: str = ""


def fits(text: str, whole: Whole | None) -> bool:
    """Whether nothing needs to be cut, so that `fitted` is fast."""
    return whole is None and len(closed(text)) <= MODEL_LIMIT


def fitted(call_id: str, text: str, whole: Whole | None, recorder: TurnRecorder) -> Fitted:
    """Truncate a result's text and store the full text. `whole`: the full output if the tool itself has truncated it.

    Takes seconds for 10 MB. On the event loop's thread, call it only if `fits`.
    """
    hidden, redacted = recorder.without_secrets(text), recorder.redact(text)  # before the cut, which may halve a secret
    shown, recorded = capped(closed(hidden)), capped(closed(redacted))
    if (fits(text, whole) and fits(redacted, whole)) or not recorder.saves_outputs:
        return Fitted(shown, recorded)
    name = (
        recorder.save_output(redacted)
        if whole is None
        else recorder.save_output(recorder.redact(whole.text), whole.more)
    )
    if not name:
        return Fitted(shown, recorded)
    hint = note(recorder.session_id, call_id)
    return Fitted(f"{shown}\n{hint}", f"{recorded}\n{hint}", name, hint)


PRINTED_LIMIT = 40_000
"""Characters kept of one call: the newest ones."""


@dataclass
class _Tail:
    pieces: deque[str] = field(default_factory=deque)
    size: int = 0
    cut: bool = False

    def add(self, text: str) -> None:
        self.cut = self.cut or len(text) > PRINTED_LIMIT
        self.pieces.append(text[-PRINTED_LIMIT:])
        self.size += len(self.pieces[-1])
        while self.size - len(self.pieces[0]) >= PRINTED_LIMIT:
            self.size -= len(self.pieces.popleft())
            self.cut = True


class PrintedTails:
    """The newest output of running calls, by call id. It is the result of a call that is interrupted."""

    def __init__(self) -> None:
        self._tails: defaultdict[str, _Tail] = defaultdict(_Tail)

    def add(self, call_id: str, text: str) -> None:
        self._tails[call_id].add(text)

    def take(self, call_id: str) -> str:
        """Remove and return the call's output; "" for none."""
        tail = self._tails.pop(call_id, _Tail())
        text = "".join(tail.pieces).rstrip("\n")
        return f"[earlier output left out]\n{text}" if tail.cut else text


OUTPUT_LIMIT = 39_500
"""Characters of output in a result: MODEL_LIMIT minus the space for notes."""


LIVE_LIMIT = 1_000_000
"""Characters shown live: a command that prints endlessly must not fill the kernel's memory."""


_BYTES_AS_LATIN_1 = {0xDC00 + byte: byte for byte in range(0x80, 0x100)}


class CappedOutput:
    """Collects bytes as text: the first and the last `limit` / 2 characters, and the number of characters in between.

    Bytes that are not UTF-8 are read as Latin-1. Each new piece goes to `emit` at once, up to LIVE_LIMIT characters. The session
    can store the full text (`keep_whole`).
    """

    def __init__(self, limit: int, emit: Callable[[str], None]) -> None:
        self._half, self._emit = limit // 2, emit
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._head = self._tail = ""
        self._length = 0
        self._pieces: list[str] = []
        self._kept = self._more = 0

    def add(self, chunk: bytes) -> bool:
        self._keep(self._decoder.decode(chunk), len(chunk))
        return False

    def text(self) -> str:
        self._keep(self._decoder.decode(b"", final=True), 0)
        marker = f"\n[… {self._left_out:,} characters left out …]\n" if self._left_out else ""
        return self._head + marker + self._tail

    def keep_whole(self, read: Callable[[str], str] = str) -> None:
        """Store the full text, converted by `read`, if `text` leaves some out. Call `text` first."""
        if self._left_out:
            keep_whole(read("".join(self._pieces)), self._more)

    @property
    def _left_out(self) -> int:
        return self._length - len(self._head) - len(self._tail)

    def _keep(self, text: str, size: int) -> None:
        text = text.translate(_BYTES_AS_LATIN_1)
        if text and self._length < LIVE_LIMIT:
            self._emit(text[: LIVE_LIMIT - self._length])
            if self._length + len(text) >= LIVE_LIMIT:
                self._emit(f"\n[… no more is shown live after {LIVE_LIMIT:,} characters …]\n")
        self._length += len(text)
        room = self._half - len(self._head)
        self._head += text[:room]
        self._tail = (self._tail + text[room:])[-self._half :]
        if self._kept < KEPT_UNTIL_REDACTED:
            self._pieces.append(text)
            self._kept += size
        else:
            self._more += size


MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Image formats that all providers with image input accept."""
LARGEST_PICTURE = 5 * 1024 * 1024
"""Bytes of one picture."""
MOST_PICTURES = 8
"""Pictures of one result."""


def usable_pictures(images: Iterable[ImageContent]) -> tuple[list[ImageContent], list[str]]:
    """Return the images for the model, and a line with the reason for each image that is left out."""
    kept: list[ImageContent] = []
    left_out = []
    for number, image in enumerate(images, 1):
        reason = f"the limit is {MOST_PICTURES} images" if len(kept) == MOST_PICTURES else _unusable(image)
        if reason:
            left_out.append(f"[image {number} ({image.media_type}) left out: {reason}]")
        else:
            kept.append(image)
    return kept, left_out


def _unusable(image: ImageContent) -> str | None:
    if image.media_type not in MEDIA_TYPES:
        return "models accept PNG, JPEG, GIF and WebP"
    try:
        size = len(base64.b64decode(image.data, validate=True))
    except (binascii.Error, ValueError):
        return "its data is not base64"
    return f"it is larger than {LARGEST_PICTURE // 1024 // 1024} MB" if size > LARGEST_PICTURE else None
