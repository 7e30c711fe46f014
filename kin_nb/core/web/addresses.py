"""Which addresses may be fetched from: one spelling for URLs, and the IP addresses that a host may resolve to.

Approval, patterns and the request all use the same canonical spelling of a URL. A page may name any host, and a host's owner
may let it resolve to any address: also to this machine, to its local network, and to the service from which a cloud machine
gets its keys.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from kin_nb.core.tool_types import ToolError

LONGEST = 2_048
"""Characters."""
_DEFAULT_PORTS = {"http": 80, "https": 443}
_OTHER_PORTS = range(1_024, 65_536)
"""Ports below them are for mail, files and remote shells; only 80 and 443 serve pages."""
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")


def canonical(url: str) -> str:
    """`scheme://host[:port]/path[?query]`: lower case and punycode in the host, no default port, no `..`, no fragment.

    Needless escapes are decoded (RFC 3986, 6.2.2.2): `%61dmin` is `admin`; all other escapes are in upper case.
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
        raise ValueError(f"this is not the address of a page: {error}") from error
    if parsed.scheme not in _DEFAULT_PORTS:
        raise ValueError("only http:// and https:// addresses are fetched")
    if "@" in re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]:
        raise ValueError("an address with a user name or a password is not fetched")
    return f"{parsed.scheme}://{_host(host)}{_port(parsed.scheme, parsed.port)}{path}"


def host_and_port(url: str) -> tuple[str, int]:
    """Return host and port of a canonical URL; an IPv6 address without its brackets."""
    scheme, _, rest = url.partition("://")
    site = re.split(r"[/?]", rest, maxsplit=1)[0]
    found = re.fullmatch(r"\[(.*)\](?::(\d+))?|([^:]*)(?::(\d+))?", site)
    if found is None:
        raise ValueError(f"{url} is not a canonical address")
    port = found[2] or found[4]
    return found[1] or found[3], int(port) if port else _DEFAULT_PORTS[scheme]


def site_of(url: str) -> str:
    """Return the site of a canonical URL: `scheme://host[:port]`."""
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


_METADATA = {
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
} | {
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
}
"""Where clouds hand out their machines' keys: refused whatever the settings say."""

_NEVER: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "means this machine"),
    ("224.0.0.0/4", "is a multicast address"),
    ("240.0.0.0/4", "is reserved"),
    ("::/128", "means this machine"),
    ("ff00::/8", "is a multicast address"),
)
_PRIVATE: tuple[tuple[str, str], ...] = (
    ("127.0.0.0/8", "is this machine"),
    ("10.0.0.0/8", "is in a private network"),
    ("172.16.0.0/12", "is in a private network"),
    ("192.168.0.0/16", "is in a private network"),
    ("100.64.0.0/10", "is in a carrier's private network"),
    ("169.254.0.0/16", "is a link-local address"),
    ("192.0.0.0/24", "is reserved"),
    ("192.0.2.0/24", "is reserved"),
    ("192.88.99.0/24", "is reserved"),
    ("198.18.0.0/15", "is reserved"),
    ("198.51.100.0/24", "is reserved"),
    ("203.0.113.0/24", "is reserved"),
    ("::1/128", "is this machine"),
    ("fc00::/7", "is in a private network"),
    ("fe80::/10", "is a link-local address"),
    ("2001::/32", "holds another address (Teredo)"),
    ("2001::/23", "is reserved"),
    ("2001:db8::/32", "is reserved"),
    ("2002::/16", "holds another address (6to4)"),
    ("3fff::/20", "is reserved"),
)
_IPV6_INTERNET = IPv6Network("2000::/3")
_HOLDING_IPV4 = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""IPv4 addresses in IPv6 spelling, and those that a NAT64 gateway translates: what counts is the address inside."""

_MAY_HOLD_IPV4 = (IPv6Network("64:ff9b:1::/48"), IPv6Network("::/96"))
"""A network's own NAT64 prefixes, and the old IPv4-compatible spelling: always refused, except with `allow_private`."""


def is_address(host: str) -> bool:
    """Whether a host is spelled as an IP address: then there is nothing to resolve."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def why_refused(address: str, *, allow_private: bool = False) -> str:
    """Return the reason not to connect to an IP address, "" for none. `allow_private` never allows a cloud's metadata service."""
    try:
        ip = _innermost(ipaddress.ip_address(address))
    except ValueError:
        return "is not an IP address"
    if str(ip) in _METADATA or any(str(held) in _METADATA for held in _may_hold(ip)):
        return "is a cloud's metadata service"
    ranges = _NEVER if allow_private else _NEVER + _PRIVATE
    for network, why in ranges:
        if _is_in(ip, network):
            return why
    if isinstance(ip, IPv6Address) and not allow_private and ip not in _IPV6_INTERNET:
        return "is not a public address"
    return ""


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, in the system's order, each once. Raises ToolError when it has none."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolError(f"{host} does not resolve: there is no such host, or no network here.") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def checked(host: str, port: int, *, allow_private: bool) -> list[str]:
    """Return the addresses of `host`. Raises ToolError when any one of them must not be connected to."""
    addresses = await resolve(host, port)
    for address in addresses:
        if why := why_refused(address, allow_private=allow_private):
            named = host if address == host else f"{host} resolves to {address}, which"
            raise ToolError(f"Not fetched: {named} {why}.")
    return addresses


def _innermost(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(ip, IPv6Address):
        if ip.scope_id:
            ip = IPv6Address(int(ip))
        if any(ip in network for network in _HOLDING_IPV4):
            return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip


def _may_hold(ip: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that a gateway may extract from `ip`: at the end, or around the ninth byte (RFC 6052)."""
    if not isinstance(ip, IPv6Address) or not any(ip in network for network in _MAY_HOLD_IPV4):
        return []
    around = ip.packed[:8] + ip.packed[9:]
    return [IPv4Address(held) for held in (ip.packed[12:], around[6:10], around[7:11], around[8:12])]


def _is_in(ip: IPv4Address | IPv6Address, text: str) -> bool:
    network: IPv4Network | IPv6Network = ipaddress.ip_network(text)
    return ip.version == network.version and ip in network
