"""Highlight code: Pygments finds the tokens, a few coarse kinds of them get a color, the rest stays plain.

Coarse, so that versions of Pygments draw the same bytes: only a token's kind counts, neighbours of one kind are one span,
and what versions disagree about (types; functions in C) has no kind. The text itself is never changed.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any

from kin_nb.render.text import Attribute, Html, escape, fill, join, pre_html

LEXERS = {
    "bash": ("shell", "BashLexer"),
    "c": ("c_cpp", "CLexer"),
    "console": ("shell", "BashSessionLexer"),
    "cpp": ("c_cpp", "CppLexer"),
    "css": ("css", "CssLexer"),
    "diff": ("diff", "DiffLexer"),
    "dockerfile": ("configs", "DockerLexer"),
    "go": ("go", "GoLexer"),
    "html": ("html", "HtmlLexer"),
    "ini": ("configs", "IniLexer"),
    "java": ("jvm", "JavaLexer"),
    "javascript": ("javascript", "JavascriptLexer"),
    "json": ("data", "JsonLexer"),
    "julia": ("julia", "JuliaLexer"),
    "makefile": ("make", "MakefileLexer"),
    "markdown": ("markup", "MarkdownLexer"),
    "python": ("python", "PythonLexer"),
    "r": ("r", "SLexer"),
    "rust": ("rust", "RustLexer"),
    "sql": ("sql", "SqlLexer"),
    "toml": ("configs", "TOMLLexer"),
    "typescript": ("javascript", "TypeScriptLexer"),
    "yaml": ("data", "YamlLexer"),
}
"""By language: module within pygments.lexers, and class."""
_ALSO_CALLED = {
    "bash": "sh shell zsh bashrc profile",
    "c": "h",
    "console": "shell-session sh-session shellsession",
    "cpp": "c++ cc cxx hpp hh hxx",
    "diff": "patch",
    "dockerfile": "docker",
    "go": "golang",
    "html": "htm",
    "ini": "cfg conf editorconfig",
    "javascript": "js jsx mjs cjs",
    "json": "ipynb jsonc jsonl",
    "julia": "jl",
    "makefile": "make mk",
    "markdown": "md",
    "python": "py pyi python3 ipython ipython3",
    "rust": "rs",
    "typescript": "ts tsx mts cts",
    "yaml": "yml",
}
_LANGUAGES = {name: language for language, names in _ALSO_CALLED.items() for name in names.split()}


def language_of(name: str) -> str:
    """Return the language for the first word of a code fence or a file's name; "" if it is not supported."""
    word = name.rpartition("/")[2].rpartition(".")[2].lower()
    language = _LANGUAGES.get(word, word)
    return language if language in LEXERS else ""


COLORS = {"keyword": "#a852d4", "string": "#288a51", "comment": "#747a80", "number": "#be5f1b", "name": "#2679d8"}
"""By kind. No colour has more contrast to both white and #111 than 4.35: these have 4.3 at least."""
STYLES = {kind: Attribute(f"color:{color};color:var(--kin-{kind[:2]})") for kind, color in COLORS.items()}
"""The colour itself, for sanitizers that drop var(...); else what `palette` makes of it, said once for many spans."""
_SHARE = 75
"""Per cent of a colour in what is drawn; the rest is the text's own: then 4.5 is reached in both themes (WCAG AA)."""
LARGEST = 10_000
"""Characters. Lexers take quadratic time on text that is not a program: at worst a second for this much."""
_LARGEST_OF = {"css": 5_000, "java": 4_000}
_LONGEST_LINE = 500
_NOBODY_WRITES = re.compile(r"\s{100}")

_KINDS = {
    "Comment": "comment",
    "Comment.Preproc": "keyword",
    "Comment.PreprocFile": "string",
    "Generic.Deleted": "number",
    "Generic.Heading": "keyword",
    "Generic.Inserted": "string",
    "Generic.Prompt": "comment",
    "Generic.Subheading": "keyword",
    "Keyword": "keyword",
    "Keyword.Type": "",
    "Literal.Number": "number",
    "Literal.String": "string",
    "Name.Attribute": "name",
    "Name.Class": "name",
    "Name.Function": "name",
    "Name.Tag": "name",
    "Operator.Word": "keyword",
}
_KINDS_OF = {language: {"Name.Attribute": "", "Name.Function": ""} for language in ("c", "cpp")}
_UNSETTLED = {
    "c": {"constexpr"},
    "cpp": {"constexpr", "nullptr"},
    "go": {"chan", "map"},
    "java": {"permits"},
}
"""Words that are keywords to some versions of Pygments and not to others."""


def highlighted(code: str, language: str) -> Html:
    """Highlight `code`, which must come from `clean` or `reveal_hidden`; only escape it if it is long or not supported.

    `language`: a name, or the end of a file's name.
    """
    return join("\n", highlighted_lines(code, language))


def palette(html: str) -> Attribute:
    """Return style declarations for the element around `html`: the colours of its spans, mixed with the text colour."""
    used = (kind for kind, style in STYLES.items() if style in html)
    declared = (f";--kin-{kind[:2]}:color-mix(in srgb,{COLORS[kind]} {_SHARE}%,currentColor)" for kind in used)
    return Attribute("".join(declared))


def code_html(html: Html) -> Html:
    """Return a block of highlighted code."""
    return pre_html(html, palette(html))


def highlighted_lines(code: str, language: str) -> list[Html]:
    """Highlight `code` line by line: no span crosses the end of a line."""
    lines: list[list[Html]] = [[]]
    for kind, text in _runs(code, language_of(language)):
        first, *more = (_span(kind, part) for part in text.split("\n"))
        lines[-1].append(first)
        lines += ([span] for span in more)
    return [join("", spans) for spans in lines]


def _span(kind: str, text: str) -> Html:
    inner = text.strip()
    if not (kind and inner):
        return escape(text)
    before, _, after = text.partition(inner)
    return fill('{}<span style="{style}">{}</span>{}', escape(before), escape(inner), escape(after), style=STYLES[kind])


def _runs(code: str, language: str) -> list[tuple[str, str]]:
    """Yield (kind, text) of adjacent tokens of one kind; spaces belong to the token before them."""
    runs: list[tuple[str, str]] = []
    for kind, text in _tokens(code, language):
        last, before = runs[-1] if runs else ("", "")
        if runs and (kind == last or text.isspace()):
            runs[-1] = (last, before + text)
        else:
            runs.append((kind, text))
    return runs


def _tokens(code: str, language: str) -> list[tuple[str, str]]:
    lines = code.split("\n")
    too_much = len(code) > _LARGEST_OF.get(language, LARGEST) or max(map(len, lines)) > _LONGEST_LINE
    if language not in LEXERS or too_much or _NOBODY_WRITES.search(code):
        return [("", code)]
    try:
        # unprocessed: `get_tokens` would change line ends and tabs
        tokens = _lexer(language).get_tokens_unprocessed(f"{code}\n")
        found = [(_kind(kind, language, text), text) for _, kind, text in tokens if text]
    except Exception:  # noqa: BLE001  (a lexer's bug costs the colours, not the card)
        return [("", code)]
    if "".join(text for _, text in found) != f"{code}\n":
        return [("", code)]
    kind, last = found[-1]
    return [*found[:-1], (kind, last[:-1])]


@cache
def _lexer(language: str) -> Any:
    module, name = LEXERS[language]
    options = {"handlecodeblocks": False}  # of Markdown: code in it is not looked at again
    return getattr(import_module(f"pygments.lexers.{module}"), name)(**options)


def _kind(token: Any, language: str, text: str) -> str:
    return "" if text in _UNSETTLED.get(language, ()) else _kind_of(token, language)


@cache
def _kind_of(token: Any, language: str) -> str:
    """Return the kind of a token type, or else of its nearest parent type: Name.Function.Magic is a Name.Function."""
    kinds = _KINDS | _KINDS_OF.get(language, {})
    while token is not None:
        name = ".".join(token)
        if name in kinds:
            return kinds[name]
        token = token.parent
    return ""
