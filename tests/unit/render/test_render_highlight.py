"""Code in colour: which tokens, in which colours, and what is left as it is."""

from __future__ import annotations

import html
import re

import pytest

from kin_nb.render.diff import STYLES as CHANGED
from kin_nb.render.highlight import (
    COLORS,
    LARGEST,
    LEXERS,
    STYLES,
    highlighted,
    highlighted_lines,
    language_of,
    palette,
)
from tests.table import each_row

SPAN = re.compile(r'<span style="color:#[0-9a-f]{6};color:var\(--kin-[a-z]{2}\)">|</span>')


def kinds(code: str, language: str) -> list[tuple[str, str]]:
    """(kind, text) of what is coloured."""
    found = re.findall(r'<span style="(color:#[0-9a-f]{6};[^"]*)">(.*?)</span>', highlighted(code, language))
    names = {style: kind for kind, style in STYLES.items()}
    return [(names[style], html.unescape(text)) for style, text in found]


def plain(drawn: str) -> str:
    return html.unescape(SPAN.sub("", drawn))


COLOURED = [
    (
        "bash",
        'for f in *; do echo "a"; done # c',
        "keyword:for keyword:in keyword:do string:'a' keyword:done comment:# c",
    ),
    ("c", "int f(void) { return 1; } // c", "keyword:return number:1 comment:// c"),
    ("console", "$ ls 'a'\na", "comment:$ string:'a'"),
    ("cpp", "constexpr auto x = nullptr;", "keyword:auto"),
    ("css", "a { color: red; } /* c */", "name:a keyword:color keyword:red comment:/* c */"),
    ("diff", "-old\n+new", "number:-old string:+new"),
    ("dockerfile", "FROM x AS y\n# c", "keyword:FROM string:x keyword:AS string:y comment:# c"),
    ("go", "func f() map[int]int { return nil }", "keyword:func keyword:return nil"),
    ("html", '<a href="x">t</a>', "name:a href string:'x' name:a"),
    ("ini", "[s]\nk = v ; c", "keyword:[s] name:k string:v comment:; c"),
    ("java", "class A permits B { }", "keyword:class name:A"),
    ("javascript", "const a = 'b'; // c", "keyword:const string:'b' comment:// c"),
    ("json", '{"a": [1, null]}', "name:'a' number:1 keyword:null"),
    ("julia", "function f(x) end # c", "keyword:function keyword:end comment:# c"),
    ("makefile", "all: a\n\techo 'a' # c", "name:all string:'a' comment:# c"),
    ("markdown", "# Title\ntext", "keyword:# Title"),
    ("python", "def f(): return None  # c", "keyword:def name:f keyword:return None comment:# c"),
    ("r", "f <- function(x) NULL # c", "keyword:function keyword:NULL comment:# c"),
    ("rust", 'fn main() { let x = "a"; }', "keyword:fn name:main keyword:let string:'a'"),
    ("sql", "SELECT 1 -- c", "keyword:SELECT number:1 comment:-- c"),
    ("toml", '[t]\nk = "v" # c', "keyword:[t] string:'v' comment:# c"),
    ("typescript", "class A { x: number }", "keyword:class"),
    ("yaml", "a: 'b' # c", "name:a string:'b' comment:# c"),
]


@each_row(("language", "code", "expected"), COLOURED)
def test_every_language_of_the_table_is_coloured_by_coarse_kinds(language: str, code: str, expected: str) -> None:
    found = kinds(code, language)
    assert " ".join(f"{kind}:{text}" for kind, text in found).replace('"', "'") == expected
    assert plain(highlighted(code, language)) == code


def test_the_table_of_this_test_is_the_table() -> None:
    assert {language for language, *_ in COLOURED} == set(LEXERS)


@each_row(
    ("name", "language"),
    [
        ("py", "python"),
        ("IPython3", "python"),
        ("src/a b/x.py", "python"),
        ("Dockerfile", "dockerfile"),
        ("sub/Makefile", "makefile"),
        ("setup.cfg", "ini"),
        ("script.R", "r"),
        ("c++", "cpp"),
        ("shell", "bash"),
        ("x.tar.gz", ""),
        ("README", ""),
        ("", ""),
        ("brainfuck", ""),
        ("py.d/notes", ""),
    ],
)
def test_fences_and_file_names_mean_a_language_or_none(name: str, language: str) -> None:
    assert language_of(name) == language


def test_what_no_lexer_reads_is_escaped_and_nothing_else() -> None:
    assert highlighted("if a < b: pass", "brainfuck") == "if a &lt; b: pass"
    assert highlighted("", "python") == ""


def test_no_span_goes_over_the_end_of_a_line() -> None:
    lines = highlighted_lines('x = """a\n\nb"""\n', "python")
    assert [plain(line) for line in lines] == ['x = """a', "", 'b"""', ""]
    assert all(line.count("<span") == line.count("</span>") for line in lines)
    assert lines[1] == ""


def test_code_is_drawn_verbatim_with_tabs_blanks_and_odd_line_ends() -> None:
    for code in ("\n\n\tx = 1  \n\n", "  ", "x\t=\t'⟨U+000D⟩'", "$ ls", "# é 日本 \U0001f600\n"):
        for language in LEXERS:
            assert plain(highlighted(code, language)) == code


def test_a_long_program_or_line_or_gap_is_left_alone() -> None:
    line = "x = 1\n"
    fits = line * (LARGEST // len(line))
    assert "<span" in highlighted(fits, "python")
    assert "<span" not in highlighted(fits + line, "python")
    assert "<span" not in highlighted("x = 1 " + "y" * 500, "python")
    assert "<span" not in highlighted("x = 1" + "\n" * 100 + "y = 2", "python")


NASTY = [
    '\\"',
    "a a ",
    "a<b<",
    "/*",
    "((",
    "{{",
    "$(",
    "<a ",
    "```\n",
    "'''",
    'R"(',
    "a::",
    "- - ",
    "&a *a ",
    "1_",
    "#if 0\n",
]


@each_row("size", [500], long=[2_000])
@each_row("language", LEXERS)
def test_text_that_is_not_a_program_is_shown_as_it_is(language: str, size: int) -> None:
    """A lexer that backtracks without end would not return; measured: 1 s at worst for the longest text that is highlighted."""
    for unit in NASTY:
        text = unit * (size // len(unit))
        lines = "".join(f"{text[start : start + 100]}\n" for start in range(0, len(text), 100))
        assert plain(highlighted(lines, language)) == lines


def test_a_lexer_that_fails_costs_the_colours_and_not_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    from pygments.lexers.python import PythonLexer

    def broken(self: object, text: str) -> object:
        raise IndexError(text)

    def forgetful(self: object, text: str) -> object:
        return [(0, ("Keyword",), text[:1])]

    for lexer in (broken, forgetful):
        monkeypatch.setattr(PythonLexer, "get_tokens_unprocessed", lexer)
        assert highlighted("x < 1\ny", "python") == "x &lt; 1\ny"


def luminance(color: str) -> float:
    """WCAG 2.1, relative luminance."""
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return round((light + 0.05) / (dark + 0.05), 2)


def over(color: str, page: str) -> str:
    """`color`, #rrggbbaa, as it looks on `page`."""
    alpha = int(color[7:9], 16) / 255
    mixed = (int(color[at : at + 2], 16) * alpha + int(page[at : at + 2], 16) * (1 - alpha) for at in (1, 3, 5))
    return "#" + "".join(f"{round(channel):02x}" for channel in mixed)


WHITE, BLACK = "#ffffff", "#111111"


def test_colours_read_on_light_and_dark_pages_as_well_as_one_colour_can() -> None:
    """4.5 on both is out of reach: where contrast to white is 4.5, to #111 it is 4.19. 4.35 is the most for both."""
    assert {kind: (contrast(color, WHITE), contrast(color, BLACK)) for kind, color in COLORS.items()} == {
        "keyword": (4.35, 4.34),
        "string": (4.33, 4.36),
        "comment": (4.34, 4.35),
        "number": (4.34, 4.35),
        "name": (4.37, 4.32),
    }


def test_colours_read_on_the_backgrounds_of_changed_lines() -> None:
    for page in (WHITE, BLACK):
        for style in CHANGED.values():
            behind = over(style.removeprefix("background:"), page)
            assert all(contrast(color, behind) >= 3.3 for color in COLORS.values())
            assert contrast(BLACK if page == WHITE else WHITE, behind) > 10  # what has no kind


def _light(color: tuple[float, ...]) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in color)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def _over(front: tuple[float, ...], back: tuple[float, ...], share: float) -> tuple[float, ...]:
    return tuple(f * share + b * (1 - share) for f, b in zip(front, back, strict=True))


def _hex(text: str) -> tuple[float, ...]:
    return tuple(int(text[n : n + 2], 16) / 255 for n in range(1, len(text), 2))


@each_row(("page", "ink", "strength"), [(1.0, 0.0, 0.87), (0x11 / 255, 1.0, 1.0)], ids=["light", "dark"])
@each_row("changed", [None, *CHANGED.values()])
def test_every_colour_of_code_can_be_read_in_both_themes_on_changed_lines_too(
    page: float, ink: float, strength: float, changed: str | None
) -> None:
    """4.5 to 1 at least (WCAG 2.2, AA). `strength`: how much of the text's colour JupyterLab's themes put on the page."""
    for kind, color in COLORS.items():
        mixed = palette(STYLES[kind])
        assert mixed == f";--kin-{kind[:2]}:color-mix(in srgb,{color} 75%,currentColor)"
        back = (page,) * 3
        if changed:
            *tint, share = _hex(changed.removeprefix("background:"))
            back = _over(tuple(tint), back, share)
        drawn = _over(_hex(color), _over((ink,) * 3, back, strength), 0.75)
        low, high = sorted((_light(drawn), _light(back)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, kind
