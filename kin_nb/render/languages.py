"""Which languages are highlighted, and by what names fences and files call them."""

from __future__ import annotations

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
_ALSO = {
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
_NAMES = {name: language for language, names in _ALSO.items() for name in names.split()}


def language_of(name: str) -> str:
    """The language that a fence's first word or a file's name means; "" when it is none of ours."""
    word = name.rpartition("/")[2].rpartition(".")[2].lower()
    language = _NAMES.get(word, word)
    return language if language in LEXERS else ""
