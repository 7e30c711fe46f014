"""Why a server is not there, in words that say what to do."""

from __future__ import annotations

from pydantic import ValidationError

from kin_nb.core.tools.mcp.definitions import printable

_LONGEST = 600


class ServerFailed(Exception):  # noqa: N818  (what happened; ToolError is what the model gets to read)
    """The server did not start, or is gone. The text says why, and what to do; it does not name the server."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text, _LONGEST))


def not_understood(error: ValidationError) -> str:
    """An answer that is not of the protocol, without the words of the package that read it."""
    fields = dict.fromkeys(".".join(map(str, problem["loc"])) for problem in error.errors() if problem["loc"])
    named = printable(", ".join(list(fields)[:5]), 200)
    return (
        f"its answer is not as MCP wants it ({named} missing or wrong)"
        if named
        else "its answer is not as MCP wants it"
    )
