"""What a front end shows of a notebook: a kernel sees the file only, and that only once it is saved."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nbformat.v4 import new_code_cell, new_notebook
from notebook_client import LiveKernel, kept_outputs, run, said

from kin_nb.core.session.log import LOG_NAME
from kin_nb.replay.format.notebook_reader import as_node, load_notebook
from tests.model_server import ModelServer

NOTE = "%%kin --mode auto-approve\nAdd a note."


def prompts_sent(model_server: ModelServer) -> list[str]:
    """What the person has said in the last request."""
    return [message["content"] for message in model_server.requests[-1]["messages"] if message["role"] == "user"]


def forget_log(folder: Path) -> None:
    """As for a teammate, who has none: of the session whose KIN_HOME is in `folder`."""
    for log in (folder / "kin-home" / "sessions").glob(f"*/{LOG_NAME}"):
        log.unlink()


def with_and_without_log(page: Page, folder: Path) -> Iterator[bool]:
    """Restore the saved page twice: for its user, whose KIN_HOME in `folder` has the log, and for a teammate."""
    sessions = folder / "kin-home" / "sessions"
    saved, files = page.path.read_text(), (folder / "a.py").read_bytes()
    kept = shutil.copytree(sessions, folder / "sessions-then")
    for log in (True, False):
        shutil.rmtree(sessions)
        if log:
            shutil.copytree(kept, sessions)
        page.path.write_text(saved)
        (folder / "a.py").write_bytes(files)
        page.nb = as_node(load_notebook(page.path))
        yield log


class Page:
    """`path`: where it is saved; as it is there, where there is a file. `said`: what the last cell showed, or its error."""

    def __init__(self, kin: LiveKernel, path: Path) -> None:
        self.kin, self.path, self.said = kin, path, ""
        self.nb = as_node(load_notebook(path)) if path.exists() else new_notebook()
        self._ran: dict[str, tuple[Any, str, int]] = {}
        """By its id a cell that has run, its request, and how many messages answered that."""
        kin.quietly("import os; os.environ['KIN_APPROVAL'] = 'headless'")

    @property
    def cells(self) -> list[Any]:
        return self.nb["cells"]

    def type(self, source: str) -> None:
        self.cells.append(new_code_cell(source, id=f"typed-{len(self.cells)}"))

    def add(self, source: str) -> str:
        """Typed and run, by someone who wants the model to be asked: the status."""
        self.type(source)
        return self.ask(self.cells[-1])

    def ask(self, cell: Any) -> str:
        """Run by someone who answers "Ask the model" where that is asked: the status."""
        self.kin.quietly("import os; os.environ['KIN_RECORD'] = 'new'")
        status = self.run(cell)
        self.kin.quietly("import os; os.environ.pop('KIN_RECORD')")
        return status

    def run(self, cell: Any, *, person: bool = True) -> str:
        """The status; what it showed is kept. No one answers questions here."""
        ran = self.kin.run(cell["source"], cell=cell["id"] if person else None, allow_stdin=False)
        status = self.kin.done(ran)["content"]["status"]
        self._keep_outputs(cell, ran)
        self.said = said(self.kin, ran)
        return status

    def _keep_outputs(self, cell: Any, ran: str) -> None:
        """Of the cell that has run, and of those before it where a display of theirs was updated since."""
        self._ran[cell["id"]] = (cell, ran, 0)
        for name, (each, request, known) in self._ran.items():
            heard = len(self.kin.of(request))
            if heard != known:
                each["outputs"] = kept_outputs(self.kin, request)
                self._ran[name] = (each, request, heard)

    def retry(self, *cells: Any) -> None:
        """Asked again, from where they were asked: their text says so from here on."""
        self._with_option("--retry", cells)

    def live(self, *cells: Any) -> None:
        """Asked again, as new turns: their text says so from here on."""
        self._with_option("--live", cells)

    def _with_option(self, option: str, cells: Sequence[Any]) -> None:
        for cell in cells:
            if option not in cell["source"]:
                cell["source"] = cell["source"].replace("%%kin", f"%%kin {option}", 1)
            self.run(cell)

    def restart_and_run_all(self, *, person: bool = True) -> list[str]:
        """The kernel stays, as far as sessions do not go."""
        run(self.kin, "%unload_ext kin_nb")
        return [self.run(cell, person=person) for cell in self.cells]

    def run_all(self, *, save: bool = False) -> list[str]:
        """As JupyterLab does it after a restart: all outputs go, then all cells are sent. `save`: Ctrl-S meanwhile.

        The statuses; below a cell that failed "aborted", unless one is "ok".
        """
        run(self.kin, "%unload_ext kin_nb")
        self._ran.clear()
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
            self._keep_outputs(cell, ran)
            self.said = said(self.kin, ran) or self.said  # those below a failure say nothing
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
