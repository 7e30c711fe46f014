"""Addresses of pages, as they are asked about, matched with patterns and fetched: one spelling for all three."""

from __future__ import annotations

import ipaddress
import re
from fnmatch import fnmatchcase

LONGEST = 2_048
"""Characters."""
_DEFAULT_PORTS = {"http": 80, "https": 443}
_OTHER_PORTS = range(1_024, 65_536)
"""Below them are mail, files, remote shells: nothing that serves pages, but for 80 and 443."""
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")


def canonical(url: str) -> str:
    """`scheme://host[:port]/path[?query]`: lower case and punycode in the host, no default port, no `..`, no fragment.

    Raises ValueError with the reason: only http(s); no user name; ports 80, 443, and from 1024 up.
    """
    import httpx  # noqa: PLC0415  (first use)

    url = url.strip()
    if len(url) > LONGEST:
        raise ValueError(f"an address has at most {LONGEST:,} characters")
    if "\\" in url or not url.isprintable() or any(character.isspace() for character in url):
        raise ValueError("an address holds no blanks, control characters or backslashes")
    try:
        parsed = httpx.URL(re.sub("%2e", ".", url, flags=re.IGNORECASE))
        path, host = parsed.raw_path.decode("ascii"), parsed.raw_host.decode("ascii").rstrip(".")
    except (httpx.InvalidURL, ValueError) as error:
        raise ValueError(f"this is no address of a page: {error}") from error
    if parsed.scheme not in _DEFAULT_PORTS:
        raise ValueError("only http:// and https:// addresses are fetched")
    if "@" in re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]:
        raise ValueError("an address with a user name or a password is not fetched")
    return f"{parsed.scheme}://{_host(host)}{_port(parsed.scheme, parsed.port)}{path}"


def host_and_port(url: str) -> tuple[str, int]:
    """Of a canonical URL; an IPv6 address without its brackets."""
    scheme, _, rest = url.partition("://")
    site = re.split(r"[/?]", rest, maxsplit=1)[0]
    found = re.fullmatch(r"\[(.*)\](?::(\d+))?|([^:]*)(?::(\d+))?", site)
    if found is None:
        raise ValueError(f"{url} is no canonical address")
    port = found[2] or found[4]
    return found[1] or found[3], int(port) if port else _DEFAULT_PORTS[scheme]


def names(pattern: str, url: str) -> bool:
    """Whether a pattern of an allowlist or a denylist names a canonical URL.

    The host is compared with the pattern's host alone, so that no `*` of it reaches into a path. Without a path a pattern
    names the whole host; without `https://` both schemes.
    """
    wanted_scheme, found, rest = pattern.rpartition("://")
    wanted_host, _, wanted_path = rest.partition("/")
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    return (
        (not found or fnmatchcase(scheme, wanted_scheme.lower()))
        and fnmatchcase(host, wanted_host.lower())
        and (not wanted_path or fnmatchcase(path, wanted_path))
    )


def _host(host: str) -> str:
    if ":" in host:
        address = ipaddress.IPv6Address(host)
        if address.scope_id:
            raise ValueError("an address with a zone is not fetched")
        return f"[{address}]"
    if not _NAME.fullmatch(host):
        raise ValueError("this address names no host")
    return host


def _port(scheme: str, port: int | None) -> str:
    if port is None or port == _DEFAULT_PORTS[scheme]:
        return ""
    if port not in _DEFAULT_PORTS.values() and port not in _OTHER_PORTS:
        raise ValueError(f"port {port} is not fetched from: only 80, 443 and those from 1024 to 65535")
    return f":{port}"
