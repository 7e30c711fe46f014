"""What a reply of 2,000 tokens at 200 a second costs on the wire, for each shape of a reply and each kind of front end.

Budget: 150 KB, all of the turn's messages. How far the text on screen is behind is benchmarks/browser.py's.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "kernel")]

from notebook_client import LiveKernel  # noqa: E402

from benchmarks import shapes  # noqa: E402
from benchmarks.sizes import sized  # noqa: E402
from tests.model_server import ModelServer  # noqa: E402

_PARTS = ("header", "parent_header", "metadata", "content")


def measure(kernel: LiveKernel, server: ModelServer, text: str, cell_id: str, *, widgets: bool) -> tuple[int, int]:
    """Messages, and their bytes. `cell_id`: one that has not been answered yet."""
    server.enqueue(raw=shapes.paced(shapes.tokens(text), []))
    kernel.seen.clear()
    cell = kernel.run("%%kin\ngo", cell=cell_id)
    messages = size = 0
    while True:
        message = kernel.client.get_iopub_msg(timeout=60)
        messages += 1
        size += len(json.dumps({part: message[part] for part in _PARTS}, default=str, ensure_ascii=False).encode())
        kind, content = message["msg_type"], message["content"]
        if kind == "comm_open" and not widgets:
            kernel.close_comm(content["comm_id"])
        if kind == "status" and content["execution_state"] == "idle" and message["parent_header"]["msg_id"] == cell:
            break
    kernel.reply(cell)
    return messages, size


def main() -> None:
    with ModelServer.start() as server, tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "KIN_HOME": f"{home}/kin", "IPYTHONDIR": f"{home}/ipython"}
        settings = Path(home, "kin", "config.toml")
        settings.parent.mkdir()
        settings.write_text(server.config_toml())
        kernel = LiveKernel([ROOT], environment, subshells=False)
        try:
            kernel.done(kernel.run("%load_ext kin_nb"))
            for shape in sized(shapes.SHAPES, shapes.SHAPES[:1]):
                for widgets in (True, False):
                    how = "in widgets" if widgets else "without widgets"
                    messages, size = measure(kernel, server, shape(), f"{shape.__name__} {how}", widgets=widgets)
                    print(f"{shape.__name__:<10} {how:<16} {size / 1000:.0f} KB in {messages} messages", flush=True)
        finally:
            kernel.close()


if __name__ == "__main__":
    main()
