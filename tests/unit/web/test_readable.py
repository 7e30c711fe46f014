"""From the bytes of a page to text for a model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kin_nb.core.tool_types import ToolError
from kin_nb.core.web import pages as module
from kin_nb.core.web.pages import Fetched, clean, is_text, readable
from kin_nb.core.web.to_markdown import page


async def read(body: bytes | str, content_type: str = "text/html") -> tuple[str, str]:
    return await readable(Fetched("https://x.org/", content_type, body.encode() if isinstance(body, str) else body))


HTML_AND_MARKDOWN = [
    ("<h2>Two<a class=headerlink href=#two>¶</a></h2>", "## Two"),
    ("<p>See <a href='../b.html' title=x>b</a>.</p>", "See [b](../b.html)."),
    ("<p>See <a href=#c>c</a> <a href='javascript:x()'>js</a> <a href=data:x>d</a></p>", "See c js d"),
    ("<p><code>a_b * c</code> and snake_case</p>", "`a_b * c` and snake_case"),
    ("<pre>def f():\n    return 1\n</pre>", "```\ndef f():\n    return 1\n```"),
    ("<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>", "- a\n  - b\n- c"),
    ("<ol><li>a</li><li>b</li></ol>", "1. a\n2. b"),
    (
        "<table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table>",
        "| k | v |\n| --- | --- |\n| 1 | 2 |",
    ),
    ("<p>1 &lt; 2 &amp; &eacute;</p>", "1 < 2 & é"),
    ("<p>a</p><img src=data:x alt='A cat'><img src=y>", "a\n\nA cat"),
    ("<script>x</script><style>y</style><template>z</template><svg><text>t</text></svg>rest", "rest"),
    ("<p>seen</p><p hidden>1</p><div style='display: none'>2</div><i style='visibility:hidden'>3</i>", "seen"),
    ("no tags at all", "no tags at all"),
    ("<p>not <b>closed", "not **closed**"),
    ("", ""),
]


def test_html_becomes_markdown(subtests):
    for html, markdown in HTML_AND_MARKDOWN:
        with subtests.test(html=html, markdown=markdown):
            assert page(html)["text"] == markdown


LONG = "<p>" + "What the page is about. " * 20 + "</p>"


def test_the_frame_around_a_page_is_left_out(subtests):
    for html in [
        f"<nav>menu</nav><main>{LONG}</main><footer>foot</footer>",
        f"<nav>menu</nav><div role=main>{LONG}</div><aside>foot</aside>",
        f"<header>menu</header><article>{LONG}</article>foot",
        f"<nav>menu</nav>{LONG}<footer>foot</footer>",
    ]:
        with subtests.test(html=html):
            text = page(html)["text"]
            assert text.startswith("What the page is about.")
            assert "menu" not in text
            assert "foot" not in text


def test_a_page_that_is_all_frame_is_kept():
    assert page("<main>short</main><nav><a href=/a>A</a> <a href=/b>B</a></nav>")["text"] == "short[A](/a) [B](/b)"
    assert "second" in page(f"<article>{LONG}</article><article>second</article>")["text"]


def test_a_page_nested_beyond_all_reason_is_read_as_plain_text():
    assert page("<div>" * 3_000 + "deep")["text"] == "deep"


async def test_a_page_that_takes_too_long_ends_with_its_caller(web, fetching, monkeypatch, tmp_path):
    """The process that reads it is killed: no parser of HTML is quick with whatever a page may hold."""
    pid = tmp_path / "pid"
    (tmp_path / "to_markdown.py").write_text(
        f"import os, pathlib, time\npathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\ntime.sleep(60)\n"
    )
    monkeypatch.setattr(module, "__file__", str(tmp_path / "pages.py"))
    with pytest.raises(ToolError, match=r"not load within 1 seconds"):
        await fetching(timeout=1.0).invoke(url=web.page("/hostile", "<p>x"))
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


async def test_a_program_that_fails_is_an_error_of_the_page(monkeypatch, tmp_path):
    (tmp_path / "to_markdown.py").write_text("raise MemoryError")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "pages.py"))
    with pytest.raises(ToolError, match=r"https://x\.org/ was fetched, but its HTML cannot be read"):
        await read("<p>x")


def test_the_program_imports_nothing_of_ours():
    program = Path(module.__file__).with_name("to_markdown.py")
    code = (
        f"import runpy, sys; runpy.run_path({str(program)!r}); print([n for n in sys.modules if n.startswith('kin')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


XML = '<?xml version="1.0" encoding="windows-1251"?><t>привет</t>'


ENCODED_PAGES = [
    ("é".encode(), "text/plain; charset=utf-8", "é"),
    ("é".encode(), "text/plain", "é"),
    ("é".encode("latin-1"), "text/plain; charset=ISO-8859-1", "é"),
    ("“x”".encode("cp1252"), "text/plain; charset=iso-8859-1", "“x”"),
    ("“x”".encode("cp1252"), "text/plain", "“x”"),
    ("日本".encode("shift_jis"), 'text/plain; charset="Shift_JIS"', "日本"),
    ("日本".encode("euc-jp"), "text/plain;charset=EUC-JP", "日本"),
    ("привет".encode("koi8-r"), "text/plain; charset=koi8-r", "привет"),
    ("\ufeffé".encode("utf-16"), "text/plain; charset=latin-1", "é"),
    ("\ufeffé".encode(), "text/plain; charset=latin-1", "é"),
    ("é".encode("utf-16-be"), "text/plain; charset=utf-16be", "é"),
    ("é".encode(), "text/plain; charset=no-such", "é"),
    (b"caf\xe9", "text/plain; charset=utf-8", "caf\ufffd"),
    (b"eW91", "text/plain; charset=base64", "eW91"),
    (b"x-99999999999", "text/plain; charset=punycode", "x-99999999999"),
    ("é".encode()[:1], "text/plain", "\ufffd"),
    ("<meta charset=windows-1251><p>привет".encode("cp1251"), "text/html", "привет"),
    ("<meta charset=koi8-r><p>é".encode(), "text/html; charset=utf-8", "é"),
    ("<meta charset=koi8-r>é".encode(), "text/plain", "<meta charset=koi8-r>é"),
    ("<meta charset=utf-16><p>é".encode(), "text/html", "é"),
    (XML.encode("cp1251"), "application/rss+xml", XML),
    (XML.encode("cp1251"), "text/xml", XML),
    (XML.encode(), "application/xml; charset=utf-8", XML),
    (XML.encode(), "text/plain", XML),
    (f"{XML}<p>".encode("cp1251"), "application/xhtml+xml", "привет"),
    (b'{"a": 1}', "application/json", '{"a": 1}'),
    (b"<a><b/></a>", "application/xml", "<a><b/></a>"),
    (b"<a/>", "application/atom+xml; charset=utf-8", "<a/>"),
    (b"<p>x", "", "x"),
    (b"x", "", "x"),
    (b"a\r\nb\rc\n", "text/plain", "a\nb\nc\n"),
]


async def test_the_bytes_of_a_page_become_text(subtests):
    for body, content_type, text in ENCODED_PAGES:
        with subtests.test(body=body, content_type=content_type, text=text):
            assert (await read(body, content_type))[1] == text


async def test_bytes_of_no_type_that_are_no_text_are_refused():
    with pytest.raises(ToolError, match="is not text"):
        await read(b"\x89PNG\0\0", "")


def test_which_types_are_text(subtests):
    for kind, taken in [
        *[
            (kind, True)
            for kind in ("text/html", "application/xhtml+xml", "text/plain", "text/markdown", "text/css", "")
        ],
        *[(kind, True) for kind in ("application/json", "application/ld+json", "application/xml", "image/svg+xml")],
        *[(kind, True) for kind in ("application/atom+xml", "application/yaml", "application/javascript")],
        *[
            (kind, False)
            for kind in ("application/pdf", "image/png", "text/", "application/octet-stream", "json", "text")
        ],
        *[(kind, False) for kind in ("video/mp4", "application/jsonx", "application/zip", "application/vnd.ms-excel")],
    ]:
        with subtests.test(kind=kind, taken=taken):
            assert is_text(kind) is taken


def test_characters_that_no_person_would_see_are_taken_out():
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    assert clean(f"a\x00\x1b[31m\u202eb\u200b\u2066c{hidden}\x9b\ufeffd\te\nf") == "a[31mbcd\te\nf"
    assert clean("naïve — “quotes”, 日本, 👩") == "naïve — “quotes”, 日本, 👩"


async def test_a_title_is_one_line_and_clean():
    assert (await read("<title>a\n\u202e b</title>x"))[0] == "a b"
