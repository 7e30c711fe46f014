"""What `kin-nb replay` tells the kernel that it starts, as JSON in the environment variable KIN_REPLAY."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kin_nb.replay.errors import ReplayError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VARIABLE = "KIN_REPLAY"
RECORD_VARIABLE = "KIN_RECORD"
"""What happens to a prompt without a recorded answer: none, new or all."""


@dataclass(frozen=True)
class ReplayEnvironment:
    """How the kernel re-executes its notebook. In plain playback there is none.

    `notebook`: the input. `workspace`: the copy of the workspace, inside `temporary`, a folder that the runner removes.
    `approve_recorded`: calls that were allowed when recorded run without asking. `sandbox`: the user's settings of how
    commands are confined (`[tools.bash]`). `rules`: files of drift rules.
    """

    mode: Literal["scratch", "tools", "live"]
    notebook: Path
    workspace: Path
    temporary: Path
    approve_recorded: bool = False
    sandbox: Mapping[str, str | bool] = field(default_factory=dict)
    rules: tuple[Path, ...] = ()

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (pydantic reads it)

    def to_environ(self) -> dict[str, str]:
        """The variable, for the environment of the kernel's process."""
        return {VARIABLE: json.dumps(_adapter().dump_python(self, mode="json"))}

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> ReplayEnvironment | None:
        """The value in `environ`, None where the variable is not set.

        Raises ReplayError for anything else than what `to_environ` writes: a notebook that should replay must not go live.
        """
        text = environ.get(VARIABLE)
        if text is None:
            return None
        try:
            fields = json.loads(text)
            value: ReplayEnvironment = _adapter().validate_python(fields)
        except (ValueError, RecursionError) as error:
            raise _unusable(_reason(error)) from None
        if json.loads(value.to_environ()[VARIABLE]) != fields:
            raise _unusable("a field is missing, or has a value of another type")
        return value


def _adapter() -> TypeAdapter[ReplayEnvironment]:
    from pydantic import TypeAdapter  # noqa: PLC0415  (a notebook that is not re-executed needs none)

    return TypeAdapter(ReplayEnvironment)


def _unusable(reason: str) -> ReplayError:
    return ReplayError(
        f"{VARIABLE} holds an unusable value: {reason}.\n"
        f"Only `kin-nb replay` sets it, for the kernel that it starts. Unset {VARIABLE} and restart the kernel."
    )


def _reason(error: Exception) -> str:
    """What is wrong, without the value."""
    from pydantic import ValidationError  # noqa: PLC0415  (as above)

    if not isinstance(error, ValidationError):
        return "it is not JSON"
    first = error.errors()[0]
    return ": ".join([*map(str, first["loc"]), first["msg"]])
