"""How much of a tool's result reaches the model and the record, and where the whole of a longer one is kept.

Text: a tool that cuts its own output hands over the whole by `keep_whole`; `fitted` cuts what is still too long. While a call
runs: `CappedOutput` for a program's bytes, `PrintedTails` for what is left of an interrupted call. Pictures: `usable_pictures`.
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
"""Characters of a result that the model gets."""


def capped(text: str) -> str:
    """Cut the middle out of a long text, and say there how much is left out."""
    if len(text) <= MODEL_LIMIT:
        return text
    half = MODEL_LIMIT // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def closed(text: str) -> str:
    """End a result that holds what looks like a note of kin_nb with a line: only real notes end a message."""
    return f"{text}\n[end of the result]" if "[kin_nb:" in text else text


KEPT_UNTIL_REDACTED = FULL_OUTPUT_LIMIT + 65_536
"""Bytes that a tool keeps of a longer one: the cut is made in redacted text, so that it leaves no half of a secret."""


@dataclass(frozen=True)
class Whole:
    """All of an output, or its beginning and how many bytes came after that."""

    text: str = field(repr=False)
    more: int = 0


whole_output: ContextVar[Callable[[Whole], None] | None] = ContextVar("whole_output", default=None)
"""What keeps the whole of an output that the running call cuts; set by the executor for the call's own task."""


def keep_whole(text: str, more: int = 0) -> None:
    """Keep the whole `text` (and count the `more` bytes that followed) where a result gets less than that."""
    sink = whole_output.get()
    if sink is not None:
        rest = text[KEPT_UNTIL_REDACTED:]
        sink(Whole(text[:KEPT_UNTIL_REDACTED], more + len(rest.encode("utf-8", "surrogatepass"))))


class Fitted(NamedTuple):
    """`told`: to the model, without secrets. `recorded`: the same, redacted.

    `whole`: the file that has all of it, "" where there is none. `hint`: the last line of both, which says so then.
    """

    told: str
    recorded: str
    whole: str = ""
    hint: str = ""


def fits(text: str, whole: Whole | None) -> bool:
    """Whether nothing is cut: then `fitted` takes no time."""
    return whole is None and len(closed(text)) <= MODEL_LIMIT


def fitted(call_id: str, text: str, whole: Whole | None, recorder: TurnRecorder) -> Fitted:
    """Cut a result's text to what the model gets, and keep the whole of it. `whole`: what the tool itself has cut, if it did.

    Takes seconds for 10 MB, on any thread: a caller on the event loop's thread asks `fits` first.
    """
    hidden, redacted = recorder.without_secrets(text), recorder.redact(text)  # before the cut, which may halve a secret
    told, recorded = capped(closed(hidden)), capped(closed(redacted))
    if (fits(text, whole) and fits(redacted, whole)) or not recorder.saves_outputs:
        return Fitted(told, recorded)
    name = (
        recorder.save_output(redacted)
        if whole is None
        else recorder.save_output(recorder.redact(whole.text), whole.more)
    )
    if not name:
        return Fitted(told, recorded)
    said = note(recorder.session_id, call_id)
    return Fitted(f"{told}\n{said}", f"{recorded}\n{said}", name, said)


PRINTED_LIMIT = 40_000
"""Characters that are kept of one call, the newest."""


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
    """The newest output of running calls, by call id: the whole result of one that is interrupted."""

    def __init__(self) -> None:
        self._tails: defaultdict[str, _Tail] = defaultdict(_Tail)

    def add(self, call_id: str, text: str) -> None:
        self._tails[call_id].add(text)

    def take(self, call_id: str) -> str:
        """Return the call's output and forget it; "" for none."""
        tail = self._tails.pop(call_id, _Tail())
        text = "".join(tail.pieces).rstrip("\n")
        return f"[earlier output left out]\n{text}" if tail.cut else text


OUTPUT_LIMIT = 39_500
"""Most characters of output in a result: 40,000 reach the model, less the room for what is said about it."""


LIVE_LIMIT = 1_000_000
"""Most characters shown live: a command that prints for ever must not fill the kernel's memory."""


_BYTES_AS_LATIN_1 = {0xDC00 + byte: byte for byte in range(0x80, 0x100)}


class CappedOutput:
    """Bytes as they arrive, kept as text: the first and the last `limit` / 2 characters, and a count of the rest, of which
    the session may keep as much as it takes.

    UTF-8; a byte that is none reads as Latin-1. Each new piece goes to `emit` at once, up to LIVE_LIMIT characters.
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
        """Hand over all of it as `read` has it, where `text`, which comes first, leaves some out."""
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
"""What every provider that takes images takes."""
LARGEST_PICTURE = 5 * 1024 * 1024
"""Bytes of one picture."""
MOST_PICTURES = 8
"""Pictures of one result."""


def usable_pictures(images: Iterable[ImageContent]) -> tuple[list[ImageContent], list[str]]:
    """Return the pictures that the model gets, and a line for each that is left out and why."""
    kept: list[ImageContent] = []
    left_out = []
    for number, image in enumerate(images, 1):
        reason = f"more than {MOST_PICTURES} pictures" if len(kept) == MOST_PICTURES else _unusable(image)
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
    return f"it is larger than {LARGEST_PICTURE // 1024 // 1024} MB" if size > LARGEST_PICTURE else None
