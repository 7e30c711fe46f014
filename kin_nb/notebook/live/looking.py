"""Looking at the person's variables: whatever their own code does meanwhile, there is a line about each."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from kin_nb.core.redaction import SECRET, is_secret_name
from kin_nb.notebook.live import tables
from kin_nb.notebook.live.describing import CODE, counted, in_bytes, memory, schema, size, type_name
from kin_nb.notebook.live.glimpse import ROWS, glimpse, without_named_secrets
from kin_nb.notebook.live.tables import is_a
from kin_nb.notebook.live.time_limit import TooSlowError, within

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

SECONDS = 2.0
"""For one variable."""
_SCALARS = (str, int, float, bool, type(None), date, datetime, time, timedelta)
_SHORT = 200
"""Characters of a text, and about the digits of a number."""


class VariableRow(BaseModel):
    """`memory`: bytes, None when it cannot be told. `problem`: why not all could be told, "" when it could."""

    name: str
    type: str
    size: str = ""
    memory: int | None = None
    problem: str = ""


def user_variables(shell: InteractiveShell, *, code: bool = False) -> dict[str, Any]:
    """The person's own, by name, as IPython's `%who` has them; modules, functions and classes only with `code`."""
    hidden = shell.user_ns_hidden
    return {
        name: value
        for name, value in dict(shell.user_ns).items()
        if not name.startswith("_")
        and not (name in hidden and hidden[name] is value)
        and (code or not issubclass(type(value), CODE))  # isinstance would ask a proxy what it stands for
    }


def row(name: str, value: object, *, seconds: float = SECONDS) -> VariableRow:
    found = VariableRow(name=name, type=type(value).__name__)

    def look() -> None:
        found.size = size(value)
        found.memory = memory(value)

    found.problem = problem(look, seconds)
    return found


def summary(name: str, value: object, *, values: bool = False, rows: int = ROWS, seconds: float = SECONDS) -> str:
    """Type, size, memory, then the schema; the value, cut short, only with `values`, and never a secret's."""
    lines = [f"{name}: {type_name(value)}"]

    def look() -> None:
        lines[0] += _in_brackets(size(value), memory(value))
        for line in schema(value):
            lines.append(line)  # noqa: PERF402  (what has been said stays said, should the next line fail)
        if values:
            lines.append(f"value:\n{SECRET if is_secret_name(name) else glimpse(value, rows)}")

    if wrong := problem(look, seconds):
        lines.append(f"[{wrong}]")
    return "\n".join(lines)


def short_value(name: str, value: object, redact: Callable[[str], str]) -> str:
    """`city = 'Bern'`; "" for anything but a short scalar, and under a secret's name. `redact`: takes secrets out of a text."""
    found: list[str] = []

    def look() -> None:
        if type(value) in _SCALARS and _is_short(value) and not is_secret_name(name):
            # before it is quoted: a secret with a quote in it would look different
            shown = without_named_secrets(redact(value)) if isinstance(value, str) else value
            found.append(f"{name} = {shown!r}")

    problem(look, SECONDS)  # a time zone's own code
    return "".join(found)


def label(name: str, value: object) -> str:
    """`df (3 columns, 1.2 KB)`: what a card says of it."""
    found: list[str] = []

    def look() -> None:
        if is_a(value, "pandas", "DataFrame"):
            found.append(counted(len(value.columns), "column"))  # type: ignore[attr-defined]
        elif tables.is_lazy(value):
            found.append("lazy")
        elif tables.is_frame(value):
            found.append(counted(len(tables.columns(value)), "column"))
        else:
            found.append(size(value) or type_name(value))
        found.append(in_bytes(memory(value) or 0))

    problem(look, SECONDS)
    return f"{name} ({', '.join(found)})" if found else name


def problem(look: Callable[[], None], seconds: float) -> str:
    """Look, for at most that long; what went wrong in words, "" when nothing did."""
    try:
        within(seconds, look)
    except TooSlowError:
        return f"cut off: looking at it takes longer than {seconds:.3g} s"
    except KeyboardInterrupt:  # the person's, and no object's
        raise
    except BaseException as error:  # noqa: BLE001  (an object's own code)
        return f"its own code raised {type(error).__name__}"
    return ""


def _is_short(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _SHORT and "\x1b" not in value  # colours could hide where a secret begins
    return not isinstance(value, int) or value.bit_length() <= 4 * _SHORT


def _in_brackets(size_of_it: str, taken: int | None) -> str:
    facts = ", ".join(filter(None, (size_of_it, "" if taken is None else in_bytes(taken))))
    return f" ({facts})" if facts else ""
