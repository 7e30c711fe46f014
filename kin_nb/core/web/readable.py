"""The text of what was fetched: Markdown of HTML, everything else as it is; characters that nobody sees taken out."""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress
from pathlib import Path

from kin_nb.core.environment import child_environment
from kin_nb.core.processes.supervised import send_signal
from kin_nb.core.tool_types import ToolError
from kin_nb.core.web.fetching import Fetched

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
"""What pages are written in. Python knows more codecs by name, and some of those are slow with hostile input."""
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
"""Control characters, and what is drawn nowhere or turns a line around: text for the model that no person would see."""


def is_text(content_type: str) -> bool:
    """Whether a body of this type (lower case, without parameters) can be read; also when the server names none."""
    return content_type in _HTML or _TEXT.fullmatch(content_type) is not None


async def readable(fetched: Fetched) -> tuple[str, str]:
    """(title, text). Raises ToolError for a body that is no text, and for HTML that takes too long."""
    kind, _, parameters = fetched.content_type.partition(";")
    kind = kind.strip().lower()
    is_html = kind in _HTML or (not kind and fetched.body[:_HEAD].lstrip()[:1] == b"<")
    if not kind and b"\0" in fetched.body[:_HEAD]:
        raise ToolError(f"{fetched.url} is no text, and only text is read.")
    text = _decoded(fetched.body, parameters, _own_charset(fetched.body[:_HEAD], kind, is_html=is_html))
    title = ""
    if is_html:
        title, text = await _markdown(_XML_DECLARATION.sub("", text), fetched.url)
    return " ".join(clean(title).split()), clean(text)


def clean(text: str) -> str:
    """`text` with plain line ends and without characters that nobody sees."""
    return _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def _own_charset(head: bytes, kind: str, *, is_html: bool) -> str:
    """What a page says of itself, "" for nothing. It can be read, so it is no UTF-16 whatever it says."""
    found = _DECLARED.search(head) if is_html else None
    if found is None and (is_html or kind.endswith("xml")):
        found = _DECLARED_IN_XML.match(head)
    name = found[1].decode("ascii", "replace") if found else ""
    return "" if name.lower().startswith("utf-16") else name


def _decoded(body: bytes, parameters: str, own: str) -> str:
    """The byte order mark counts first, then the server's word, then the page's own; else UTF-8, or what is left of it."""
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
    argv = (sys.executable, "-P", program)  # -P: the modules beside it are not to be found under their short names
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
