"""What a server's address may tell: whether it is this machine, and how it is shown."""

from __future__ import annotations

import hashlib
import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit, urlunsplit


def is_local(url: str) -> bool:
    """True when `url` names this machine, by loopback address or name: such a request must not go through a proxy."""
    host = _host(url)
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def shown(url: str) -> str:
    """`url` without user, password, query and fragment: keys hide there."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(an address that cannot be read)"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


@lru_cache(maxsize=64)
def digest(url: str) -> str:
    """Twelve characters that tell one server from another and do not name it: of host and port, not of the path."""
    try:
        parts = urlsplit(url)
        server = f"{parts.scheme}://{_host(url)}:{parts.port or ''}"
    except ValueError:  # a port that is none
        server = url
    return hashlib.sha256(server.encode("utf-8", "replace")).hexdigest()[:12]


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""
