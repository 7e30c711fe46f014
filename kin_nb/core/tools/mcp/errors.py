"""Why a server is not there."""

from __future__ import annotations

from kin_nb.core.tools.mcp.definitions import printable

_LONGEST = 600


class ServerFailed(Exception):  # noqa: N818  (what happened; ToolError is what the model gets to read)
    """The server did not start, or is gone. The text says why, and what to do; it does not name the server."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text, _LONGEST))
