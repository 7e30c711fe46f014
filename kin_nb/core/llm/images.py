"""Images for models that take none: a line of text that says what is not shown."""

from __future__ import annotations

from kin_nb.core.config import ModelConfig
from kin_nb.core.llm.adapters.encoding import Sent
from kin_nb.core.messages import ImageContent, LLMMessage

IMAGE_TOKENS = 1_500
"""About what one image costs, whatever its size in bytes: servers scale larger ones down."""


class TextView:
    """The messages as a model may see them. Each is looked at once, and one that changes for it is then encoded once."""

    def __init__(self) -> None:
        self._seen: Sent[LLMMessage] = Sent()

    def of(self, messages: list[LLMMessage], model: ModelConfig) -> list[LLMMessage]:
        if model.supports_images:
            return messages
        new = messages[self._seen.keep(messages, model.name) :]
        self._seen.pieces += [without_images(m, model.name) if m.images else m for m in new]
        return self._seen.pieces[:]


def without_images(message: LLMMessage, model: str) -> LLMMessage:
    lines = [_line(image, model) for image in message.images or ()]
    return message.changed(content="\n".join([message.content, *lines] if message.content else lines), images=None)


def estimated_tokens(body: bytes, messages: list[LLMMessage]) -> int:
    """Of a request with these messages: four bytes to a token, and a flat figure for each image."""
    images = [image for message in messages for image in message.images or ()]
    return max(0, len(body) - sum(len(image.data) for image in images)) // 4 + IMAGE_TOKENS * len(images)


def _line(image: ImageContent, model: str) -> str:
    size = max(1, round(len(image.data) * 3 / 4 / 1024))
    return f"[image: {image.media_type}, {size} KB, not shown: {model} takes no images]"
