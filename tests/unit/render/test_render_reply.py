"""The model's Markdown: what is drawn, what stays text."""

from __future__ import annotations

import re

import pytest

from kin_nb.core.records import RecordedStep
from kin_nb.render import render_reply
from kin_nb.render.highlight import STYLES
from kin_nb.render.markdown import markdown_html
from tests.table import each_row


def test_tables_code_and_lists_are_drawn_without_classes_or_foreign_styles() -> None:
    html = markdown_html("# A\n\n| x | y |\n|:--|--:|\n| 1 | ~~2~~ |\n\n```python\nif a < b: pass\n```\n\n3. three\n")
    assert "<h1>A</h1>" in html
    assert '<td style="text-align:left">1</td>' in html
    assert '<td style="text-align:right"><s>2</s></td>' in html
    keywords = [f'<span style="color:#a852d4;color:var(--kin-ke)">{word}</span>' for word in ("if", "pass")]
    assert f"<code>{keywords[0]} a &lt; b: {keywords[1]}\n</code></pre>" in html
    assert html.count("--kin-ke:color-mix(in srgb,#a852d4 75%,currentColor)") == 1
    assert '<th scope="col" style="text-align:left">x</th>' in html
    assert '<ol start="3">' in html
    assert "class" not in html
    assert html.count("style=") == 1 + 4 + 1 + 2  # the table, its cells, the program, its keywords


def test_code_of_no_known_language_is_drawn_as_it_is() -> None:
    for fence in ("```", "```brainfuck", "```{python}", "~~~ text"):
        html = markdown_html(f"{fence}\nif a < b: pass\n{fence[:3]}\n")
        assert "<code>if a &lt; b: pass\n</code></pre>" in html


@each_row(
    "smuggled",
    [
        "<span style='color:#a852d4'>x</span>",
        '<span style="color:#a852d4;position:fixed;inset:0">x</span>',
        "```python\n</span></code></pre><span style='position:fixed'>x</span>\n```",
        "```<span style='position:fixed'>\nx\n```",
        '```python" style="position:fixed\nx = 1\n```',
    ],
)
def test_a_model_cannot_bring_a_style_or_a_span_of_its_own(smuggled: str) -> None:
    html = markdown_html(smuggled)
    spans = set(re.findall(r"<span[^>]*>", html))
    assert spans <= {f'<span style="{style}">' for style in STYLES.values()}
    assert "position" not in re.sub(r">[^<]*<", "><", html)


def test_the_sanitizer_itself_lets_only_our_own_styles_through(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = f'<span style="{STYLES["keyword"]}">a</span>'
    theirs = (
        '<span style="color:#a852d4;position:fixed">b</span><span style="color:red" class="x">c</span>'
        '<th scope="row" style="text-align:justify">d</th><p style="color:#a852d4">e</p>'
    )
    monkeypatch.setattr("kin_nb.render.markdown.highlighted", lambda code, language: ours + theirs)
    html = markdown_html("```\nx\n```")
    assert f"<code>{ours}<span>b</span><span>c</span>" in html
    assert html.count("style=") == 1 + 1  # the block's own
    assert "scope" not in html


def test_a_reply_that_is_one_long_program_after_another_is_not_highlighted_to_its_end() -> None:
    program = "```python\n" + "x = 1\n" * 1_000 + "```\n\n"
    html = markdown_html(program * 5)
    assert html.count("<span") == 3 * 1_000
    assert html.count("x = ") == 5 * 1_000


@pytest.mark.parametrize("url", ["http://example.org/a?b=1&c=2", "https://example.org", "mailto:a@example.org"])
def test_links_to_the_web_and_to_mail_are_links(url: str) -> None:
    assert f'href="{url.replace("&", "&amp;")}"' in markdown_html(f"[x]({url})")


@each_row(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "vbscript:x",
        "//evil.example",
        "a.py",
    ],
)
def test_other_links_stay_text_with_their_address(url: str) -> None:
    html = markdown_html(f"[x]({url})")
    assert "<a" not in html
    assert url in html


def test_an_entity_cannot_smuggle_a_scheme_past_the_check() -> None:
    assert "<a" not in markdown_html("[x](java&#115;cript:alert(1))")
    assert "<a" not in markdown_html("[x](&#106;avascript&colon;alert(1))")
    assert "<a" not in markdown_html("<javascript:alert(1)>")


def test_images_are_their_text_and_address_and_load_nothing() -> None:
    html = markdown_html('![a <b> chart](https://evil.example/x.png "t") ![](https://evil.example/y.png)')
    assert "<img" not in html
    assert "a &lt;b&gt; chart (https://evil.example/x.png)" in html
    assert "image (https://evil.example/y.png)" in html
    linked = markdown_html("[![alt](https://a.example/i.png)](https://b.example)")
    assert 'href="https://b.example"' in linked
    assert "alt (https://a.example/i.png)</a>" in linked


def test_raw_html_is_text() -> None:
    html = markdown_html("<script>alert(1)</script>\n\n<b onclick=x>hi</b> <style>p{}</style>")
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "&lt;b onclick=x&gt;" in html


def test_hidden_characters_made_by_entities_are_visible_too() -> None:
    html = markdown_html("a&#x202E;b `&#x202E;` c&ZeroWidthSpace;d")
    assert "a⟨U+202E⟩b" in html
    assert "c⟨U+200B⟩d" in html


@each_row("size", [2_000], long=[20_000])
def test_nesting_and_brackets_without_end_are_drawn_in_reasonable_size(size: int) -> None:
    for hostile in (">" * size, "[" * size, "*a " * size, "- " * (size // 4), "|" * size, "`" * (size + 1)):
        assert len(markdown_html(hostile)) < 25 * size


def test_reasoning_is_folded_above_the_text() -> None:
    output = render_reply(RecordedStep(content="**Done**", reasoning="first\n\nsecond"), turn=1, number=2)
    html = output.data["text/html"]
    assert "<details><summary>Reasoning, 3 lines</summary>\n<p>first</p>" in html
    assert html.index("</details>") < html.index("<strong>Done</strong>")
    assert output.data["text/plain"] == "**Done**"


def test_reasoning_alone_has_a_plain_text_too() -> None:
    output = render_reply(RecordedStep(reasoning="hm\x1b[1m"), turn=1, number=1)
    assert output.data["text/plain"] == "[reasoning]\nhm"


def test_dollars_are_no_formula_in_jupyterlab() -> None:
    html = render_reply(RecordedStep(content="$HOME and $PATH"), turn=1, number=1).data["text/html"]
    assert 'class="mathjax_ignore"' in html.split("$HOME")[0]
