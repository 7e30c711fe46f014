"""How the time of functions that read long or hostile text grows with its length: text eight times as long, at most 32
times the CPU time (linear: 8, quadratic: 64; the margin is wide because clocks and caches are not exact).

Ends with exit code 1 when one of them grows faster. `--small`: run each once on short text, without a verdict.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from nbformat.v4 import new_code_cell, new_notebook

from benchmarks.sizes import SMALL
from kin_nb.core.autocompletion.completers import fuzzy_match
from kin_nb.core.autocompletion.path_prompt import path_mentions
from kin_nb.core.context.call_signatures import text_similarity
from kin_nb.core.context.loop_detector import LoopDetector
from kin_nb.core.gitignore import Patterns
from kin_nb.core.redaction import Redactor
from kin_nb.core.safety.shell.classification import UnprovenError
from kin_nb.core.safety.shell.read_only.plain_line import tokens
from kin_nb.core.skills.flows import FlowError, read_flow
from kin_nb.notebook.namespace.captured_output import terminal_text
from kin_nb.replay.rerun.patterns import Pattern
from kin_nb.replay.rerun.rules import built_in_rules
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.markup import clean_markup
from kin_nb.replay.saving.user_cells import drop_unplayable
from tests.unit.replay.sessions import recording, turn

LONGER = 8
MOST = 32
"""The most that the time may grow when the text is `LONGER` times as long."""
ENOUGH = 0.02
"""Seconds of the shorter run: below that the clock decides."""
START = 20_000
LONGEST = 4_000_000
LONGEST_DIAGRAM = 250_000
"""Longer skills are refused."""

Read = Callable[[str], object]
Case = tuple[str, str, Read]
"""What is measured, the piece that its text repeats, and the function that reads the text."""

SHELL_PIECES = ("a", "a ", "\\\n", "'", '"', "$(", "${", "(", "a\n", '"a"', "#", "\n#", '"$(a)"', "0>", "$")
MARKUP_PIECES = ("<a ", '<a b="', "<a b='\"", "<", "<!--", "<script>", "<a =", "</", "&lt;p q=&quot;", "&#3")
OUTPUT_PIECES = ("x", "x\r", "\r", "\n", "\x1b[", "\r\n")
SECRET_PIECES = ("sk-", "eyJ", "bearer ", "://a:", "-----BEGIN PRIVATE KEY-----", "/home/ada/x.py: ok\n", "a")
DRIFT_PIECES = (
    "1",
    "1 passed, ",
    "=",
    " ",
    "/pytest-of-a",
    " at 0x7f01",
    '  File "a", line 1, in f\n    x\n',
    "[",
    "test ",
)
FLOW_PIECES = ('A["', "A[", "- ", "%%", "|", "{", '"', "A -- ", "[(", "\\", "<br", "#a", "'")
CELL_PIECES = (" %kin", "%kin a\n\n", "\n")
SESSION = recording(turn(1, "a"))
RULES = built_in_rules()


def read_shell(text: str) -> None:
    with contextlib.suppress(UnprovenError):
        tokens(text)


def compare_drift(text: str) -> None:
    for rule in RULES:
        Pattern(rule.pattern, rule.compare).apply((text, text))


def cell_with_commands(text: str) -> None:
    drop_unplayable(new_notebook(cells=[new_code_cell(f"%kin a{text}\nx", id="c")]), SESSION)


def saved_cell(text: str) -> None:
    cell = new_code_cell(text, id="long", execution_count=1)
    session_notebook(SESSION, source_nb=new_notebook(cells=[cell]))


def loop_calls(text: str) -> None:
    detector = LoopDetector()
    for number in range(len(text) // 100):
        detector.observe("bash", json.dumps({"command": f"run {number} {number % 7}"}), text[:2_000], ok=True)


def loop_text(text: str) -> None:
    detector = LoopDetector()
    for start in range(0, len(text), 4):
        detector.observe_text(text[start : start + 4])


def diagram_in(folder: Path) -> Read:
    def read(text: str) -> None:
        path = folder / "SKILL.md"
        path.write_text(f"---\nname: f\ndescription: d\ntype: flow\n---\n```mermaid\nflowchart TD\n{text}\n```\n")
        with contextlib.suppress(FlowError):
            read_flow(path)

    return read


def cases(folder: Path) -> Iterator[Case]:
    yield "fuzzy match", "a", lambda text: fuzzy_match("a" * 60 + "b", text)
    yield "ignore rule", "a/", lambda text: Patterns("**/a/" * 30 + "b\n").decide(text)
    yield "mentions in a prompt", '@, @"x ', lambda text: path_mentions(f"{text} @a.py", folder)
    yield "similar texts", "ab", lambda text: text_similarity(text, text[1:] + "c")
    yield "repeated words in a reply", "12, 13 and 14 are done. Then 15. ", loop_text
    yield "many different calls", "result ", loop_calls
    yield "a cell that is saved", "%load_ext kin_nb\n!ls\n", saved_cell
    redact = Redactor([f"secret-value-{n}" for n in range(30)], folder, folder.parent).text
    for name, pieces, read in (
        ("shell line", SHELL_PIECES, read_shell),
        ("markup", MARKUP_PIECES, lambda text: clean_markup(f"&amp;{text}", lambda page: page)),
        ("printed output", OUTPUT_PIECES, terminal_text),
        ("redaction", SECRET_PIECES, redact),
        ("drift rules", DRIFT_PIECES, compare_drift),
        ("flow diagram", FLOW_PIECES, diagram_in(folder)),
        ("cell with commands", CELL_PIECES, cell_with_commands),
    ):
        for piece in pieces:
            yield name, piece, read


def seconds(read: Read, text: str) -> float:
    """CPU time, without the garbage collector, which looks through all that earlier measurements left."""
    gc.collect()
    gc.disable()
    try:
        started = time.process_time()
        read(text)
        return time.process_time() - started
    finally:
        gc.enable()


def grown(piece: str, read: Read, longest: int) -> tuple[int, float, float]:
    """Find the first length that takes long enough to be measured; its seconds, and the growth for the longer text."""
    length = START
    while True:
        short, long = (piece * (size // len(piece)) for size in (length, LONGER * length))
        spent = min(seconds(read, short) for _ in range(3))
        if spent > ENOUGH or 2 * LONGER * length > longest:
            return length, spent, min(seconds(read, long) for _ in range(2)) / max(spent, ENOUGH)
        length *= 2


def main() -> int:
    too_fast = 0
    with tempfile.TemporaryDirectory() as temporary:
        for name, piece, read in cases(Path(temporary).resolve()):
            if SMALL:
                read(piece * (2_000 // len(piece)))
                continue
            length, spent, times = grown(piece, read, LONGEST_DIAGRAM if name == "flow diagram" else LONGEST)
            too_fast += times > MOST
            verdict = f"MORE THAN {MOST}" if times > MOST else ""
            print(
                f"{name:<28} {piece!r:<34} {length:>9,} characters {spent:.3f} s, x {times:4.1f} {verdict}".rstrip(),
                flush=True,
            )
    return 1 if too_fast else 0


if __name__ == "__main__":
    sys.exit(main())
