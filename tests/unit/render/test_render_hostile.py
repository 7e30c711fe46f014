"""Hostile text in every place that takes text: nothing but our own tags and attributes comes out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import nh3

from kin_nb.core.records import (
    FileChange,
    RecordedCall,
    RecordedDecision,
    RecordedStep,
    RecordedSubagent,
    RecordedSubagentCall,
    TurnRecord,
)
from kin_nb.render import (
    Output,
    approval_html,
    approval_text,
    clean,
    render_call,
    render_diff,
    render_notice,
    render_turn,
    reveal_hidden,
    side_by_side,
)
from tests.table import each_row

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "closing tags": "</code></pre></summary></details></div><script>alert(1)</script>",
    "attribute break": '" onmouseover="alert(1)" style=\'x',
    "handler": "<img src=x onerror=alert(1)>",
    "remote image": "![x](https://evil.example/pixel.png) <img src=https://evil.example/p>",
    "javascript link": "[x](javascript:alert(1)) <a href=javascript:alert(1)>y</a>",
    "fence break-out": "```\n</code></pre><script>alert(1)</script>\n```` \n~~~\n",
    "comment": "<!-- --><![CDATA[ <!doctype html><?php",
    "unclosed": "<details open><table><svg/onload=alert(1)>",
    "osc 8": "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "osc title": "\x1b]0;title\x07text",
    "ansi": "\x1b[31mred\x1b[0m\x9b1mbold\x1b(B",
    "bidi": "invoice\u202efdp.exe \u2066x\u2069",
    "zero width": "pass\u200bword \ufeff\u00ad\u3164",
    "tags": "hi\U000e0041\U000e0042",
    "surrogate": "\ud83d alone",
    "controls": "a\x00b\x08c\x7fd\x85e\u2028f",
    "carriage": "safe command\rrm -rf /",
    "entity": "&lt;script&gt; &#x202E; &amp;",
    "mathjax": "$\\href{javascript:alert(1)}{x}$",
}
TAGS = {
    *("div", "details", "summary", "b", "code", "pre", "span", "small", "br", "p", "a", "em", "strong", "s", "hr"),
    *("samp", "h1", "h2", "h3", "ul", "ol", "li", "blockquote", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"class", "role", "aria-label", "style", "open", "href", "rel", "start", "scope", "colspan"}
RAW = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\u3164\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


class Audit(HTMLParser):
    """Raises at the first tag, attribute or address that is not ours, and at the first tag that does not close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        assert {name for name, _ in attrs} <= ATTRIBUTES
        assert all(re.match("https?:|mailto:", value or "") for name, value in attrs if name == "href")
        if tag not in {"br", "hr"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    handle_decl = unknown_decl = handle_pi = handle_comment


def assert_harmless(html: str) -> None:
    audit = Audit()
    audit.feed(html)
    audit.close()
    assert audit.open == []
    # A browser's parser (html5ever) finds the same tags: nothing to remove, nothing to close.
    attributes = {"*": ATTRIBUTES - {"rel"}}
    parsed = nh3.clean(html, tags=TAGS, attributes=attributes)
    assert re.findall(r"</?\w+", parsed) == re.findall(r"</?\w+", html)
    assert not RAW.search(html)


def cards_of_their_own(text: str) -> Iterator[RecordedCall]:
    """Calls of the tools that have a way of being drawn."""
    todos = [{"id": text, "content": text, "status": status} for status in ("completed", "in_progress", "pending")]
    for n, (name, arguments, output) in enumerate(
        (
            ("python", {"code": text}, text),
            ("python", {"code": f"x = '{text}'\n{text}\n" * 6}, text),
            ("todo", {"action": "write", "todos": todos}, "3 todos"),
            ("todo", {"action": "read"}, f"1 todo\n{text}. {text} (pending)\n1. {text} (completed)"),
            ("read_file", {"path": "a.py"}, f"     1\t{text}\n     2\t{text}\n{text}\n"),
            ("read_file", {"path": f"{text}.py"}, f"     1\t{text}"),
            ("variables", {"names": [text]}, text),
        )
    ):
        yield RecordedCall(
            id=f"own-{n}",
            name=name,
            arguments=json.dumps(arguments),
            status="ok",
            output=output,
            uncovered=f"not covered: {text}",
            bound=(text, text),
        )


def outputs_full_of(text: str) -> list[Output]:
    decision = RecordedDecision(verdict="allow", by="person", reason=text, note=text)
    patch = f"--- a/x\n+++ b/{text}\n@@ -1 +1 @@\n-{text}\n+{text}\n"
    inside = RecordedSubagent(profile=text, calls=(RecordedSubagentCall(name=text, summary=text),), more=1)
    calls = tuple(
        RecordedCall(
            id=text,
            name=text,
            arguments=arguments,
            edited_arguments=edited,
            summary=summary,
            decision=decision.model_copy(update={"verdict": "deny" if status == "refused" else "allow"}),
            status=status,
            output=text,
            exit=1,
            files=(FileChange(path=text, patch=patch), FileChange(path=text)) if status == "ok" else (),
            subagent=inside if status in ("ok", "error") else None,
        )
        for status in ("ok", "error", "refused", "interrupted", "pending")
        for arguments, summary in (
            (json.dumps({"command": text}), ""),
            (json.dumps({text: [text]}), text),
            (text, text),
        )
        for edited in (None, json.dumps({"path": text}))
    )
    calls += tuple(cards_of_their_own(text))
    fenced = f"```python\nx = 1 {text}\n{text}\n```\n"
    step = RecordedStep(content=f"before\n{text}\nafter {text}\n\n{fenced}", reasoning=text, calls=calls)
    turn = TurnRecord(turn=1, prompt=text, model=text, cost=text, outcome="error", message=text, steps=(step,))
    turn = turn.model_copy(update={"attached": (text, text)})
    live = [
        render_call(call, turn=1, step=1, tail=text, waiting=waiting) for call in calls for waiting in (True, False)
    ]
    return [*render_turn(turn), *live, render_notice(text, [text, text], kind="error")]


@each_row("name", HOSTILE)
def test_cards_full_of_hostile_text_hold_only_our_own_html(name: str) -> None:
    for output in outputs_full_of(HOSTILE[name]):
        assert_harmless(output.data["text/html"])
        assert not RAW.search(output.data["text/plain"])
        json.dumps([output.data, output.metadata], ensure_ascii=False).encode()  # as the kernel's wire does


@each_row("name", HOSTILE)
@each_row("kind", ["command", "diff", "arguments", "code", "unheard of"])
def test_an_approval_full_of_hostile_text_is_harmless_and_hides_nothing(name: str, kind: str) -> None:
    text = HOSTILE[name]
    body = f"@@ -1 +1 @@\n-{text}\n+{text}\n" if kind == "diff" else f"{text}\nsecond line"
    html = approval_html(text, text, body, kind, claim=text)
    plain = approval_text(text, text, body, kind, claim=text)
    assert_harmless(html)
    assert_harmless(side_by_side(body))
    assert_harmless(render_diff(body, path="a.py"))
    assert not RAW.search(plain)
    for character in set(text) & set("\x1b\u202e\u200b\x07\r"):
        assert f"⟨U+{ord(character):04X}⟩" in plain
        assert f"⟨U+{ord(character):04X}⟩" in html


def test_a_file_name_that_reverses_itself_is_shown_as_it_is_written() -> None:
    call = RecordedCall(
        id="c", name="write", arguments="{}", status="ok", files=(FileChange(path="inv\u202efdp.exe", after="1"),)
    )
    data = render_call(call, turn=1, step=1).data
    assert "inv⟨U+202E⟩fdp.exe" in data["text/html"]
    assert "inv⟨U+202E⟩fdp.exe" in data["text/plain"]


def test_printed_terminal_sequences_go_and_the_text_stays() -> None:
    assert clean(
        "\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x07 \x1bP1$r\x1b\\\x1b(Bend\x9b2K\r\n10%\r20%"
    ) == ("red link end\n10%\n20%")


def test_a_sequence_that_never_ends_swallows_nothing() -> None:
    assert clean("\x1b]0;title\nthe rest") == "⟨U+001B⟩]0;title\nthe rest"
    assert clean("\x1b[") == "⟨U+001B⟩["


def test_a_command_keeps_every_character_in_sight() -> None:
    assert reveal_hidden("echo \x1b[8mhidden\x1b[0m\r") == "echo ⟨U+001B⟩[8mhidden⟨U+001B⟩[0m⟨U+000D⟩"


@each_row(
    "text",
    [
        "naïve 日本語 é\u0301",
        "👩\u200d💻 ✔\ufe0f 👍🏽 ❤\ufe0f\u200d🔥",
        "क\u094d\u200dष",
        "tab\tand\nline",
        "⚠\ufe0f 1\ufe0f⃣",
    ],
)
def test_writing_and_emoji_stay_as_they_are(text: str) -> None:
    assert reveal_hidden(text) == text


def test_a_joiner_outside_writing_and_emoji_is_visible() -> None:
    assert reveal_hidden("pass\u200dword") == "pass⟨U+200D⟩word"
    assert reveal_hidden("a\ufe0f") == "a⟨U+FE0F⟩"


@each_row("times", [20_000], long=[200_000])
@each_row("unit", ["\x1b]", "\x1b[", "\x1bP", "\u202e", "<", "\x9d;"])
def test_hostile_megabytes_are_drawn_in_linear_size(unit: str, times: int) -> None:
    call = RecordedCall(id="c", name="bash", arguments='{"command": "x"}', status="ok", output=unit * times)
    assert len(render_call(call, turn=1, step=1).data["text/html"]) < 20_000


def test_a_leading_empty_line_of_a_diff_or_command_is_not_swallowed() -> None:
    html = approval_html("x", "y", "\n\nrm -rf /", "command")
    assert "<code>\n\nrm -rf /</code></pre>" in html  # directly after <pre> the HTML parser eats a newline
    assert render_diff("+a").count("+a") == 1
