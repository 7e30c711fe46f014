"""What a page is watched with: the figures of benchmarks/browser.py, and the tests that hold their structure.

Times are milliseconds since the epoch, as the page's performance.timeOrigin + performance.now() tell them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Page

# `changes`: at each change of a cell's outputs, the time and the last text in them that the pattern matches, or "".
PROBES = """
window.probes = {
  clicks: [], longTasks: [], changes: [],
  now() { return performance.timeOrigin + performance.now(); },
  watch(cell, pattern) {
    this.observer?.disconnect();
    this.changes = [];
    const area = document.querySelectorAll('.jp-Notebook .jp-Cell')[cell].querySelector('.jp-Cell-outputWrapper');
    const newest = new RegExp(pattern, 'g');
    const look = () => this.changes.push([this.now(), [...area.textContent.matchAll(newest)].pop()?.[0] ?? '']);
    this.observer = new MutationObserver(look);
    this.observer.observe(area, { childList: true, subtree: true, characterData: true });
  },
};
document.addEventListener('click', event => {
  if (event.target.closest('button')) window.probes.clicks.push(window.probes.now());
}, true);
new PerformanceObserver(list => window.probes.longTasks.push(...list.getEntries().map(task => task.duration)))
  .observe({ type: 'longtask' });
"""


@dataclass(frozen=True)
class PageSize:
    """`heap`: bytes of JavaScript objects. `nodes`: DOM nodes that are alive, also those that are in no document."""

    heap: int
    nodes: int
    elements: int


class Traffic:
    """Bytes that a page hears on its websockets, from when this is made: before the page is opened."""

    def __init__(self, page: Page) -> None:
        self.bytes = self.frames = 0
        page.on("websocket", lambda socket: socket.on("framereceived", self._count))

    def restart(self) -> None:
        self.bytes = self.frames = 0

    def _count(self, payload: str | bytes) -> None:
        self.frames += 1
        self.bytes += len(payload if isinstance(payload, bytes) else payload.encode())


def size_of(page: Page) -> PageSize:
    """After its garbage is collected."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    session.send("HeapProfiler.collectGarbage")
    metrics = {metric["name"]: int(metric["value"]) for metric in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    elements = page.evaluate("document.querySelectorAll('*').length")
    return PageSize(metrics["JSHeapUsedSize"], metrics["Nodes"], elements)


@dataclass
class LongTasks:
    """Milliseconds. `lasted`: each task over 50, as a person has to wait for it; `cpu`: what the most costly one computed."""

    lasted: list[float] = field(default_factory=list)
    cpu: float = 0.0


@contextmanager
def long_tasks(page: Page) -> Iterator[LongTasks]:
    """The tasks of a page's main thread while the block runs, known once it has ended. The page has PROBES."""
    found, browser = LongTasks(), page.context.browser
    assert browser is not None
    page.evaluate("probes.longTasks = []")
    browser.start_tracing(page=page, categories=["toplevel"])
    try:
        yield found
        found.lasted = page.evaluate("probes.longTasks")
    finally:
        found.cpu = _most_costly(json.loads(browser.stop_tracing())["traceEvents"])


def _most_costly(events: list[dict[str, Any]]) -> float:
    """Trace events give microseconds; `tdur` is the thread's own time."""
    named = [event for event in events if event.get("name") == "thread_name"]
    main = {(event["pid"], event["tid"]) for event in named if event["args"]["name"] == "CrRendererMain"}
    return max((event.get("tdur", 0) for event in events if (event["pid"], event["tid"]) in main), default=0) / 1000
