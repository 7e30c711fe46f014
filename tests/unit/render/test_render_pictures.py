"""Pictures as displays of their own, and the line that says what went with a prompt."""

from __future__ import annotations

import base64
import struct
import zlib

from kin_nb.core.records import RecordedCall, RecordedImage, RecordedStep, TurnRecord
from kin_nb.render import render_attachments, render_images, render_turn
from kin_nb.render.images import image_size
from tests.table import each_row


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int) -> bytes:
    rows = b"".join(b"\0" + b"\0" * 3 * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


GIF = b"GIF89a" + struct.pack("<HH", 3, 2) + bytes(20)
EXIF = b"\xff\xe1" + struct.pack(">H", 1_000) + bytes(998)
TABLE = b"\xff\xc4" + struct.pack(">H", 4) + b"\xff\xc0"
JPEG = b"\xff\xd8" + EXIF + TABLE + b"\xff\xff\xc2" + struct.pack(">HBHH", 17, 8, 480, 640) + bytes(20)
LOSSY = b"RIFF\x00\x00\x00\x00WEBPVP8 " + bytes(4) + b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 640, 480 | 0x4000)
LOSSLESS = b"RIFF\x00\x00\x00\x00WEBPVP8L" + bytes(4) + b"\x2f" + struct.pack("<I", 639 | 479 << 14) + bytes(9)
EXTENDED = b"RIFF\x00\x00\x00\x00WEBPVP8X" + bytes(8) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")


@each_row(
    ("data", "found"),
    [
        (png(7, 5), ("image/png", 7, 5)),
        (GIF, ("image/gif", 3, 2)),
        (JPEG, ("image/jpeg", 640, 480)),
        (LOSSY, ("image/webp", 640, 480)),
        (LOSSLESS, ("image/webp", 640, 480)),
        (EXTENDED, ("image/webp", 640, 480)),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
        (b"RIFF\x00\x00\x00\x00WEBPnone" + bytes(30), None),
        (png(0, 5), None),
        (b"", None),
    ],
)
def test_the_size_is_read_from_the_first_bytes(data: bytes, found: tuple[str, int, int] | None) -> None:
    assert image_size(data) == found


@each_row("whole", [png(7, 5), GIF, JPEG, LOSSY, LOSSLESS, EXTENDED])
def test_a_torn_picture_has_no_size(whole: bytes) -> None:
    assert image_size(whole) is not None
    for length in range(30):
        assert image_size(whole[:length]) is None


def test_a_jpeg_that_lies_about_its_segments_ends_the_search() -> None:
    assert image_size(b"\xff\xd8" + b"\xff\xe0\x00\x00" * 50_000) is None
    assert image_size(b"\xff\xd8" + b"\xff" * 200_000) is None


def image(data: bytes, media_type: str = "image/png") -> RecordedImage:
    return RecordedImage(media_type=media_type, data=base64.b64encode(data).decode())


def call(number: int, *images: RecordedImage) -> RecordedCall:
    return RecordedCall(id=f"c{number}", name="bash", arguments="{}", status="ok", images=images)


def test_a_picture_is_its_data_and_a_line_that_says_whose_it_is() -> None:
    first, second = render_images(call(1, image(png(7, 5)), image(GIF)), turn=2, step=3)
    assert first.data == {
        "image/png": base64.b64encode(png(7, 5)).decode(),
        "text/plain": "[picture 1 of bash: image/png, 7 x 5]",
    }
    assert first.metadata == {"kin": {"kind": "image", "turn": 2, "step": 3, "id": "c1", "number": 1}}
    assert second.data["text/plain"] == "[picture 2 of bash: image/gif, 3 x 2]"
    assert "image/gif" in second.data


def test_its_bytes_say_what_a_picture_is_and_not_its_label() -> None:
    (output,) = render_images(call(1, image(GIF, "image/svg+xml")), turn=1, step=1)
    assert list(output.data) == ["image/gif", "text/plain"]


@each_row(
    "picture",
    [
        image(b"<svg onload='alert(1)'/>", "image/svg+xml"),
        image(b"<script>", "text/html"),
        image(b"x", "image/png\x1b\nfake"),
        RecordedImage(media_type="image/png", data="not base64!"),
        RecordedImage(media_type="image/png", data="é"),
        RecordedImage(media_type="image/png", data=""),
    ],
)
def test_what_is_no_picture_is_a_line_of_text(picture: RecordedImage) -> None:
    (output,) = render_images(call(1, picture), turn=1, step=1)
    assert list(output.data) == ["text/plain"]
    assert output.data["text/plain"].startswith("[picture 1 of bash: ")
    assert output.data["text/plain"].endswith(", not shown: not a PNG, JPEG, GIF or WebP]")
    assert not set(output.data["text/plain"]) & set("\x1b\n")


def test_pictures_stand_after_all_calls_of_their_step_in_call_order() -> None:
    step = RecordedStep(content="Look.", calls=(call(1, image(GIF)), call(2), call(3, image(GIF), image(GIF))))
    turn = TurnRecord(turn=1, prompt="p", steps=(step, step), images=(image(png(1, 1)),), attached=("a.png",))
    shown = [(o.metadata["kin"]["kind"], o.metadata["kin"].get("id")) for o in render_turn(turn)]
    of_a_step = [("reply", None), *(("call", f"c{n}") for n in (1, 2, 3)), *(("image", f"c{n}") for n in (1, 3, 3))]
    assert shown == [("sent", None), ("image", None), *of_a_step, *of_a_step, ("receipt", None)]
    assert render_turn(turn)[1].data["text/plain"] == "[picture 1 of the prompt: image/png, 1 x 1]"


def test_what_was_attached_is_one_line_before_everything_else() -> None:
    turn = TurnRecord(turn=4, prompt="p", attached=("df (3 columns, 1.2 KB)", "src/a.py"))
    (output,) = render_attachments(turn)
    assert render_turn(turn)[0] == output
    assert output.data["text/plain"] == "sent: df (3 columns, 1.2 KB), src/a.py"
    assert "<small>sent: df (3 columns, 1.2 KB), src/a.py</small>" in output.data["text/html"]
    assert output.metadata == {"kin": {"kind": "sent", "turn": 4}}
    assert render_attachments(TurnRecord(turn=1, prompt="p")) == []


def test_a_hundred_attachments_are_counted_and_a_label_stays_a_label() -> None:
    (output,) = render_attachments(TurnRecord(turn=1, prompt="p", attached=("<b>\n\u202e",) * 100))
    assert output.data["text/plain"].endswith(" and 80 others")
    assert "\n" not in output.data["text/plain"]
    assert "&lt;b&gt; ⏎ ⟨U+202E⟩" in output.data["text/html"]
