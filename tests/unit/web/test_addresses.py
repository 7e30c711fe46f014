"""No address that a page names may lead to this machine, its network, or its cloud's keys."""

from __future__ import annotations

import pytest

from kin_nb.core.tool_types import ToolError
from kin_nb.core.web.addresses import checked, resolve, why_refused

PUBLIC = [
    *("93.184.216.34", "8.8.8.8", "1.1.1.1", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1"),
    *("192.167.1.1", "169.253.1.1", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::200e"),
    *("::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2001:4860:4860::8888"),
]
PRIVATE = {
    "127.0.0.1": "this machine",
    "127.255.255.254": "this machine",
    "10.1.2.3": "private network",
    "172.16.0.1": "private network",
    "172.31.255.255": "private network",
    "192.168.1.1": "private network",
    "100.64.0.1": "carrier",
    "100.127.255.255": "carrier",
    "169.254.1.1": "link-local",
    "192.0.0.1": "reserved",
    "192.0.2.1": "reserved",
    "192.88.99.1": "reserved",
    "198.18.0.1": "reserved",
    "198.19.255.255": "reserved",
    "198.51.100.1": "reserved",
    "203.0.113.1": "reserved",
    "::1": "this machine",
    "fc00::1": "private network",
    "fd12:3456::1": "private network",
    "fe80::1": "link-local",
    "fe80::1%eth0": "link-local",
    "fec0::1": "is not a public address",
    "2001:db8::1": "reserved",
    "3fff::1": "reserved",
    "5f00::1": "is not a public address",
    "100::1": "is not a public address",
    "64:ff9b:1::1": "is not a public address",
    "::127.0.0.1": "is not a public address",
    "2002:7f00:1::": "6to4",
    "2002:808:808::": "6to4",
    "2001:0:5ef5:79fb::1": "Teredo",
    "2001:10::1": "reserved",
    "::ffff:127.0.0.1": "this machine",
    "::ffff:10.0.0.1": "private network",
    "64:ff9b::7f00:1": "this machine",
    "64:ff9b::192.168.0.1": "private network",
}
NEVER = {
    "0.0.0.0": "means this machine",
    "0.1.2.3": "means this machine",
    "::": "means this machine",
    "::ffff:0.0.0.0": "means this machine",
    "224.0.0.1": "multicast",
    "239.255.255.250": "multicast",
    "ff02::1": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "169.254.169.254": "metadata",
    "169.254.170.2": "metadata",
    "100.100.100.200": "metadata",
    "168.63.129.16": "metadata",
    "192.0.0.192": "metadata",
    "fd00:ec2::254": "metadata",
    "::ffff:169.254.169.254": "metadata",
    "64:ff9b::a9fe:a9fe": "metadata",
    "64:ff9b:1::a9fe:a9fe": "metadata",
    "64:ff9b:1:a9fe:a9:fe00::": "metadata",
    "::a9fe:a9fe": "metadata",
    "example.org": "not an IP address",
}


def test_addresses_of_the_internet_are_connected_to(subtests):
    for address in PUBLIC:
        with subtests.test(address=address):
            assert why_refused(address) == ""


def test_private_addresses_need_the_users_word(subtests):
    for address, why in PRIVATE.items():
        with subtests.test(address=address, why=why):
            assert why in why_refused(address)
            assert why_refused(address, allow_private=True) == ""


def test_nothing_opens_metadata_services_and_what_is_nobodys_address(subtests):
    for address, why in NEVER.items():
        with subtests.test(address=address, why=why):
            assert why in why_refused(address)
            assert why in why_refused(address, allow_private=True)


async def test_one_bad_address_among_good_ones_is_enough(resolves):
    resolves.answers["mixed.test"] = [["93.184.216.34", "10.0.0.1"]]
    with pytest.raises(ToolError, match=r"mixed\.test resolves to 10\.0\.0\.1, which is in a private network"):
        await checked("mixed.test", 80, allow_private=False)


async def test_the_systems_other_spellings_of_loopback_are_seen_through():
    for host in ("2130706433", "0x7f.1", "0177.0.0.1", "127.1"):
        with pytest.raises(ToolError, match=r"resolves to 127\.0\.0\.1, which is this machine"):
            await checked(host, 80, allow_private=False)


async def test_addresses_come_once_each_in_the_systems_order(resolves):
    resolves.answers["many.test"] = [["9.9.9.9", "2606:4700::1111", "9.9.9.9", "1.1.1.1"]]
    assert await resolve("many.test", 443) == ["9.9.9.9", "2606:4700::1111", "1.1.1.1"]


async def test_a_host_that_does_not_exist_is_reported(resolves):
    resolves.answers["nowhere.test"] = [[]]
    with pytest.raises(ToolError, match=r"nowhere\.test does not resolve"):
        await resolve("nowhere.test", 443)
