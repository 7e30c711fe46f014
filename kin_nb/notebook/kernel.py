"""The Kin kernel: IPythonKernel in which a cell is a prompt. `%magic`, `!shell` and `/command` do what they say."""

from __future__ import annotations

from typing import Any

from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp

from kin_nb import __version__


def as_cell(code: str) -> str:
    """What IPython runs for a cell of this kernel: a prompt, or a /command, becomes a %%kin cell."""
    text = code.lstrip()
    first, _, rest = text.partition("\n")
    if first.strip() == "%%python":
        return rest  # in this kernel's namespace, not IPython's script magic: a Python of its own
    if not text or text[0] in "%!?":
        return code
    return f"%%kin\n{code}"


class KinKernel(IPythonKernel):
    """The agent, cards and session of `%%kin`, without typing it."""

    implementation = "kin"
    implementation_version = __version__
    banner = "Kin: every cell is a prompt. /help lists the commands."

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shell.extension_manager.load_extension("kin_nb")

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: dict[str, Any] | None = None,
        allow_stdin: bool = False,
        *,
        cell_meta: dict[str, Any] | None = None,
        cell_id: str | None = None,
    ) -> Any:
        """Front ends run silent code of their own (widgets, debuggers): that stays Python."""
        return await super().do_execute(
            code if silent else as_cell(code),
            silent,
            store_history,
            user_expressions,
            allow_stdin,
            cell_meta=cell_meta,
            cell_id=cell_id,
        )


def main() -> None:
    IPKernelApp.launch_instance(kernel_class=KinKernel)


if __name__ == "__main__":
    main()
