"""ResponseBuilder: merge the deltas of a reply into one message. Servers omit, repeat or share indices and ids."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from kin_nb.core.bounded_json import read_json
from kin_nb.core.messages import FunctionCall, LLMChunk, LLMMessage, LLMUsage, Role, ToolCall
from kin_nb.core.records import CallOrigin

_PORTABLE_ID = re.compile(r"[A-Za-z0-9]{9}")  # what the strictest server (Mistral) takes
DETAILS = "reasoning_details"
_JOINED = frozenset({"text", "data", "summary"})
_DEEPEST = 20  # objects in one another whose deltas are merged


def is_portable(call_id: str) -> bool:
    """Whether every server takes this tool-call id in a history: nine ASCII letters and digits."""
    return _PORTABLE_ID.fullmatch(call_id) is not None


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    origin: CallOrigin = field(default_factory=CallOrigin)
    fields: list[dict[str, Any]] = field(default_factory=list)
    """The unknown fields of each delta."""
    minted: str = field(default_factory=lambda: uuid.uuid4().hex[:9])

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def add_origin(self, origin: CallOrigin) -> None:
        """What is known of the server, and more of the fields: each may come in a delta of its own."""
        known = self.origin
        self.origin = CallOrigin(
            provider=known.provider or origin.provider,
            address=known.address or origin.address,
            model=known.model or origin.model,
            id=known.id or origin.id,
        )
        self.fields.append(origin.fields)

    def is_over(self, delta: ToolCall) -> bool:
        """True when `delta` begins another call, though its index or id says that it belongs to this one."""
        name, arguments = delta.function.name, delta.function.arguments
        if not name or not self.name:
            return False
        if name != self.name or (delta.id and self.id and delta.id != self.id):
            return True
        return bool(arguments and arguments.strip() and self._complete())

    def _complete(self) -> bool:
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        try:
            read_json(self.arguments)
        except ValueError:
            return False
        return True


class ResponseBuilder:
    """Collects the chunks of one reply; `message`, `usage` and `finish_reason` say what there is so far.

    Tool calls get unique ids of nine letters and digits, which every server accepts in a history: the server's own
    where they are that, new ones otherwise, with the server's in their `origin`. `known_ids`: ids that the history has
    already, the servers' among them: another call's are to be avoided.
    """

    def __init__(self, known_ids: Container[str] = frozenset()) -> None:
        self.usage: LLMUsage | None = None
        self.finish_reason: str | None = None
        self._known_ids = known_ids
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._blocks: dict[int, dict[str, list[Any]]] = {}
        self._origins: list[CallOrigin] = []
        """What came with the reply as a whole, of each delta."""

    def add(self, chunk: LLMChunk) -> None:
        message = chunk.message
        if message.content:
            self._content.append(message.content)
        if message.reasoning_content:
            self._reasoning.append(message.reasoning_content)
        for delta in message.tool_calls or ():
            self._add_call(delta)
        for piece in message.reasoning_blocks or ():
            self._add_block(piece)
        if message.origin is not None:
            self._origins.append(message.origin)
        self.usage = merge_usage(self.usage, chunk.usage)
        if chunk.finish_reason:
            self.finish_reason = chunk.finish_reason

    @property
    def message(self) -> LLMMessage:
        """Content is "" when there is none; arguments are as the model wrote them, "{}" when it wrote nothing."""
        calls = self._tool_calls()
        return LLMMessage(
            role=Role.assistant,
            content=_joined(self._content),
            reasoning_content=_joined(self._reasoning) or None,
            tool_calls=calls or None,
            reasoning_blocks=self._reasoning_blocks(),
            origin=self._own_origin(calls),
        )

    def _own_origin(self, calls: list[ToolCall]) -> CallOrigin | None:
        """What is to be sent back with the reply; calls in it are named as they will be."""
        if not self._origins:
            return None
        deltas = [origin.fields for origin in self._origins]
        fields = _merged([{key: delta[key] for key in delta if key != DETAILS} for delta in deltas])
        pieces = [piece for delta in deltas if isinstance(delta.get(DETAILS), list) for piece in delta[DETAILS]]
        if pieces:
            pairs = zip(self._calls, calls, strict=True)
            names = {own.id: call.id for own, call in pairs if own.id and not (call.origin and call.origin.id)}
            fields[DETAILS] = [_renamed(piece, names) for piece in _merged_details(pieces)]
        fields = {name: value for name, value in fields.items() if _is_json(value)}
        return self._origins[0].model_copy(update={"fields": fields}) if fields else None

    def _add_block(self, piece: dict[str, Any]) -> None:
        """Pieces with one `index` are one block: texts are joined, of `type` the first counts. Without, it is whole."""
        index = piece.get("index")
        block = self._blocks.setdefault(index if isinstance(index, int) else -1 - len(self._blocks), {})
        for key, value in piece.items():
            if key != "index" and not (key == "type" and key in block):
                block.setdefault(key, []).append(value)

    def _reasoning_blocks(self) -> list[dict[str, Any]] | None:
        """Return the blocks; None if they only mark the positions of text and calls."""
        blocks = [{key: _whole(values) for key, values in block.items()} for block in self._blocks.values()]
        return blocks if any(block.keys() - {"type", "text"} for block in blocks) else None

    def _add_call(self, delta: ToolCall) -> None:
        call = self._find(delta)
        if call is None or call.is_over(delta):
            call = _Call()
            self._calls.append(call)
        if delta.index is not None:
            self._by_index[delta.index] = call
        call.id = call.id or delta.id or ""
        call.name = call.name or delta.function.name or ""
        if delta.function.arguments:
            call.pieces.append(delta.function.arguments)
        if delta.origin is not None:
            call.add_origin(delta.origin)

    def _find(self, delta: ToolCall) -> _Call | None:
        if delta.index is not None:
            return self._by_index.get(delta.index)
        same_id = next((c for c in reversed(self._calls) if delta.id and c.id == delta.id), None)
        if same_id or not self._calls or (delta.id and delta.function.name):
            return same_id
        return self._calls[-1]

    def _tool_calls(self) -> list[ToolCall]:
        used: set[str] = set()
        calls = []
        for index, call in enumerate(self._calls):
            fits = is_portable(call.id) and call.id not in used and call.id not in self._known_ids
            identity = call.id if fits else call.minted
            used.add(identity)
            origin = self._origin(call, used)
            function = FunctionCall(name=_joined([call.name]), arguments=_joined(call.pieces).strip() or "{}")
            calls.append(ToolCall(id=identity, index=index, function=function, origin=origin))
        return calls

    def _origin(self, call: _Call, used: set[str]) -> CallOrigin | None:
        """What is to be sent back with the call, None when there is nothing. Adds the server's own id to `used`."""
        own = call.origin.id or call.id
        own = "" if own in used or own in self._known_ids else own
        used.add(own)
        fields = {name: value for name, value in _merged(call.fields).items() if _is_json(value)}
        return call.origin.model_copy(update={"id": own, "fields": fields}) if own or fields else None


def _merged(deltas: list[dict[str, Any]], *, joined: bool = False, depth: int = 0) -> dict[str, Any]:
    """Deltas of unknown fields: objects by their keys, of others the last value that is one.

    `joined`: texts may come in pieces. They may in extra_content, and where the name speaks of a signature.
    """
    all_values: dict[str, list[Any]] = {}
    for delta in deltas:
        for key, value in delta.items():
            if value is not None and not (isinstance(value, float) and not math.isfinite(value)):
                all_values.setdefault(key, []).append(value)
    merged: dict[str, Any] = {}
    for key, values in all_values.items():
        pieces = joined or key == "extra_content" or "signature" in key.lower()
        if all(isinstance(value, dict) for value in values) and depth < _DEEPEST:
            merged[key] = _merged(values, joined=pieces, depth=depth + 1)
        elif pieces and all(isinstance(value, str) for value in values):
            merged[key] = _text_of(values)
        else:
            merged[key] = values[-1]
    return merged


def _merged_details(pieces: list[Any]) -> list[Any]:
    """OpenRouter's pieces as the parts that they are of, in the order in which those began.

    Pieces of one `type` and `index` are one part, unless their `id`s differ: texts, data and summaries are joined, a
    signature comes once. A piece without an index is a part.
    """
    parts: list[Any] = []
    open_parts: dict[tuple[Any, int], list[dict[str, Any]]] = {}
    for piece in pieces:
        index = piece.get("index") if isinstance(piece, dict) else None
        if not isinstance(index, int):
            parts.append(piece)
            continue
        key = (str(piece.get("type")), index)
        begun = open_parts.get(key)
        ids = {each["id"] for each in [*(begun or ()), piece] if each.get("id")}
        if begun is None or len(ids) > 1:
            begun = open_parts[key] = []
            parts.append(begun)
        begun.append(piece)
    return [_part(part) if isinstance(part, list) else part for part in parts]


def _part(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    part = _merged(pieces)
    for key in _JOINED & part.keys():
        texts = [piece[key] for piece in pieces if isinstance(piece.get(key), str)]
        part[key] = "".join(texts) if key == "text" else _text_of(texts)
    return part


def _renamed(piece: Any, names: dict[str, str | None]) -> Any:
    return {**piece, "id": names[piece["id"]]} if isinstance(piece, dict) and piece.get("id") in names else piece


def _text_of(pieces: list[str]) -> str:
    """Joined, unless each delta sends the whole text, or the last one repeats what the others were pieces of.

    Known servers send a signature whole and once; this is for those that do otherwise.
    """
    last, before = pieces[-1], pieces[:-1]
    return last if set(before) <= {last} or "".join(before) == last else "".join(pieces)


def _is_json(value: Any) -> bool:
    """Whether any server could read it: no NaN, no endless nesting."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True


def merge_usage(before: LLMUsage | None, now: LLMUsage | None) -> LLMUsage | None:
    """Merge two usages of one reply: the larger figures count.

    Servers repeat a running total, or send the tokens of the prompt first and those of the reply last.
    """
    if before is None or now is None:
        return now or before
    return LLMUsage(
        prompt_tokens=max(before.prompt_tokens, now.prompt_tokens),
        completion_tokens=max(before.completion_tokens, now.completion_tokens),
    )


def _whole(values: list[Any]) -> Any:
    return _joined(values) if all(isinstance(value, str) for value in values) else values[-1]


def _joined(pieces: list[str]) -> str:
    """The text; a character whose two halves came apart is whole again, and half a character becomes U+FFFD."""
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
