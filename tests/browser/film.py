"""Pictures for the documentation: a notebook panel of one width, and frames of it as an animated picture."""

from __future__ import annotations

import io
from collections import Counter
from itertools import pairwise
from pathlib import Path

from PIL import Image, ImageChops
from playwright.sync_api import Locator

from browser.lab import Lab

WIDTH, HEIGHT = 900, 660
PANEL = ".jp-WindowedPanel-outer"

# A screenshot shows no pointer, so one is drawn where the mouse is. Nothing can be clicked through it by mistake.
POINTER = """
([x, y]) => {
  document.getElementById('film-pointer')?.remove();
  if (x === null) return;
  const pointer = document.createElement('div');
  pointer.id = 'film-pointer';
  pointer.style.cssText = `position: fixed; left: ${x}px; top: ${y}px; z-index: 99999; pointer-events: none;`;
  pointer.innerHTML = '<svg width="22" height="30" viewBox="0 0 22 30">'
    + '<path d="M1 1v22l5.5-5 3.5 9 4-1.6-3.6-8.8H18z" fill="black" stroke="white" stroke-width="1.5"/></svg>';
  document.body.append(pointer);
}
"""


def set_stage(lab: Lab, height: int = HEIGHT) -> None:
    """Show the notebook without the side bar, in a panel of WIDTH times `height` pixels."""
    page = lab.page
    page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
    size, panel = page.viewport_size, page.locator(PANEL).bounding_box()
    assert size
    assert panel
    page.set_viewport_size(
        {
            "width": size["width"] + WIDTH - round(panel["width"]),
            "height": size["height"] + height - round(panel["height"]),
        }
    )
    page.wait_for_function(
        "([panel, width]) => document.querySelector(panel).getBoundingClientRect().width === width", arg=[PANEL, WIDTH]
    )


class Film:
    """Frames of one notebook panel, taken when `take` is called and written by `save`."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._frames: list[tuple[Image.Image, int]] = []

    def take(self, seconds: float, *, end_of: int, pointer: Locator | None = None) -> None:
        """Add a frame that shows the end of cell `end_of`, and the mouse on `pointer`."""
        page = self._lab.page
        self._lab.cell(end_of).evaluate("cell => cell.scrollIntoView({block: 'end'})")
        position = [None, None]
        if pointer:
            pointer.hover()
            box = pointer.bounding_box()
            assert box
            position = [box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.6]
        page.evaluate(POINTER, position)
        picture = Image.open(io.BytesIO(page.locator(PANEL).screenshot())).convert("RGB")
        page.evaluate(POINTER, [None, None])
        self._frames.append((picture, round(seconds * 1000)))

    def save(self, path: Path) -> None:
        """Write the frames as a GIF that starts again at its end, with one palette for all of them."""
        pictures = [picture for picture, _ in self._frames]
        assert all(ImageChops.difference(*pair).getbbox() for pair in pairwise(pictures)), "two frames are the same"
        palette = palette_of(pictures)
        first, *rest = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
        durations = [duration for _, duration in self._frames]
        first.save(path, save_all=True, append_images=rest, duration=durations, loop=0, optimize=False)


def palette_of(pictures: list[Image.Image]) -> Image.Image:
    """Return an image with the palette of the 256 most frequent colors, so that plain areas keep theirs exactly."""
    counts: Counter[tuple[int, int, int]] = Counter()
    for picture in pictures:
        counts.update({color: number for number, color in picture.getcolors(picture.width * picture.height)})
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for color, _ in counts.most_common(256) for part in color])
    return palette
