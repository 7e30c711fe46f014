"""Whether a Jupyter server of this person has a notebook open, as its own list of sessions says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SECONDS = 2.0


def open_in(notebook: Path) -> str:
    """The address of a server in which `notebook` has a kernel, "" where none is known. Servers that do not answer count not."""
    wanted = notebook.resolve()
    for server in _servers():
        root = Path(str(server.get("root_dir") or server.get("notebook_dir") or ""))
        if any((root / path).resolve() == wanted for path in _open_paths(server)):
            return str(server["url"])
    return ""


def _servers() -> Iterator[dict[str, Any]]:
    """What running servers say of themselves, in Jupyter's runtime folder."""
    from jupyter_core.paths import jupyter_runtime_dir  # noqa: PLC0415  (first use)

    folder = Path(jupyter_runtime_dir())
    for path in sorted(folder.glob("jpserver-*.json")) if folder.is_dir() else ():
        try:
            server = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(server, dict) and str(server.get("url", "")).startswith("http"):
            yield server


def _open_paths(server: dict[str, Any]) -> Iterator[str]:
    import httpx  # noqa: PLC0415  (first use)

    headers = {"Authorization": f"token {server.get('token', '')}"}
    try:
        # the server's certificate may be its own, and nothing secret is asked but of the server that wrote the token
        with httpx.Client(timeout=_SECONDS, headers=headers, trust_env=False, verify=False) as client:  # noqa: S501
            found = client.get(f"{server['url']}api/sessions").json()
    except (httpx.HTTPError, ValueError):
        return
    for session in found if isinstance(found, list) else ():
        path = session.get("path") if isinstance(session, dict) else None
        if isinstance(path, str):
            yield path
