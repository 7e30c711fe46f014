"""Whether a Jupyter server of this person has a notebook open, as its own list of sessions says."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

_SECONDS = 2.0
_AT_ONCE = 16


def open_in(notebook: Path) -> str:
    """The address of a server in which `notebook` has a kernel, or may have one: it can reach that file, and does not say.

    "" where none is known: a server to which no connection is made is gone, and has left its file behind. So is one that
    does not say and whose process is not to be seen; one that says has it, from another container too.
    """
    wanted = notebook.resolve()
    servers = list(_servers())
    with ThreadPoolExecutor(_AT_ONCE) as pool:  # files of servers that are gone gather in a home that machines share
        answers = list(pool.map(_open_paths, servers))
    for server, paths in zip(servers, answers, strict=True):
        root = Path(str(server.get("root_dir") or server.get("notebook_dir") or "")).resolve()
        if paths is None and wanted.is_relative_to(root) and _is_alive(server.get("pid")):
            return f"{server['url']} (or may be: that server does not say what it has open; stop it to be sure)"
        if any((root / path).resolve() == wanted for path in paths or ()):
            return str(server["url"])
    return ""


def _servers() -> Iterator[dict[str, Any]]:
    """What servers say of themselves in Jupyter's runtime folder, where those that were killed leave it."""
    from jupyter_core.paths import jupyter_runtime_dir  # noqa: PLC0415  (first use)

    folder = Path(jupyter_runtime_dir())
    for path in sorted(folder.glob("jpserver-*.json")) if folder.is_dir() else ():
        try:
            server = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(server, dict) and str(server.get("url", "")).startswith("http"):
            yield server


def _is_alive(pid: object) -> bool:
    """One that was killed leaves its file behind, and another may have its port since."""
    try:
        os.kill(pid if isinstance(pid, int) and pid > 0 else os.getpid(), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _open_paths(server: dict[str, Any]) -> list[str] | None:
    """None where it is there and gives no list, as one with a password does."""
    import httpx  # noqa: PLC0415  (first use)

    headers = {"Authorization": f"token {server.get('token', '')}"}
    try:
        # the server's certificate may be its own, and nothing secret is asked but of the server that wrote the token
        with httpx.Client(timeout=_SECONDS, headers=headers, trust_env=False, verify=False) as client:  # noqa: S501
            found = client.get(f"{server['url']}api/sessions").json()
    except (httpx.ConnectError, httpx.InvalidURL):
        return []
    except (httpx.HTTPError, ValueError):
        return None
    if not isinstance(found, list):
        return None
    paths = (session.get("path") for session in found if isinstance(session, dict))
    return [path for path in paths if isinstance(path, str)]
