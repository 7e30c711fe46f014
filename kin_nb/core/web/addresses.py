"""Which addresses may be connected to, and what a host's name resolves to.

A page may name any host, and a host's owner may let it resolve to any address: also to this machine, to the network that
it stands in, and to the service from which a cloud machine gets its keys.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from kin_nb.core.tool_types import ToolError

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
    ("0.0.0.0/8", "stands for this machine"),
    ("224.0.0.0/4", "is a multicast address"),
    ("240.0.0.0/4", "is reserved"),
    ("::/128", "stands for this machine"),
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
"""A network's own NAT64 prefixes, and the old IPv4-compatible spelling: refused as they are, save with `allow_private`."""


def is_address(host: str) -> bool:
    """Whether a host is spelled as an IP address: then there is nothing to resolve."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def why_refused(address: str, *, allow_private: bool = False) -> str:
    """What is wrong with connecting to an IP address; "" when nothing is. `allow_private` never opens a cloud's metadata."""
    try:
        ip = _innermost(ipaddress.ip_address(address))
    except ValueError:
        return "is no IP address"
    if str(ip) in _METADATA or any(str(held) in _METADATA for held in _may_hold(ip)):
        return "is a cloud's metadata service"
    ranges = _NEVER if allow_private else _NEVER + _PRIVATE
    for network, why in ranges:
        if _is_in(ip, network):
            return why
    if isinstance(ip, IPv6Address) and not allow_private and ip not in _IPV6_INTERNET:
        return "is no address of the internet"
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
    """What `host` resolves to. Raises ToolError when one of the addresses must not be connected to, whichever it is."""
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
    """The IPv4 addresses that a gateway may read out of it: at the end, or around the ninth byte (RFC 6052)."""
    if not isinstance(ip, IPv6Address) or not any(ip in network for network in _MAY_HOLD_IPV4):
        return []
    around = ip.packed[:8] + ip.packed[9:]
    return [IPv4Address(held) for held in (ip.packed[12:], around[6:10], around[7:11], around[8:12])]


def _is_in(ip: IPv4Address | IPv6Address, text: str) -> bool:
    network: IPv4Network | IPv6Network = ipaddress.ip_network(text)
    return ip.version == network.version and ip in network
