"""Session notebooks: reading, writing and playing a long session, against what nbformat and empty cells cost by themselves.

Budgets: reading and writing 1.5 x nbformat's own for the same file, linear to 10,000 messages; records 1.3 x the JSON of their
messages; resuming 10,000 messages from the log 0.5 s; playback of 400 turns 5 ms a turn over empty cells. Seconds are of
CPU; playback's are the kernel's.

What a record has besides its message is nearly the same for each: hashes (`sha`, `fingerprint`, `key`), the ids of 16 records
before it, the decision, the time and what files were. So the figure is one of how long messages are: 1.40 for the 400 bytes
of these, which is more than the budget (1.28 without those ids), less for longer ones.

    python -m benchmarks.session_notebook
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "kernel")]

import nbformat  # noqa: E402

from benchmarks.sizes import sized  # noqa: E402
from kin_nb.core.context.history import messages_of_step, user_message  # noqa: E402
from kin_nb.core.records import FileChange, RecordedCall, RecordedDecision, RecordedStep, TurnRecord  # noqa: E402
from kin_nb.core.session.lineage import with_ids  # noqa: E402
from kin_nb.replay.cell_keys import cell_key  # noqa: E402
from kin_nb.replay.format.notebook_codec import read_recording  # noqa: E402
from kin_nb.replay.format.notebook_reader import load_notebook  # noqa: E402
from kin_nb.replay.recording import Recording, SessionMeta  # noqa: E402
from kin_nb.replay.saving.build import session_notebook  # noqa: E402
from kin_nb.replay.saving.writing import write_notebook  # noqa: E402

STEPS = 5
"""A turn: its prompt, and for each step but the last a reply with a call and its result: 10 messages."""
OUTPUT = "".join(f"line {n} of what the command printed, as commands do\n" for n in range(12))
PATCH = "--- a/src/module.py\n+++ b/src/module.py\n@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+b = 3\n c = 4\n"


def session(turns: int) -> Recording:
    meta = SessionMeta(session="benchmark", kin_nb="0", model="m")
    return Recording(meta, tuple(with_ids((_turn(number) for number in range(1, turns + 1)), meta.session)))


def _turn(number: int) -> TurnRecord:
    steps = tuple(_step(number, n) for n in range(1, STEPS))
    last = RecordedStep(fingerprint=f"{number:064x}", content="Done: the module says what it should. " * 4)
    prompt = f"Mend number {number}."
    return TurnRecord(
        turn=number, prompt=prompt, key=cell_key(prompt, ""), steps=(*steps, last), outcome="done", model="m"
    )


def _step(turn: int, number: int) -> RecordedStep:
    changed = FileChange(path="src/module.py", before="1" * 64, after="2" * 64, patch=PATCH)
    call = RecordedCall(
        id=f"call{turn:05d}{number}",
        name="bash",
        arguments=json.dumps({"command": f"python -m pytest tests/test_{number}.py -q"}),
        decision=RecordedDecision(verdict="allow", by="person", reason="bash is asked about"),
        status="ok",
        output=OUTPUT,
        exit=0,
        milliseconds=1200,
        files=(changed,) if number == 1 else (),
    )
    return RecordedStep(
        fingerprint=f"{turn:063x}{number}", content="I look at the module.", prompt_tokens=900, calls=(call,)
    )


def messages_json(recording: Recording) -> int:
    """Bytes of the JSON of all messages."""
    found = [user_message(turn.prompt) for turn in recording.turns]
    found += [message for turn in recording.turns for step in turn.steps for message in messages_of_step(step)]
    return sum(len(json.dumps(message.model_dump(exclude_none=True))) for message in found)


def best(run: Callable[[], Any], times: int = 5) -> float:
    """Seconds of CPU."""
    taken = []
    for _ in range(times):
        begin = time.process_time()
        run()
        taken.append(time.process_time() - begin)
    return min(taken)


def files(turns: int, folder: Path) -> dict[str, float]:
    recording = session(turns)
    nb = session_notebook(recording)
    path = write_notebook(nb, folder / f"{turns}.ipynb")
    kin = sum(len(json.dumps(cell["metadata"].get("kin", []))) for cell in nb["cells"])
    kin += len(json.dumps(nb["metadata"]["kin"]))
    text = path.read_text()

    def theirs_read() -> None:
        nbformat.validate(nbformat.reads(text, as_version=4))

    def theirs_write() -> None:
        nbformat.validate(nb)
        (folder / "theirs.ipynb").write_text(nbformat.writes(nb))

    def ours_write() -> None:
        (folder / "ours.ipynb").unlink(missing_ok=True)
        write_notebook(nb, folder / "ours.ipynb")

    read, their_read = best(lambda: read_recording(load_notebook(path))), best(theirs_read)
    write, their_write = best(ours_write), best(theirs_write)
    return {
        "messages": turns * 2 * STEPS,
        "MB": path.stat().st_size / 1e6,
        "records / messages": kin / messages_json(recording),
        "read s": read,
        "read / nbformat": read / their_read,
        "write s": write,
        "write / nbformat": write / their_write,
        "save s": best(lambda: session_notebook(recording), 1),
    }


def resuming(turns: int, home: Path) -> float:
    """Seconds until an agent has the session of a log again, its client not begun."""
    os.environ["KIN_HOME"] = str(home)
    from kin_nb.core.agent import Agent  # noqa: PLC0415  (KIN_HOME first)
    from kin_nb.core.config import KinConfig  # noqa: PLC0415

    workspace = home / "workspace"
    workspace.mkdir(parents=True)
    config = KinConfig(workdir=workspace)
    agent = Agent(config)
    agent.continue_from(session(turns).turns)
    name = agent.journal.root_id

    def resume() -> None:
        asyncio.run(Agent.resume(config, name).aclose())

    asyncio.run(agent.aclose())
    return best(resume, 3)


def playback(turns: int, folder: Path) -> tuple[float, float]:
    """The kernel's seconds of CPU a cell: playing a turn, and empty."""
    from notebook_client import LiveKernel, run  # noqa: PLC0415  (kernels only)

    recording = session(turns)
    path = write_notebook(session_notebook(recording), folder / "play.ipynb")
    kernel = LiveKernel(
        [ROOT], {"KIN_RECORDING": str(path), "KIN_HOME": str(folder / "home")}, subshells=False, cwd=folder
    )

    def taken() -> float:
        return float(kernel.text(run(kernel, "import time\nprint(time.process_time())")))

    try:
        run(kernel, f"%load_ext kin_nb\n%kin replay {recording.name}")
        times = []
        for source in ("%%kin\nMend number {}.", "# {}"):
            begin = taken()
            for number in range(1, turns + 1):
                run(kernel, source.format(number))
                kernel.seen.clear()
            times.append((taken() - begin) / turns)
        return times[0], times[1]
    finally:
        kernel.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for turns in sized((100, 400, 1000), (5,)):
            figures = files(turns, folder)
            print("  ".join(f"{name} {value:,.3g}" for name, value in figures.items()))
        resumed = sized(1000, 5)
        print(f"resuming {resumed * 2 * STEPS:,} messages: {resuming(resumed, folder / 'kin'):.2f} s of CPU")
        played, empty = playback(sized(400, 5), folder)
        print(f"playback: {played * 1000:.1f} ms a turn, an empty cell {empty * 1000:.1f} ms")


if __name__ == "__main__":
    main()
