"""A kernel as nbclient, papermill and nbconvert have it: no cell ids, no widgets, no one at the keyboard."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from nbformat import from_dict
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kin_nb.replay.runner.execution import socket_settings
from tests.notebook.in_process import ShellOfPerson

LOAD = "%load_ext kin_nb"


class Headless:
    """Runs cells one after another, keeping those that fail; `nb` holds them all."""

    nb: Any

    @classmethod
    @contextmanager
    def start(cls, folder: Path, environment: Mapping[str, str]) -> Iterator[Headless]:
        """A shell of this process, in `folder`, that has `environment` and nothing of this process's own settings.

        `KernelProcess` is the same in a process.
        """
        with closing(_Shell(environment, folder)) as shell:
            yield shell

    def run(self, source: str) -> Any:
        """The cell, executed. Its outputs are all there; an error is one of them."""
        raise NotImplementedError

    def ok(self, source: str) -> Any:
        """As `run`, for a cell that must not fail."""
        cell = self.run(source)
        assert error_of(cell) is None, error_text(cell)
        return cell


class _Shell(Headless, ShellOfPerson):
    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self.nb = new_notebook()
        self._displays: dict[str, Any] = {}
        super().__init__(environment, folder)

    def run(self, source: str) -> Any:
        cell = new_code_cell(source, execution_count=self.shell.execution_count)
        self.nb["cells"].append(cell)
        content = {"code": source, "allow_stdin": False, "stop_on_error": True}
        self.execute({"header": {"msg_id": cell["id"]}, "metadata": {}, "content": content})
        return cell

    def send(
        self, _: object, msg_type: str, content: dict[str, Any], *, parent: dict[str, Any] | None = None, **__: object
    ) -> None:
        """Keep the output in its cell, as nbclient does."""
        content = from_dict(json.loads(json.dumps(content)))
        display_id = content.pop("transient", {}).get("display_id")
        if msg_type == "update_display_data":
            self._displays[display_id].update(content)
            return
        asked = (parent or self.shell.kernel.parent)["header"]["msg_id"]
        outputs = next(cell for cell in self.nb["cells"] if cell["id"] == asked)["outputs"]
        if msg_type == "stream" and outputs and outputs[-1].get("name") == content["name"]:
            outputs[-1]["text"] += content["text"]
            return
        outputs.append(new_output(msg_type, **content))
        if display_id:
            self._displays[display_id] = outputs[-1]


class KernelProcess(Headless):
    """With a process of its own."""

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
    def start(cls, folder: Path, environment: Mapping[str, str]) -> Iterator[KernelProcess]:
        """A kernel in `folder` that has `environment` and nothing of this process's own settings."""
        headless = cls(folder)
        with headless._sockets, headless._client.setup_kernel(cwd=str(folder), env=dict(environment)):
            yield headless

    def run(self, source: str) -> Any:
        self.nb["cells"].append(new_code_cell(source))
        index = len(self.nb["cells"]) - 1
        return self._client.execute_cell(self.nb["cells"][index], index)


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
