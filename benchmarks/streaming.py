"""What a reply of 2,000 tokens at 200 a second costs on the wire, and how far the text on screen is behind.

Budgets: 150 KB, 250 ms. A front end with widgets, and one that says it has none. Time on screen is told in benchmarks of
the browser tests; here it ends where the kernel's message arrives.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "kernel")]

from notebook_client import LiveKernel  # noqa: E402

from tests.model_server import ModelServer  # noqa: E402

TOKENS, PER_SECOND = 2_000, 200
PROSE = "The loader reads each file once and keeps what it has seen, so a second pass costs nothing. "
CODE = "```python\ndef mean(values):\n    return sum(values) / len(values)\n```\n\n"


def reply(tokens: int) -> str:
    """About five characters a token: paragraphs, a code block now and then."""
    parts, size = [], 0
    while size < tokens * 5:
        parts.append(PROSE * 4 + "\n\n" + CODE * (len(parts) % 3 == 0))
        size += len(parts[-1])
    return "".join(parts)[: tokens * 5]


def measure(kernel: LiveKernel, server: ModelServer, *, widgets: bool) -> dict[str, float]:
    text = reply(TOKENS)
    server.enqueue(text, chunk=5, delay=1 / PER_SECOND)
    kernel.seen.clear()
    cell = kernel.run("%%kin\ngo", cell=f"widgets-{widgets}")
    arrived: list[tuple[float, dict]] = []
    while True:
        message = kernel.client.get_iopub_msg(timeout=60)
        arrived.append((time.perf_counter(), message))
        kind, content = message["msg_type"], message["content"]
        if kind == "comm_open" and not widgets:
            kernel.close_comm(content["comm_id"])
        if kind == "status" and content["execution_state"] == "idle" and message["parent_header"]["msg_id"] == cell:
            break
    kernel.reply(cell)
    size = sum(len(json.dumps(m["content"])) + 550 for _, m in arrived)  # envelope: headers and signature
    drawn = [at for at, m in arrived if m["msg_type"] in {"comm_msg", "update_display_data"}]
    gaps = [after - before for before, after in itertools.pairwise(drawn)]
    return {"messages": len(arrived), "kB": size / 1000, "gap p95": statistics.quantiles(gaps, n=20)[-1]}


def main() -> None:
    with ModelServer.start() as server, tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "KIN_HOME": f"{home}/kin", "IPYTHONDIR": f"{home}/ipython"}
        settings = Path(home, "kin", "config.toml")
        settings.parent.mkdir()
        settings.write_text(
            'active_model = "m"\n[[providers]]\nname = "p"\n'
            f'api_base = "{server.url}"\napi_key_env_var = ""\n[[models]]\nname = "m"\nprovider = "p"\nalias = "m"\n'
        )
        kernel = LiveKernel([ROOT], environment, subshells=False)
        try:
            kernel.done(kernel.run("%load_ext kin_nb"))
            for widgets in (True, False):
                print("with widgets:" if widgets else "without:", measure(kernel, server, widgets=widgets))
        finally:
            kernel.close()


if __name__ == "__main__":
    main()
