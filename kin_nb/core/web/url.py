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
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")


def canonical(url: str) -> str:
    """`scheme://host[:port]/path[?query]`: lower case and punycode in the host, no default port, no `..`, no fragment.

    What need not be escaped is not (RFC 3986, 6.2.2.2): `%61dmin` is `admin`; all other escapes are in upper case.
    Raises ValueError with the reason: only http(s); no user name; ports 80, 443, and from 1024 up.
    """
    import httpx  # noqa: PLC0415  (first use)

    url = url.strip()
    if len(url) > LONGEST:
        raise ValueError(f"an address has at most {LONGEST:,} characters")
    if "\\" in url or not url.isprintable() or any(character.isspace() for character in url):
        raise ValueError("an address holds no blanks, control characters or backslashes")
    try:
        parsed = httpx.URL(_ESCAPE.sub(_unescaped, url))
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


def site_of(url: str) -> str:
    """Of a canonical URL: `scheme://host[:port]`."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{re.split('[/?]', rest, maxsplit=1)[0]}"


def stays_on_site(url: str, to: str) -> bool:
    """Whether a redirect from one canonical URL to another keeps to its site; https for http is the same site, made safe."""
    return site_of(to) in (site_of(url), site_of(url).replace("http://", "https://", 1))


def names_exactly(pattern: str, url: str) -> bool:
    """Whether a pattern of an allowlist names a canonical URL.

    The host is compared with the pattern's host alone, so that no `*` of it reaches into a path. Without a path a pattern
    names the whole host; without `https://` both schemes; without a port the scheme's own.
    """
    host, port = host_and_port(url)
    site = _bracketed(host)
    own = [site] if port == _DEFAULT_PORTS[url.partition("://")[0]] else []
    return _matches(pattern, url, [*own, f"{site}:{port}"])


def names(pattern: str, url: str) -> bool:
    """Whether a pattern of a denylist names a canonical URL.

    As `names_exactly`, but without a port it names every port, and without a query every query.
    """
    host, port = host_and_port(url)
    sites = [_bracketed(host), f"{_bracketed(host)}:{port}"]
    return any(_matches(pattern, each, sites) for each in (url, url.partition("?")[0]))


def _matches(pattern: str, url: str, sites: list[str]) -> bool:
    """`sites`: the spellings of the URL's host and port that the pattern may have."""
    wanted_scheme, found, rest = pattern.rpartition("://")
    wanted_site, _, wanted_path = rest.partition("/")
    if re.match(r"\[[^\]]*:", wanted_site):  # an IPv6 address, no set of characters
        wanted_site = f"[[]{wanted_site[1:]}"
    scheme, _, rest = url.partition("://")
    return (
        (not found or fnmatchcase(scheme, wanted_scheme.lower()))
        and any(fnmatchcase(site, wanted_site.lower()) for site in sites)
        and (not wanted_path or fnmatchcase(rest.partition("/")[2], wanted_path))
    )


def _unescaped(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return "%25"
    character = chr(int(escape[1], 16))
    return character if character.isascii() and (character.isalnum() or character in "-._~") else escape[0].upper()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


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
