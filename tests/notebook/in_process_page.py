"""One notebook of one person, in a kernel of this process: the page, as its front end shows it, and the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.model_server import ModelServer
from tests.notebook.conversation_model import read_page
from tests.notebook.in_process import Kernel


class InProcessPage:
    """`cells`: the page. `name`: of the file, which `save` (Ctrl-S) writes. Close it: `close`, or `with`."""

    def __init__(self, folder: Path, server: ModelServer, name: str = "talk.ipynb") -> None:
        self.server, self.home = server, folder
        (folder / "kin").mkdir(parents=True)
        (folder / "work").mkdir()
        (folder / "kin" / "config.toml").write_text(server.config_toml())
        self.metadata: dict[str, Any] = {}
        self.cells: list[Any] = []
        self._typed = 0
        self.file = folder / "work" / name
        self.save()
        self.kernel = Kernel(self.home, self.file)

    def __enter__(self) -> InProcessPage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def nb(self) -> dict[str, Any]:
        return {"cells": self.cells, "metadata": self.metadata, "nbformat": 4, "nbformat_minor": 5}

    def type(self, source: str, at: int | None = None) -> Any:
        """A new cell, at the end or at that index."""
        self._typed += 1
        cell = {"cell_type": "code", "id": f"cell-{self._typed}", "metadata": {}, "source": source}
        cell |= {"outputs": [], "execution_count": None}
        self.cells.insert(len(self.cells) if at is None else at, cell)
        return cell

    def run(self, cell: Any, *, cell_id: bool = True, **environ: str) -> str:
        """The cell's error, "" for none. No one answers questions. `cell_id`: whether the front end sends one."""
        cell["execution_count"] = self.kernel.shell.execution_count
        stops = "raises-exception" not in cell.get("metadata", {}).get("tags", [])
        cell_id_sent = cell["id"] if cell_id else None
        outputs, error = self.kernel.run(cell["source"], cell_id_sent, stop_on_error=stops, **environ)
        cell["outputs"] = outputs
        return "" if error is None else str(error) or type(error).__name__

    def answered(self, source: str, answer: str, at: int | None = None) -> Any:
        """A new prompt, whose user chooses "Ask the model" where that is asked."""
        cell = self.type(source, at)
        assert self.ask(cell, answer) == ""
        return cell

    def ask(self, cell: Any, answer: str) -> str:
        self.server.enqueue(answer, chunk=1000)
        return self.run(cell, KIN_RECORD="new")

    def command(self, line: str) -> str:
        """What a cell that is not on the page shows, or its error."""
        cell = {"source": line, "id": "aside", "outputs": []}
        return self.run(cell) or "\n".join(shown(cell))

    def save(self) -> None:
        """Ctrl-S."""
        self.file.write_text(json.dumps(self.nb))

    def open(self, path: Path) -> None:
        """That file, with a new kernel."""
        self.close()
        self.file, nb = path, read_page(path)
        self.cells, self.metadata = nb["cells"], nb["metadata"]
        self.kernel = Kernel(self.home, self.file)

    def restart(self, *, named: bool = True) -> None:
        """A new kernel; nothing is saved. `named`: whether it is told which file the notebook is in."""
        self.close()
        self.kernel = Kernel(self.home, self.file, named=named)

    def run_all(self, *, stops: bool = True, cell_id: bool = True, **environ: str) -> list[str]:
        """All outputs go, then the cells run: the error of each, up to the first where it `stops` there."""
        for cell in self.cells:
            cell["outputs"] = []
        errors: list[str] = []
        for cell in self.cells:
            if cell["cell_type"] == "code" and not (stops and any(errors)):
                errors.append(self.run(cell, cell_id=cell_id, **environ))
        return errors

    def restart_and_run_all(self, *, stops: bool = True, **environ: str) -> list[str]:
        """After Ctrl-S."""
        self.save()
        self.restart()
        return self.run_all(stops=stops, **environ)

    def close(self) -> None:
        self.kernel.close()


def shown(cell: Any) -> list[str]:
    """Each output as plain text, an error as what it says."""
    return [
        output.get("data", {}).get("text/plain") or output.get("text") or output.get("evalue", "")
        for output in cell["outputs"]
    ]


def replies(cell: Any) -> list[str]:
    """What the model said in it."""
    kinds = ((output.get("metadata", {}).get("kin", {}).get("kind"), output) for output in cell["outputs"])
    return [output["data"]["text/plain"] for kind, output in kinds if kind == "reply"]


def prompts_sent(server: ModelServer) -> list[str]:
    """What the user has said in the last request."""
    return [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "user"]
