"""Images for models that take none: a line of text that says what is not shown."""

from __future__ import annotations

from operator import attrgetter

from kin_nb.core.config import ModelConfig
from kin_nb.core.types import ImageContent, LLMMessage

IMAGE_TOKENS = 1_500
"""About what one image costs, whatever its size in bytes: servers scale larger ones down."""
_IMAGES = attrgetter("images")


class TextView:
    """The messages as a model may see them. A message that changes for it does so once: it is then encoded once."""

    def __init__(self) -> None:
        self._model = ""
        self._changed: dict[int, tuple[LLMMessage, LLMMessage]] = {}

    def of(self, messages: list[LLMMessage], model: ModelConfig) -> list[LLMMessage]:
        if model.supports_images or not any(map(_IMAGES, messages)):
            return messages
        known = self._changed if model.name == self._model else {}
        # By identity: comparing images is slower than the copy. The message is kept, so that its id stays its own.
        self._changed = {id(m): known.get(id(m)) or (m, without_images(m, model.name)) for m in messages if m.images}
        self._model = model.name
        return [self._changed[id(m)][1] if m.images else m for m in messages]


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
