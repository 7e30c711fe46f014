"""What a person waits for in JupyterLab: clicks, words on screen, long replies, long sessions. Needs Chromium; minutes.

Budgets: a reply of 2,000 tokens at 200 a second is at most 250 ms behind, drawn at most 10 times a second, 150 KB on the
websocket; a reply of 50 KB never holds the page for 200 ms. A session of 100 turns is held against plain cells with the
same outputs. Arguments: which of `clicks streaming long_reply long_session`; all when none is named.
"""

from __future__ import annotations

import bisect
import itertools
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from browser.chromium import running_chromium  # noqa: E402
from browser.lab import Lab  # noqa: E402
from browser.probes import PROBES, LongTasks, PageSize, Traffic, long_tasks, size_of  # noqa: E402
from browser.servers import JupyterHome, jupyter_server  # noqa: E402

from benchmarks import shapes  # noqa: E402
from benchmarks.sizes import sized  # noqa: E402
from tests.model_server import ModelServer, tool_call  # noqa: E402

CLICKS = sized(40, 2)
FRAME = 16  # milliseconds: what changes within one is drawn once
LARGE = sized(50_000, 5_000)
TURNS = sized(100, 3)

PROSE = "The loader reads each file **once** and keeps what it has seen, so a second pass costs nothing. " * 4
CODE = "```python\ndef mean(values):\n    return sum(values) / len(values)  # of what is there\n```"
LIST = "".join(f"- an `item` of a list, the {n}th\n" for n in range(5))
TABLE = "| name | size | used |\n|---|---|---|\n" + "".join(f"| row {n} | {n * 7} | yes |\n" for n in range(60))
PART = f"## Part\n\n{PROSE}\n\n{CODE}\n\n{LIST}\n\n{PROSE}\n\n{TABLE}\n\n{CODE}\n\n"
ANSWER = f"{PROSE}\n\n{CODE}\n\n{LIST}\n\n{PROSE}"

Figures = Iterator[tuple[str, str, str]]
"""What, how much, and how much is wanted."""


def clicks(lab: Lab, server: ModelServer) -> Figures:
    """From a click on Approve to the first thing that the tool does: a command (needs bash 5), code in the notebook."""
    numbers = range(CLICKS)
    for tool, script in (
        ("bash", [{"command": f"echo $EPOCHREALTIME > bash-{n}"} for n in numbers]),
        ("python", [{"code": f"import time; open('python-{n}', 'w').write(str(time.time()))"} for n in numbers]),
    ):
        for arguments in script:
            server.enqueue(calls=[tool_call(tool, **arguments)])
        server.enqueue("Done.")
        open_with(lab, "%%kin\nGo.")
        lab.run_cell(1)
        for _ in numbers:
            approve(lab, 1)
        lab.wait_idle()
        clicked = lab.page.evaluate("probes.clicks")
        started = [float((lab.workspace / f"{tool}-{n}").read_text()) * 1000 for n in numbers]
        spent = [after - before for before, after in zip(clicked, started, strict=True)]
        yield f"click on Approve to {tool}'s start", milliseconds(spent), ""


def streaming(lab: Lab, server: ModelServer) -> Figures:
    """From when the server writes a token to when it is in the page's document, for each shape of a reply."""
    server.enqueue("Warm.")
    traffic = Traffic(lab.page)
    open_with(lab, "%%kin\nWarm up.", *["%%kin\nCount."] * len(shapes.SHAPES))
    lab.run_cell(1)
    lab.wait_idle()
    for cell, shape in enumerate(shapes.SHAPES, 2):
        name, text, written = shape.__name__, shape(), list[float]()
        ends = shapes.word_ends(text)
        server.enqueue(raw=shapes.paced(shapes.tokens(text), written))
        lab.page.evaluate("([cell, pattern]) => probes.watch(cell, pattern)", [cell, shapes.WORD])
        traffic.restart()
        lab.run_cell(cell)
        lab.wait_output(cell, list(ends)[-1], timeout=60)
        lab.wait_idle()
        changes = [(at, ends[word]) for at, word in lab.page.evaluate("probes.changes") if word in ends]
        newest_by_then = list(itertools.accumulate((newest for _, newest in changes), max))
        lags = [changes[bisect.bisect_left(newest_by_then, end)][0] - written[end] for end in ends.values()]
        times = [at for at, _ in changes]
        drawn = times[:1] + [at for before, at in itertools.pairwise(times) if at - before > FRAME]
        busiest = max(bisect.bisect_left(drawn, at + 1_000) - n for n, at in enumerate(drawn))
        size = f"{traffic.bytes / 1000:.0f} KB in {traffic.frames} messages"
        yield f"{name}: a word is behind on screen by", milliseconds(lags), "<= 250 ms"
        yield f"{name}: times it is drawn in any second", f"at most {busiest}", "<= 10"
        yield f"{name}: bytes on the websocket", size, "<= 150 KB"


def long_reply(lab: Lab, server: ModelServer) -> Figures:
    """What holds the page: the longest of its tasks."""
    server.enqueue((PART * (LARGE // len(PART) + 1))[:LARGE], chunk=50, delay=0.005)
    open_with(lab, "%%kin\nTell me everything.")
    with long_tasks(lab.page) as written:
        lab.run_cell(1)
        lab.wait_output(1, "1 model request", timeout=120)
        lab.wait_idle()
    lab.save()
    lab.page.evaluate("path => kin.panel(path).close()", lab.path)
    lab.page.wait_for_function("path => !kin.panel(path)", arg=lab.path)
    with long_tasks(lab.page) as opened:
        lab.page.evaluate("path => { jupyterapp.commands.execute('docmanager:open', { path }) }", lab.path)
        lab.page.wait_for_function("path => kin.ready(path)", arg=lab.path)
        lab.wait_output(1, "1 model request")
    yield "a 50 KB reply: longest task", longest(written), "<= 200 ms"
    yield "the same, its notebook opened again", longest(opened), "<= 200 ms"


def long_session(lab: Lab, server: ModelServer) -> Figures:
    """A cell for each turn: a call, approved where it asks, and an answer that is written in widgets."""
    (lab.workspace / "module.py").write_text("".join(f"def f{n}(x):\n    return x + {n}\n\n" for n in range(TURNS)))
    for n in range(TURNS):
        server.enqueue("I look.", calls=[mixed_call(n)], chunk=16)
        server.enqueue(ANSWER, chunk=16, delay=0.002)
    open_with(lab, *["%%kin\nGo on."] * TURNS, "len(get_ipython().kernel.comm_manager.comms)")
    before = size_of(lab.page)
    for cell in range(1, TURNS + 1):
        lab.run_cell(cell)
        lab.button("Approve", cell).or_(lab.outputs(cell).filter(has_text="2 model requests")).first.wait_for()
        if lab.button("Approve", cell).count():
            approve(lab, cell)
        lab.wait_output(cell, "2 model requests")
        lab.wait_idle()
    after = size_of(lab.page)
    lab.run_cell(TURNS + 1)
    lab.wait_idle()
    lab.save()
    yield f"a page before {TURNS} turns", in_words(before), ""
    yield "after them", in_words(after), ""
    yield "comms that are left", lab.output_text(TURNS + 1), ""
    yield "plain cells with the same outputs", in_words(plain_cells(lab)), ""
    yield "elements that a turn adds", f"{(after.elements - before.elements) / TURNS:.0f}", ""


def plain_cells(lab: Lab) -> PageSize:
    """A page after cells that display what the session's cells have displayed in the end."""
    read = "import nbformat\nfrom IPython.display import display\ncells = nbformat.read('session.ipynb', 4).cells"
    show = "for output in cells[{}].outputs:\n    display(dict(output.data), raw=True)"
    lab.open(lab.set_cells([read, *(show.format(n) for n in range(1, TURNS + 1))], "plain.ipynb"))
    for cell in range(TURNS + 1):
        lab.run_cell(cell)
        lab.wait_idle()
    return size_of(lab.page)


def mixed_call(n: int) -> dict[str, Any]:
    todos = [{"id": f"{part}", "content": f"part {part}", "status": "pending"} for part in range(5)]
    calls = [
        tool_call("read_file", path="module.py", limit=40),
        tool_call("bash", command=f"seq {n} {n + 40}"),
        tool_call("edit_file", path="module.py", old_string=f"x + {n}\n", new_string=f"x - {n}\n"),
        tool_call("python", code=f"turn_{n} = [number**2 for number in range({n})]\nturn_{n}[-3:]"),
        tool_call("todo", action="write", todos=todos),
    ]
    return calls[n % len(calls)]


def open_with(lab: Lab, *cells: str) -> None:
    lab.open(lab.set_cells(["%load_ext kin_nb", *cells]))
    lab.run_cell(0)
    lab.wait_idle()


def approve(lab: Lab, cell: int) -> None:
    """Click, and wait till that card is gone: the next one may be there already."""
    button = lab.button("Approve", cell)
    button.wait_for()
    this_one = button.element_handle()
    this_one.click()
    this_one.wait_for_element_state("hidden")


def milliseconds(values: list[float]) -> str:
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return f"p50 {cuts[9]:.0f} ms, p95 {cuts[18]:.0f} ms, worst {max(values):.0f} ms"


def longest(tasks: LongTasks) -> str:
    """On a machine that does other things too a task lasts longer than it computes."""
    return f"{max(tasks.lasted, default=0):.0f} ms, {tasks.cpu:.0f} ms of CPU ({len(tasks.lasted)} over 50 ms)"


def in_words(size: PageSize) -> str:
    return f"{size.heap / 1e6:.0f} MB of objects, {size.nodes:,} nodes, {size.elements:,} elements"


def main() -> None:
    measures = {measure.__name__: measure for measure in (clicks, streaming, long_reply, long_session)}
    with tempfile.TemporaryDirectory() as folder, ModelServer.start() as model, running_chromium() as chromium:
        home = JupyterHome(Path(folder))
        home.create()
        (home.kin_home / "config.toml").write_text(model.config_toml())
        with jupyter_server("lab", home) as server:
            for name in [argument for argument in sys.argv[1:] if argument != "--small"] or measures:
                workspace = home.notebooks / name
                workspace.mkdir()
                with chromium.new_context(viewport={"width": 1280, "height": 1000}) as context:
                    lab = Lab(context.new_page(), server, workspace)
                    lab.page.add_init_script(PROBES)
                    for what, measured, wanted in measures[name](lab, model):
                        print(f"{what:<46} {measured:<50} {wanted}".rstrip(), flush=True)
                server.shut_down_kernels()
        assert not model.violations, model.violations


if __name__ == "__main__":
    main()
