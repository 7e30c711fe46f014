"""One spelling of an address, for who is asked, for patterns and for the connection."""

from __future__ import annotations

import pytest

from kin_nb.core.web.addresses import LONGEST, canonical, host_and_port, names, names_exactly


def test_an_address_has_one_spelling(subtests):
    for written, meant in [
        ("https://Docs.Python.org", "https://docs.python.org/"),
        ("HTTPS://docs.python.org:443/3/#x", "https://docs.python.org/3/"),
        ("http://docs.python.org:80/3/?q=A#x", "http://docs.python.org/3/?q=A"),
        ("http://docs.python.org:8080/", "http://docs.python.org:8080/"),
        ("http://docs.python.org./", "http://docs.python.org/"),
        ("https://x.org/a/../../b/./c", "https://x.org/b/c"),
        ("https://x.org/a/%2e%2E/b", "https://x.org/b"),
        ("https://x.org/%61dmin/%7Ex/%2f?%71=%c3%bc", "https://x.org/admin/~x/%2F?q=%C3%BC"),
        ("https://x.org/%2561/%%32e/100%", "https://x.org/%2561/%252e/100%25"),
        ("https://%65xample.org/", "https://example.org/"),
        ("https://x.org?q", "https://x.org/?q"),
        ("https://münchen.de/ü?ü=1", "https://xn--mnchen-3ya.de/%C3%BC?%C3%BC=1"),
        ("  https://x.org/  ", "https://x.org/"),
        ("http://[2606:4700:0:0::1111]/", "http://[2606:4700::1111]/"),
        ("https://docs.python.org.evil.com/", "https://docs.python.org.evil.com/"),
    ]:
        with subtests.test(written=written, meant=meant):
            assert canonical(written) == meant
            assert canonical(meant) == meant


NOT_PAGES = [
    ("ftp://x.org/", "only http"),
    ("file:///etc/passwd", "only http"),
    ("//x.org/", "only http"),
    ("", "only http"),
    ("javascript:alert(1)", "only http"),
    ("http:///x", "no host"),
    ("http:x.org", "no host"),
    ("http://-x.org/", "no host"),
    ("http://a..b/", "no host"),
    ("http://a%00b/", "no"),
    ("https://docs.python.org@evil.com/", "user name"),
    ("https://user:secret@x.org/", "user name"),
    ("https://@x.org/", "user name"),
    ("https://evil.com\\@docs.python.org/", "backslashes"),
    ("https://x.org\\.evil.com/", "backslashes"),
    ("https://x.org/a\tb", "control characters"),
    ("https://x.org/a\nHost: y", "control characters"),
    ("https://x.org/a b", "blanks"),
    ("https://x.org/\u202egnp", "control characters"),
    ("http://x.org:22/", "port 22"),
    ("http://x.org:25/", "port 25"),
    ("http://x.org:0/", "port 0"),
    ("http://x.org:65536/", "port 65536"),
    ("http://x.org:port/", "not the address of a page"),
    ("http://[fe80::1%25eth0]/", "zone"),
    ("http://[::1", "not the address of a page"),
    ("http://\uff11\uff12\uff17.0.0.1/", "not the address of a page"),
    ("https://x.org/" + "a" * LONGEST, "at most"),
]


def test_what_is_no_page_is_refused_with_the_reason(subtests):
    for url, why in NOT_PAGES:
        with subtests.test(url=url, why=why), pytest.raises(ValueError, match=why):
            canonical(url)


def test_the_host_and_port_of_an_address(subtests):
    for url, expected in [
        ("https://x.org/", ("x.org", 443)),
        ("http://x.org/", ("x.org", 80)),
        ("http://x.org:8080/a:b/c", ("x.org", 8080)),
        ("https://[::1]/", ("::1", 443)),
        ("https://[::1]:8443/x", ("::1", 8443)),
    ]:
        with subtests.test(url=url, expected=expected):
            assert host_and_port(canonical(url)) == expected


HOST_PATTERNS = [
    ("https://docs.python.org/*", "https://docs.python.org/3/", True),
    ("https://docs.python.org/*", "https://docs.python.org", True),
    ("https://docs.python.org/*", "http://docs.python.org/3/", False),
    ("https://docs.python.org/*", "https://docs.python.org.evil.com/3/", False),
    ("https://docs.python.org*", "https://docs.python.org.evil.com/3/", True),  # that is what was written
    ("https://docs.python.org/*", "https://docs.python.org:8443/3/", False),
    ("https://docs.python.org/*", "https://evil.com/https://docs.python.org/3/", False),
    ("https://*.python.org/*", "https://docs.python.org/3/", True),
    ("https://*.python.org/*", "https://evil.com/x.python.org/3/", False),
    ("https://*.python.org/*", "https://evil.com/?x.python.org/3/", False),
    ("https://docs.python.org/3/*", "https://docs.python.org/3/../2/", False),
    ("https://docs.python.org/3/*", "https://docs.python.org/3/%2e%2e/2/", False),
    ("https://Docs.Python.Org/*", "https://docs.python.org/", True),
    ("https://docs.python.org", "https://docs.python.org/3/", True),
    ("docs.python.org", "http://docs.python.org/3/", True),
    ("*.internal.example", "https://a.internal.example/x", True),
    ("https://x.org/a", "https://x.org/a", True),
    ("https://x.org/a", "https://x.org/a?b", False),
    ("https://x.org:443", "https://x.org/a", True),
    ("https://x.org:8443/a", "https://x.org:8443/a", True),
    ("http://[::1]:8080/*", "http://[::1]:8080/a", True),
    ("http://[::1]", "http://[::1]/a", True),
    ("http://[::1]", "http://[::2]/a", False),
    ("https://x.org/admin/*", "https://x.org/%61dmin/a", True),
    ("*", "https://x.org/a", True),
    ("", "https://x.org/a", False),
]


def test_a_pattern_names_the_host_by_the_host_alone(subtests):
    for pattern, url, named in HOST_PATTERNS:
        with subtests.test(pattern=pattern, url=url, named=named):
            assert names_exactly(pattern, canonical(url)) is named


def test_a_pattern_without_a_port_denies_them_all(subtests):
    for pattern, url, named in [
        ("https://*.internal.example", "https://x.internal.example:8443/", True),
        ("http://127.0.0.1/*", "http://127.0.0.1:8080/secret", True),
        ("http://[::1]", "http://[::1]:8080/", True),
        ("https://x.org:8443", "https://x.org:8443/a", True),
        ("https://x.org:8443", "https://x.org:9443/a", False),
        ("https://x.org:443", "https://x.org/a", True),
        ("https://x.org/admin/*", "https://x.org:8443/%61dmin/a", True),
        ("https://x.org/admin", "https://x.org/admin?b", True),
        ("https://x.org/a?b", "https://x.org/a?b", True),
        ("https://x.org/a?b", "https://x.org/a?c", False),
        ("https://x.org", "https://x.org.evil.com:8443/", False),
        ("https://x.org", "http://x.org:8080/", False),
    ]:
        with subtests.test(pattern=pattern, url=url, named=named):
            assert names(pattern, canonical(url)) is named
