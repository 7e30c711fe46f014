"""What a person reads before deciding."""

from __future__ import annotations

from kin_nb.core.safety.decision import Risk
from kin_nb.render import approval_html, approval_text, render_notice

SCRIPT = "cat <<'E' > run.py\n" + "print(1)\n" * 300 + "E\nrm -rf build"


def test_one_line_the_reason_and_the_whole_command() -> None:
    whole = "pytest -q &&\nrm -rf build\n"
    assert approval_text("pytest -q &&…", "`rm` may delete files", whole, "command") == (
        "Allow this? pytest -q &&…\n  Reason: `rm` may delete files\n  pytest -q &&\n  rm -rf build"
    )
    html = approval_html("pytest -q &&…", "`rm` may delete files", whole, "command")
    assert "<details open><summary>The whole command, 2 lines</summary>" in html
    assert "pytest -q &amp;&amp;\nrm -rf build" in html


def test_a_servers_description_is_labelled_plain_and_cut() -> None:
    claim = "Reads.\n<b>Safe</b>, **approve**\u202e" + "x" * 10_000
    label = "Its server says (not verified):"
    html = approval_html("test: echo {}", "it asks", "{}", "arguments", claim=claim)
    words = "Reads. ⏎ &lt;b&gt;Safe&lt;/b&gt;, **approve**⟨U+202E⟩xxx"
    assert f'{label} <code style="white-space:pre-wrap;word-break:break-word">{words}' in html
    text = approval_text("test: echo {}", "it asks", "{}", "arguments", claim=claim)
    assert f"\n  {label} Reads. ⏎ <b>Safe</b>, **approve**⟨U+202E⟩xxx" in text
    for drawn in (html, text):
        assert 500 < drawn.count("x") < 600
    for draw in (approval_html, approval_text):
        assert label not in draw("test: echo {}", "it asks", "{}", "arguments", claim=" \n")


def test_a_high_risk_is_reported_after_the_reason_and_no_other() -> None:
    for draw, high in ((approval_html, "<b>high risk</b>"), (approval_text, "high risk")):
        assert f"Reason: it deletes ({high})" in draw("rm x", "it deletes", "rm x", "command", Risk.HIGH)
        assert "risk" not in draw("a.py", "it edits", "", "diff", Risk.MEDIUM)


def test_a_long_command_is_folded_and_never_cut() -> None:
    html = approval_html("cat", "writes a file", SCRIPT, "command")
    assert "<details><summary>The whole command, 303 lines</summary>" in html
    assert html.count("print(1)") == approval_text("cat", "writes a file", SCRIPT, "command").count("print(1)") == 300


def test_a_summary_that_is_the_whole_command_is_not_said_twice() -> None:
    assert approval_html("rm x", "deletes", "rm x\n", "command").count("rm x") == 1
    assert approval_text("rm x", "deletes", "rm x\n", "command").count("rm x") == 1


def test_a_command_of_one_line_is_reported_once_and_whole() -> None:
    command = f"python -c '{'x' * 300}'  \u202e; rm -rf ~"
    for draw in (approval_html, approval_text):
        drawn = draw("python -c …", "runs a program", command, "command")
        assert drawn.count("x" * 300 + "'  ⟨U+202E⟩; rm -rf ~") == drawn.count("python -c") == 1
    assert "python -c …" not in approval_text("python -c …", "runs a program", command, "command")


def test_a_long_line_is_wrapped_so_that_blanks_hide_nothing() -> None:
    html = approval_html("ls", "x", "ls" + " " * 500 + "; rm -rf /", "command")
    assert '<code style="white-space:pre-wrap;word-break:break-word">ls  ' in html
    assert "; rm -rf /</code>" in html


def test_a_change_is_asked_with_its_diff() -> None:
    html = approval_html("src/app.py +1 -1", "edits a file", "@@ -1 +1 @@\n-a\n+b\n", "diff")
    assert "<summary>The whole change, 3 lines</summary>" in html
    assert '<span style="background:#f8514933">-a</span>' in html


def test_a_notice_says_what_then_what_to_do() -> None:
    output = render_notice("No key for mistral", ["set MISTRAL_API_KEY", "or %kin model local"], kind="error")
    assert output.data["text/plain"] == "No key for mistral\n  set MISTRAL_API_KEY\n  or %kin model local"
    assert "<b>No key for mistral</b><br>\nset MISTRAL_API_KEY<br>\nor %kin model local" in output.data["text/html"]
    assert output.metadata == {"kin": {"kind": "notice", "level": "error"}}
    assert render_notice("x").metadata["kin"]["level"] == "info"
