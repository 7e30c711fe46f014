"""What a front end shows of a notebook: a kernel sees the file only, and that only once it is saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nbformat.v4 import new_code_cell, new_notebook
from notebook_client import LiveKernel, kept_outputs, run, said

from kin_nb.core.session.log import LOG_NAME
from kin_nb.notebook.queued import PAUSE
from kin_nb.replay.format.loading import as_node, load_notebook
from tests.model_server import ModelServer

NOTE = "%%kin --mode auto-approve\nAdd a note."


def prompts_sent(model_server: ModelServer) -> list[str]:
    """What the person has said in the last request."""
    return [message["content"] for message in model_server.requests[-1]["messages"] if message["role"] == "user"]


def forget_log(folder: Path) -> None:
    """As for a teammate, who has none: of the session whose KIN_HOME is in `folder`."""
    for log in (folder / "kin-home" / "sessions").glob(f"*/{LOG_NAME}"):
        log.unlink()


class Page:
    """`path`: where it is saved; as it is there, where there is a file. `said`: what the last cell showed, or its error."""

    def __init__(self, kin: LiveKernel, path: Path) -> None:
        self.kin, self.path, self.said = kin, path, ""
        self.nb = as_node(load_notebook(path)) if path.exists() else new_notebook()

    @property
    def cells(self) -> list[Any]:
        return self.nb["cells"]

    def type(self, source: str) -> None:
        self.cells.append(new_code_cell(source, id=f"typed-{len(self.cells)}"))

    def add(self, source: str) -> str:
        """Typed and run: the status."""
        self.type(source)
        return self.run(self.cells[-1])

    def run(self, cell: Any, *, person: bool = True) -> str:
        """The status; what it showed is kept."""
        ran = self.kin.run(cell["source"], cell=cell["id"] if person else None, allow_stdin=False)
        status = self.kin.done(ran)["content"]["status"]
        cell["outputs"] = kept_outputs(self.kin, ran)
        self.said = said(self.kin, ran)
        return status

    def run_again(self, *cells: Any, rule: str) -> None:
        """Cells that have an answer, as `KinMagics.rerun` says."""
        run(self.kin, f"%config KinMagics.rerun = {rule!r}")
        for cell in cells:
            self.run(cell)
        run(self.kin, "%config KinMagics.rerun = 'ask'")

    def restart_and_run_all(self, *, person: bool = True) -> list[str]:
        """The kernel stays, as far as sessions do not go."""
        run(self.kin, "%unload_ext kin_nb")
        return [self.run(cell, person=person) for cell in self.cells]

    def run_all(self, *, save: bool = False) -> list[str]:
        """As JupyterLab does it after a restart: all outputs go, then all cells are sent. `save`: Ctrl-S meanwhile.

        The statuses; below a cell that failed "aborted", unless one is "ok".
        """
        run(self.kin, "%unload_ext kin_nb")
        run(self.kin, f"queued.PAUSE = {PAUSE}")  # a busy machine sends late
        for cell in self.cells:
            cell["outputs"] = []
        if save:
            self.save()
        sent = [self.kin.run(cell["source"], cell=cell["id"], allow_stdin=False) for cell in self.cells]
        statuses = []
        for cell, ran in zip(self.cells, sent, strict=True):
            status = self.kin.done(ran)["content"]["status"]
            # ipykernel aborts what has come when a cell fails: a request that comes later runs, and fails by itself
            statuses.append("aborted" if status == "error" and "error" in statuses else status)
            cell["outputs"] = kept_outputs(self.kin, ran)
            self.said = said(self.kin, ran) or self.said  # those below a failure say nothing
        run(self.kin, "queued.PAUSE = 0")
        return statuses

    def save(self) -> None:
        """Ctrl-S."""
        self.path.write_text(json.dumps(self.nb))

    def command(self, line: str, answer: str | None = None) -> str:
        """What a cell that is not on the page shows, or its error. `answer`: to what it asks, "" where it does not."""
        cell = self.kin.run(line, cell="save", allow_stdin=answer is not None)
        question = ""
        if answer:
            question = self.kin.prompt() + "\n"
            self.kin.answer(answer)
        self.kin.done(cell)
        return question + said(self.kin, cell)
