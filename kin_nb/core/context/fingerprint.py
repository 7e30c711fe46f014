"""What of a message its conversation's fingerprint is taken over: what was said, wherever and whenever it was said."""

from __future__ import annotations

from collections.abc import Callable

from kin_nb.core.messages import LLMMessage
from kin_nb.core.records import canonical_json, sha256, without_hint
from kin_nb.core.redaction import redact_json


def fingerprinted(message: LLMMessage, redact: Callable[[str], str]) -> bytes:
    """One line of canonical JSON."""
    calls = [[c.id, c.function.name, redact_json(c.function.arguments or "", redact)] for c in message.tool_calls or ()]
    said: dict[str, object] = {
        "role": message.role,
        "content": without_hint(redact(message.content or ""), redact(message.hint)),  # it names a session
        "calls": calls,
        "of": message.tool_call_id,
    }
    if message.images:
        said["images"] = [sha256(image.data) for image in message.images]
    return canonical_json(said).encode() + b"\n"
