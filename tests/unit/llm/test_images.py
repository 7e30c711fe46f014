"""Models that take no images, and what images count for in an estimate."""

from __future__ import annotations

import base64

from kin_nb.core.config import ModelConfig, ProviderConfig
from kin_nb.core.llm.adapters.encoding import IMAGE_TOKENS, TextView
from kin_nb.core.llm.backend.generic import GenericBackend
from kin_nb.core.messages import ImageContent, LLMMessage, Role
from tests.model_server import ModelServer

PICTURE = ImageContent(media_type="image/png", data=base64.b64encode(bytes(12 * 1024)).decode())
SHOWN = LLMMessage(role=Role.user, content="See:", images=[PICTURE])
LINE = "[image: image/png, 12 KB, not shown: devstral takes no images]"


def model(name: str = "devstral", *, images: bool = False) -> ModelConfig:
    return ModelConfig(name=name, provider="p", supports_images=images)


def test_a_model_without_eyes_reads_what_it_does_not_see() -> None:
    silent = LLMMessage(role=Role.user, images=[PICTURE, PICTURE])
    seen = TextView().of([SHOWN, silent], model())
    assert [m.content for m in seen] == [f"See:\n{LINE}", f"{LINE}\n{LINE}"]
    assert [m.images for m in seen] == [None, None]
    assert SHOWN.images == [PICTURE]


def test_others_get_the_messages_themselves() -> None:
    messages = [SHOWN]
    assert TextView().of(messages, model(images=True)) is messages
    without = LLMMessage(role=Role.user, content="x")
    assert TextView().of([without], model())[0] is without


def test_a_message_is_changed_once_for_a_model() -> None:
    view = TextView()
    first = view.of([SHOWN], model())[0]
    assert view.of([SHOWN], model())[0] is first
    assert "not shown: other takes" in view.of([SHOWN], model("other"))[0].content


def test_what_was_seen_of_other_messages_is_not_shown_again() -> None:
    view, words = TextView(), [LLMMessage(role=Role.user, content=word) for word in "ab"]
    view.of([words[0], SHOWN, words[1]], model())
    assert [m.content for m in view.of([words[1], SHOWN], model())] == ["b", f"See:\n{LINE}"]  # undone, and continued
    assert view.of([SHOWN], model(images=True)) == [SHOWN]
    assert [m.content for m in view.of([SHOWN, words[0]], model())] == [f"See:\n{LINE}", "a"]


async def test_the_backend_sends_the_line(model_server: ModelServer) -> None:
    model_server.enqueue("ok")
    async with GenericBackend(ProviderConfig(name="p", api_base=model_server.url)) as backend:
        await backend.complete(model=model(), messages=[SHOWN], temperature=0.0)
    assert model_server.requests[0]["messages"][0]["content"] == f"See:\n{LINE}"


async def test_an_image_counts_for_what_it_costs_not_for_its_bytes() -> None:
    backend = GenericBackend(ProviderConfig(name="p", api_base="http://127.0.0.1:9"))
    counted = await backend.count_tokens(model=model(images=True), messages=[SHOWN])
    assert IMAGE_TOKENS < counted < IMAGE_TOKENS + 200
    assert await backend.count_tokens(model=model(), messages=[SHOWN]) < 100
