"""papermill: parameters of the Kin kernel become a `%%python` cell, and `--engine kin` goes past cells that may fail.

papermill takes translators from no other package, but imports every `papermill.engine` entry point (pyproject.toml) when it
starts: importing this module registers the translator. Nothing else imports it.
"""

from __future__ import annotations

from typing import Any

from papermill.engines import NBClientEngine  # type: ignore[import-untyped]
from papermill.translators import PythonTranslator, papermill_translators  # type: ignore[import-untyped]

RAISES = "raises-exception"


class KinTranslator(PythonTranslator):  # type: ignore[misc]  # papermill is not typed
    @classmethod
    def codify(cls, parameters: dict[str, Any], comment: str = "Parameters") -> str:
        """Return the cell with the parameters. Without its first line the kernel would treat the assignments as a prompt."""
        return f"%%python\n{super().codify(parameters, comment)}"


class KinEngine(NBClientEngine):  # type: ignore[misc]  # as above
    """papermill's own engine, for notebooks with cells that may fail.

    papermill runs on below a cell that is tagged `raises-exception`, and at the end fails for any error among the outputs.
    This engine hands such an error over as text on stderr.
    """

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **how: Any) -> Any:
        done = super().execute_managed_notebook(nb_man, kernel_name, **how)
        for cell in nb_man.nb.cells:
            if cell.cell_type == "code" and RAISES in cell.metadata.get("tags", []):
                cell.outputs = [_as_text(output) for output in cell.outputs]
        return done


def _as_text(output: Any) -> Any:
    from nbformat.v4 import new_output  # noqa: PLC0415  (papermill has it)

    if output.output_type != "error":
        return output
    return new_output("stream", name="stderr", text="\n".join([*output.traceback, ""]))


papermill_translators.register("kin", KinTranslator)
