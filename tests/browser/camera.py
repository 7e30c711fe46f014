"""Pictures of cells in both themes and two widths, and what a picture does not say: contrast, clipped text, labels."""

from __future__ import annotations

from pathlib import Path

from browser.lab import Lab

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
WIDE, NARROW = 1280, 700
HEIGHT = 1400

# WCAG 2.2: 1.4.3 contrast, 1.4.10 reflow, 4.1.2 names. `flaws(output)` gives a line for each thing that fails.
FLAWS = """
window.kinLook = {
  color(text) {
    const canvas = Object.assign(document.createElement('canvas'), {width: 1, height: 1});
    const context = canvas.getContext('2d', {willReadFrequently: true});
    context.fillStyle = text;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  },
  over(front, back) { return [0, 1, 2].map(i => front[i] * front[3] + back[i] * (1 - front[3])); },
  behind(element) {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(this.color(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((back, front) => this.over(front, back), [255, 255, 255]);
  },
  light(rgb) {
    const [r, g, b] = rgb.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  },
  contrast(element) {
    const back = this.behind(element);
    const pair = [this.light(this.over(this.color(getComputedStyle(element).color), back)), this.light(back)].sort();
    return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  },
  flaws(root) {
    const found = new Set(), texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode.textContent.trim(), element = texts.currentNode.parentElement;
      if (!text || !element.checkVisibility() || element.closest('mjx-container, style, :disabled')) continue;
      const contrast = this.contrast(element);
      if (contrast < 4.5) found.add(`contrast ${contrast.toFixed(2)}: ${text.slice(0, 60)}`);
    }
    for (const element of root.querySelectorAll('*')) {
      const style = getComputedStyle(element);
      if (element.checkVisibility() && element.clientWidth && style.overflowX !== 'visible' && !element.matches('input')
          && element.scrollWidth > element.clientWidth + 1)
        found.add(`clipped: ${element.tagName} ${element.className} ${element.textContent.trim().slice(0, 60)}`);
    }
    for (const control of root.querySelectorAll('button, input, textarea, select'))
      if (control.checkVisibility() && !control.textContent.trim() && !control.labels?.length && !control.ariaLabel)
        found.add(`no name: ${control.outerHTML.slice(0, 120)}`);
    return [...found];
  },
};
"""


class Camera:
    """`flaws`: what is wrong with what was pictured, each line beginning with the picture's name."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self._lab, self._folder = lab, folder
        self.flaws: list[str] = []
        lab.page.add_init_script(FLAWS)

    def take(self, name: str, cell: int, *, look: bool = True) -> None:
        """NAME-light.png, NAME-dark.png and NAME-narrow.png (light) of one cell, as it stands now. `look`: for flaws too."""
        for theme in ("dark", "light"):
            self.theme(theme)
            self._one(f"{name}-{theme}", cell, look=look)
        self.width(NARROW)
        self._one(f"{name}-narrow", cell, look=look)
        self.width(WIDE)

    def theme(self, theme: str) -> None:
        page = self._lab.page
        page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", THEMES[theme])
        wanted = "true" if theme == "light" else "false"
        page.wait_for_function("wanted => document.body.dataset.jpThemeLight === wanted", arg=wanted)
        page.locator("#jupyterlab-splash").wait_for(state="detached")

    def width(self, width: int) -> None:
        self._lab.page.set_viewport_size({"width": width, "height": HEIGHT})
        self._lab.page.wait_for_function("width => document.documentElement.clientWidth === width", arg=width)

    def _one(self, name: str, cell: int, *, look: bool) -> None:
        """In a window that is as high as the cell needs."""
        page, box = self._lab.page, self._lab.cell(cell).bounding_box()
        assert box
        page.set_viewport_size(
            {"width": page.viewport_size["width"], "height": max(HEIGHT, round(box["height"]) + 200)}
        )
        self._lab.cell(cell).scroll_into_view_if_needed()
        self._lab.screenshot(self._folder / f"{name}.png", cell)
        for output in self._lab.outputs(cell).all() if look else ():
            self.flaws += [f"{name}: {flaw}" for flaw in output.evaluate("output => kinLook.flaws(output)")]
