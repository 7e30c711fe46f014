from __future__ import annotations

from kin_nb.render.markdown import markdown_html
from tests.table import each_row


@each_row(
    ("source", "formula"),
    [
        (r"The area is $\pi r^2$.", r"\(\pi r^2\)"),
        ("Let $x_1$ be the first.", r"\(x_1\)"),
        ("Let $x$ be a number.", r"\(x\)"),
        ("So $a_1 + b < 3$, then.", r"\(a_1 + b &lt; 3\)"),
        (r"By \(x \in S\) it holds.", r"\(x \in S\)"),
        ("$$\nE = mc^2\n$$", r"\[E = mc^2\]"),
        (r"\[ \sum_{i=1}^n i \]", r"\[\sum_{i=1}^n i\]"),
        ("| a |\n|---|\n| $x^2$ |", r"\(x^2\)"),
    ],
)
def test_a_formula_is_left_to_the_front_end(source, formula):
    assert f'<span class="mathjax_process">{formula}</span>' in markdown_html(source)


@each_row(
    "source",
    [
        "Set $HOME and $PATH.",
        "export PATH=$HOME/bin:$PATH",
        "$HOME:$PATH and $MY_VAR/bin:$OTHER",
        "It costs $5, or $6 with tax, $1,000-$2,000 a year.",
        "cp $TMP/x:$SRC/y .",
        "`$x^2$`",
        "```\n$x^2$\n```",
        "a$b^2$c",
        "100$ for x^2 and 3$",
        r"\$x^2\$",
        r"$\href{javascript:alert(1)}{x}$",
        r"\(\require{html}\style{color:red}{x^2}\)",
        "$$ $$",
        "$",
        "\\(",
    ],
)
def test_what_is_none_stays_text(source):
    assert "mathjax_process" not in markdown_html(source)


def test_a_formula_cannot_carry_html():
    html = markdown_html("$x^2<img src=x onerror=alert(1)>$ and $$<script>1^2</script>$$")
    assert "<img" not in html
    assert "<script" not in html


@each_row("times", [2_000], long=[20_000])
def test_hostile_text_takes_no_time(times):
    markdown_html("$" * times + "\\(" * times + "$x^" * (times // 4))
