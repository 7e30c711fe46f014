"""papermill's door to the Kin kernel: parameters become a `%%python` cell, so that prompts may speak of `@name`.

papermill takes translators from no other package, but imports every `papermill.engine` entry point (pyproject.toml) when it
starts. Ours is its own engine under the name `kin`: importing this module registers the translator, which is all it is for.
Nothing else imports it.
"""

from __future__ import annotations

from typing import Any

from papermill.engines import NBClientEngine  # type: ignore[import-untyped]
from papermill.translators import PythonTranslator, papermill_translators  # type: ignore[import-untyped]

__all__ = ["KinTranslator", "NBClientEngine"]


class KinTranslator(PythonTranslator):  # type: ignore[misc]  # papermill is not typed
    @classmethod
    def codify(cls, parameters: dict[str, Any], comment: str = "Parameters") -> str:
        """Without the first line the kernel would take the assignments for a prompt."""
        return f"%%python\n{super().codify(parameters, comment)}"


papermill_translators.register("kin", KinTranslator)
