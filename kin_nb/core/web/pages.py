"""Pages over HTTP, and their text.

On every hop the host is resolved once, its addresses are checked, and the connection is made to one of them. No cookies, no
keys, no proxy from the environment. The body is bounded in bytes, after decompression; the caller bounds the time.

HTML becomes Markdown, other text stays as it is. Invisible characters are removed.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import re
import signal
import sys
import zlib
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from kin_nb import __version__
from kin_nb.core.environment import child_environment
from kin_nb.core.llm.errors import certificates_problem, reason_of
from kin_nb.core.processes.supervised import send_signal
from kin_nb.core.tool_types import ToolError
from kin_nb.core.web.addresses import canonical, checked, host_and_port, is_address

if TYPE_CHECKING:
    import ssl

    import httpx


MOST_BYTES = 2_000_000
MOST_HOPS = 5
_REDIRECTS = {301, 302, 303, 307, 308}
_FIRST_ERROR = 400
_GZIP = b"\x1f\x8b"
_HEADERS = {
    "user-agent": f"kin_nb/{__version__}",
    "accept": "text/html, text/*, application/json, application/xml;q=0.9, */*;q=0.1",
    "accept-encoding": "gzip",
}
_TIMEOUT = {"connect": 5.0, "read": None, "write": None, "pool": None}
"""Seconds. The caller's limit is on the whole."""
_MOST_ADDRESSES = 3
"""Addresses of one host that are tried."""

Admits = Callable[[str], str]
"""Given the canonical URL that a page redirects to: the reason not to follow it, "" to follow it."""


class _CutShortError(Exception):
    """The body ended in the middle of compressed data."""


@dataclass(frozen=True)
class Fetched:
    """`url`: canonical, of the last hop. `content_type`: as the server wrote it. `cut`: the page is longer than `body`."""

    url: str
    content_type: str
    body: bytes
    cut: bool = False


@dataclass(frozen=True)
class Fetcher:
    """`proxy`: resolves the names itself; then only addresses that a URL spells out are checked.

    `takes` says of a content type (lower case, without parameters) whether its body is worth reading.
    """

    takes: Callable[[str], bool]
    allow_private: bool = False
    proxy: str = ""

    async def fetch(self, url: str, admits: Admits) -> Fetched:
        """Fetch a page. `url` is canonical. Raises ToolError when the answer is not a readable page."""
        for _ in range(MOST_HOPS + 1):
            found = await self._hop(url)
            if isinstance(found, Fetched):
                return found
            if why := admits(found):
                raise ToolError(f"{url} redirects to {found}, which is not followed: {why}.")
            url = found
        raise ToolError(f"Not fetched: more than {MOST_HOPS} redirects, the last one to {url}.")

    async def _hop(self, url: str) -> Fetched | str:
        """Return the page, or the canonical URL that it redirects to."""
        import httpx  # noqa: PLC0415  (first use)

        host, port = host_and_port(url)
        targets = await self._targets(url, host, port)
        verify = await _ssl_context(needed=url.startswith("https:") or self.proxy.startswith("https:"))
        headers = {**_HEADERS, "host": _site(url)}
        # the certificate must be the host's, not the address's
        extensions = {"sni_hostname": host, "timeout": _TIMEOUT}
        for last, target in zip([*[False] * (len(targets) - 1), True], targets, strict=True):
            request = httpx.Request("GET", target, headers=headers, extensions=extensions)
            try:
                # the bare transport: a client would add cookies, redirects and headers of its own
                proxy = httpx.Proxy(self.proxy) if self.proxy else None
                async with httpx.AsyncHTTPTransport(verify=verify, trust_env=False, proxy=proxy) as transport:
                    return await self._answer(url, await transport.handle_async_request(request))
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if last:
                    raise ToolError(f"{url} cannot be reached: {reason_of(error)}.") from error
            except (httpx.HTTPError, httpx.InvalidURL, ImportError, ValueError) as error:
                raise ToolError(f"{url} was not fetched: {reason_of(error)}.") from error
        raise AssertionError  # the last target has either answered or raised

    async def _targets(self, url: str, host: str, port: int) -> list[httpx.URL]:
        """Return `url` once per address, with the address in place of the host, so that the name is not resolved a second time."""
        import httpx  # noqa: PLC0415  (first use)

        if self.proxy:
            if is_address(host):
                await checked(host, port, allow_private=self.allow_private)
            return [httpx.URL(url)]
        addresses = await checked(host, port, allow_private=self.allow_private)
        return [httpx.URL(url).copy_with(host=address) for address in addresses[:_MOST_ADDRESSES]]

    async def _answer(self, url: str, response: httpx.Response) -> Fetched | str:
        try:
            location = response.headers.get("location")
            if response.status_code in _REDIRECTS and location:
                return _next(url, location)
            if response.status_code >= _FIRST_ERROR:
                raise ToolError(f"{url} answers {_status(response.status_code)}.")
            content_type = response.headers.get("content-type", "")
            kind = content_type.partition(";")[0].strip().lower()
            if not self.takes(kind):
                raise ToolError(_refusal(url, kind, response.headers.get("content-length", "")))
            body, cut = await _read(_unpacked(response))
            return Fetched(url, content_type, body, cut)
        finally:
            await response.aclose()


def _next(url: str, location: str) -> str:
    try:
        return canonical(urljoin(url, location.strip()))
    except ValueError as error:
        raise ToolError(f"{url} redirects to an address that is not followed: {error}.") from error


def _status(code: int) -> str:
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


def _refusal(url: str, kind: str, length: str) -> str:
    size = f"{int(length):,} bytes" if length.isdecimal() else "of unknown size"
    shown = kind if kind.isascii() and kind.isprintable() else "something"
    return f"{url} is {shown[:100]} ({size}), and only text is read: pages, JSON, XML, plain text."


async def _unpacked(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the decompressed body in pieces of bounded size.

    Raises ToolError for an encoding that was not asked for, and _CutShortError after the last piece of a truncated body.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in {"", "identity"}:
        async for piece in response.aiter_raw():
            yield piece
        return
    if encoding not in {"gzip", "x-gzip"}:
        raise ToolError("The page is compressed in a way that was not asked for, and is not read.")
    unzip, whole = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16), True
    async for packed in response.aiter_raw():
        left = packed
        while left:
            try:
                yield unzip.decompress(left, max_length=MOST_BYTES + 1)
            except zlib.error as error:
                raise ToolError("The page is not gzip, although its header says so.") from error
            left, whole = unzip.unconsumed_tail, unzip.eof
            if unzip.eof:
                if not (left := unzip.unused_data).startswith(_GZIP):
                    return
                unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # another member follows
    if not whole:
        raise _CutShortError


async def _read(pieces: AsyncIterator[bytes]) -> tuple[bytes, bool]:
    """Return at most MOST_BYTES, and whether there was more."""
    body = bytearray()
    try:
        async for piece in pieces:
            body += piece
            if len(body) > MOST_BYTES:
                return bytes(body[:MOST_BYTES]), True
    except _CutShortError:
        return bytes(body), True
    return bytes(body), False


def _site(url: str) -> str:
    """Return the Host header: host and port as in the URL."""
    return url.partition("://")[2].partition("/")[0]


async def _ssl_context(*, needed: bool) -> ssl.SSLContext:
    import asyncio  # noqa: PLC0415  (first use)
    import ssl  # noqa: PLC0415  (first use)

    import httpx  # noqa: PLC0415  (first use)

    if not needed:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return await asyncio.to_thread(httpx.create_ssl_context)  # reading the certificates takes 60 ms
    except OSError as error:
        raise ToolError(f"Nothing can be fetched: {certificates_problem(error)}.") from error


_HTML = {"text/html", "application/xhtml+xml"}
_TEXT = re.compile(
    r"text/.+ | application/(?:.+\+)?(?:json|xml|yaml) | application/(?:x-yaml|toml|x-ndjson|jsonl|javascript|ecmascript)"
    r"| image/svg\+xml | ",
    re.VERBOSE,
)
_CHARSETS = re.compile(
    r"utf-?8|utf-?16(?:[lb]e)?|(?:us-)?ascii|iso-?8859-\d+|latin-?\d|(?:windows|cp)-?\d+|koi8-[ru]|gb2312|gbk|gb18030"
    r"|big5(?:-hkscs)?|shift[_-]jis|sjis|euc-(?:jp|kr)|iso-2022-jp|mac(?:intosh|-roman)?",
    re.IGNORECASE,
)
"""Charsets that web pages use. Python knows more codecs by name, and some of those are slow with hostile input."""
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_DECLARED = re.compile(rb"""<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}["']?([\w-]{1,40})""", re.IGNORECASE)
_DECLARED_IN_XML = re.compile(rb"""\s*<\?xml\s[^>]{0,200}?encoding\s{0,9}=\s{0,9}["']([\w-]{1,40})""")
_XML_DECLARATION = re.compile(r"\A\s*<\?xml\s[^>]{0,300}>")
_HEAD = 2_048
"""Bytes in which a page may declare its charset."""
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ue000-\uf8ff\U000e0000-\U000e0fff]"
)
"""Control characters, and those that are invisible or reverse a line: they would give the model text that no person sees."""


def is_text(content_type: str) -> bool:
    """Whether a body of this type (lower case, without parameters) can be read; also when the server names none."""
    return content_type in _HTML or _TEXT.fullmatch(content_type) is not None


async def readable(fetched: Fetched) -> tuple[str, str]:
    """Return (title, text). Raises ToolError for a body that is not text, and for HTML that takes too long to convert."""
    kind, _, parameters = fetched.content_type.partition(";")
    kind = kind.strip().lower()
    is_html = kind in _HTML or (not kind and fetched.body[:_HEAD].lstrip()[:1] == b"<")
    if not kind and b"\0" in fetched.body[:_HEAD]:
        raise ToolError(f"{fetched.url} is not text, and only text is read.")
    text = _body_text(fetched.body, parameters, _own_charset(fetched.body[:_HEAD], kind, is_html=is_html))
    title = ""
    if is_html:
        title, text = await _markdown(_XML_DECLARATION.sub("", text), fetched.url)
    return " ".join(clean(title).split()), clean(text)


def clean(text: str) -> str:
    """Return `text` with plain line ends and without invisible characters."""
    return _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def _own_charset(head: bytes, kind: str, *, is_html: bool) -> str:
    """Return the charset that a page declares, "" for none. The declaration is readable as ASCII, so it cannot be UTF-16."""
    found = _DECLARED.search(head) if is_html else None
    if found is None and (is_html or kind.endswith("xml")):
        found = _DECLARED_IN_XML.match(head)
    name = found[1].decode("ascii", "replace") if found else ""
    return "" if name.lower().startswith("utf-16") else name


def _body_text(body: bytes, parameters: str, own: str) -> str:
    """Decode a body by its byte order mark, else the server's charset, else the page's own, else UTF-8 with replacements."""
    for mark, charset in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(charset, "replace")
    declared = re.search(r"charset\s*=\s*[\"']?([\w-]+)", parameters, re.IGNORECASE)
    for name in (declared[1] if declared else "", own):
        if _CHARSETS.fullmatch(name):
            # on the web, Latin-1 means its superset
            charset = "cp1252" if name.lower() in {"iso-8859-1", "latin1", "latin-1", "ascii", "us-ascii"} else name
            with suppress(LookupError):
                return body.decode(charset, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        at_the_cut = error.end == len(body) and error.reason == "unexpected end of data"
        return body.decode("utf-8" if at_the_cut else "cp1252", "replace")


async def _markdown(html: str, url: str) -> tuple[str, str]:
    """(title, text), from a process that is killed when this is cancelled."""
    program = str(Path(__file__).with_name("to_markdown.py"))
    argv = (sys.executable, "-P", program)  # -P: modules in its folder must not be importable by their short names
    environment = child_environment(os.environ)
    process = await asyncio.create_subprocess_exec(*argv, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment)
    try:
        output, _ = await process.communicate(html.encode("utf-8", "replace"))
    finally:
        if process.returncode is None:
            send_signal(process, signal.SIGKILL)
            await process.wait()
    try:
        page = json.loads(output)
        return str(page["title"]), str(page["text"])
    except (ValueError, KeyError, TypeError) as error:
        raise ToolError(f"{url} was fetched, but its HTML cannot be read: it is too large or too entangled.") from error
