"""The Kin kernel under jupyter_kernel_test, which checks each message against the protocol's schema.

Its samples are those of a language; this kernel's are prompts. Samples that have no meaning here, and why:
* invalid_code_samples: prose is never invalid. Nor is it incomplete; cell magics are, until an empty line.
* the history operation "range": IPython answers with session 0 for the running one, the test wants its number.
* IopubWelcomeTests: ipykernel sends no iopub_welcome.
"""

# ruff: noqa: RUF012  (samples are class attributes there)
from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import jupyter_kernel_test
import pytest
from jupyter_client import KernelManager
from jupyter_kernel_test.msgspec_v5 import validate_message
from notebook_client import SECONDS, write_config

from kin_nb.replay.runner.execution import socket_settings
from tests.model_server import ModelServer

pytestmark = pytest.mark.kernel

ROOT = Path(__file__).parents[2]


class TestKinKernel(jupyter_kernel_test.KernelTests):
    kernel_name = "kin"
    language_name = "python"  # of %%python cells, magics and widgets
    file_extension = ".py"

    code_hello_world = "%%python\nprint('hello, world')"
    code_stderr = "%%python\nimport sys\nprint('hello', file=sys.stderr)"
    completion_samples = [
        {"text": "/und", "matches": {"/undo"}},
        {"text": "Look at @a.p", "matches": {"@a.py"}},
        {"text": "plain prose, and zi", "matches": {"zi"}},
        {"text": "%kin und", "matches": {"undo"}},
        {"text": "%%python\nzi", "matches": {"zip"}},
    ]
    complete_code_samples = [
        "Why does the test fail?",
        "if the test fails:",
        "for each file in the folder:\n  mend it",
        "/mode",
        "!ls",
        "%kin cost",
        "%%python\nfor x in y:\n    z\n\n",
    ]
    incomplete_code_samples = ["%%python", "%%python\nfor x in y:", "%%kin"]
    code_page_something = "%kin?"
    code_generate_error = "%%python\nraise ValueError('on purpose')"
    code_execute_result = [
        {"code": "%%python\n6 * 7", "result": "42"},
        {"code": "%%python\n6 * 6", "result": "36"},
        {"code": "%%python\n6 * 5", "result": "30"},
    ]
    code_display_data = [{"code": "/mode", "mime": "text/html"}]
    code_history_pattern = "%%python\n6 ? 7"
    supported_history_operations = ("tail", "search")
    code_inspect_sample = "%%python\nzip"
    code_clear_output = "%%python\nfrom IPython.display import clear_output\nclear_output()"

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="kin-"))
        server = cls.enterClassContext(ModelServer.start())
        write_config(Path(cls.folder, "kin-home"), server)
        Path(cls.folder, "a.py").write_text("x = 1\n")
        cls.km = KernelManager(kernel_name="python3", **socket_settings(Path(cls.folder)))
        program = [sys.executable, "-m", "kin_nb.notebook.kernel", "-f", "{connection_file}"]
        cls.km.kernel_spec.argv = [*program, "--IPCompleter.use_jedi=False"]  # it reads for seconds first
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KIN_", "PYTEST_", "JPY_"))}
        places = {"KIN_HOME": f"{cls.folder}/kin-home", "IPYTHONDIR": f"{cls.folder}/ipython", "PYTHONPATH": str(ROOT)}
        cls.km.start_kernel(cwd=cls.folder, env={**kept, **places})
        cls.kc = cls.km.client()
        cls.kc.start_channels()
        cls.kc.wait_for_ready(timeout=4 * SECONDS)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.kc.stop_channels()
        cls.km.shutdown_kernel(now=True)
        cls.km.cleanup_resources()

    def flush_channels(self) -> None:
        """Until the kernel is idle after a question of ours. (The original waits each time to see that nothing comes.)"""
        msg_id = self.kc.kernel_info()
        while True:
            message = self.kc.get_iopub_msg(timeout=SECONDS)
            validate_message(message)
            ours = message["parent_header"].get("msg_id") == msg_id
            if ours and message["content"].get("execution_state") == "idle":
                break
        while (message := self.kc.get_shell_msg(timeout=SECONDS))["parent_header"]["msg_id"] != msg_id:
            validate_message(message)

    def test_interrupt(self) -> None:
        """Not among jupyter_kernel_test's own."""
        msg_id = self.kc.execute("%%python\nimport time\nprint('begun', flush=True)\ntime.sleep(60)")
        while self.kc.get_iopub_msg(timeout=SECONDS)["msg_type"] != "stream":
            pass
        self.km.interrupt_kernel()
        reply = self.get_non_kernel_info_reply(timeout=SECONDS)
        assert reply is not None
        assert reply["parent_header"]["msg_id"] == msg_id
        assert reply["content"]["ename"] == "KeyboardInterrupt"


def test_nothing_of_jupyter_kernel_test_is_skipped():
    """Each of its tests runs: a sample that got lost would be a test that skips."""
    samples = [
        name
        for name, value in vars(jupyter_kernel_test.KernelTests).items()
        if not name.startswith(("_", "kernel_name", "kc", "km")) and not callable(value)
    ]
    empty = {name for name in samples if not getattr(TestKinKernel, name)}
    assert empty == {"invalid_code_samples"}
