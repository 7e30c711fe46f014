"""A kernel as nbclient, papermill and nbconvert have it: no cell ids, no widgets, nobody at the keyboard."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from kin_nb.replay.runner.execution import socket_settings

LOAD = "%load_ext kin_nb"


class Headless:
    """Runs cells one after another, keeping those that fail; `nb` holds them all."""

    def __init__(self, folder: Path) -> None:
        self.nb = new_notebook()
        self._client = NotebookClient(self.nb, timeout=60, iopub_timeout=60, allow_errors=True)
        self._sockets = tempfile.TemporaryDirectory(prefix="kin-")
        self._client.km = self._client.create_kernel_manager()
        for name, value in socket_settings(Path(self._sockets.name)).items():
            setattr(self._client.km, name, value)
        # the interpreter of this test, whatever kernelspecs the person has
        self._client.km.kernel_spec.argv = [
            sys.executable,
            "-m",
            "ipykernel_launcher",
            "-f",
            "{connection_file}",
            "--log-level=ERROR",
        ]
        self._folder = folder

    @classmethod
    @contextmanager
    def start(cls, folder: Path, environment: Mapping[str, str]) -> Iterator[Headless]:
        """A kernel in `folder` that has `environment` and nothing of this process's own settings."""
        headless = cls(folder)
        with headless._sockets, headless._client.setup_kernel(cwd=str(folder), env=dict(environment)):
            yield headless

    def run(self, source: str) -> Any:
        """The cell, executed. Its outputs are all there; an error is one of them."""
        self.nb["cells"].append(new_code_cell(source))
        index = len(self.nb["cells"]) - 1
        return self._client.execute_cell(self.nb["cells"][index], index)

    def ok(self, source: str) -> Any:
        """As `run`, for a cell that must not fail."""
        cell = self.run(source)
        assert error_of(cell) is None, error_text(cell)
        return cell


def shown(cell: Any) -> str:
    """What a cell shows in plain text, errors apart. One print may arrive in two pieces: streams are joined as they come."""
    parts: list[str] = []
    in_stream = False
    for output in cell["outputs"]:
        if output["output_type"] == "error":
            continue
        is_stream = output["output_type"] == "stream"
        text = output["text"] if is_stream else output["data"].get("text/plain", "")
        if is_stream and in_stream:
            parts[-1] += text
        else:
            parts.append(text)
        in_stream = is_stream
    return "\n".join(parts)


def error_of(cell: Any) -> Any:
    """The cell's one error output, None when it ran."""
    errors = [output for output in cell["outputs"] if output["output_type"] == "error"]
    assert len(errors) <= 1
    return errors[0] if errors else None


def error_text(cell: Any) -> str:
    """What a front end shows of the cell's error."""
    error = error_of(cell)
    return "\n".join(error["traceback"]) if error else ""
