"""Write the reference pages that come from the code: the command line, cell options, tools, settings.

conf.py runs this before each build. The pages are in docs/reference/generated, which git ignores.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

FOLDER = Path(__file__).parent / "reference" / "generated"


def write_pages() -> None:
    FOLDER.mkdir(exist_ok=True)
    pages = {
        "command-line.md": command_line(),
        "cell-options.md": cell_options(),
        "tools.md": tools(),
        "settings.md": settings(),
    }
    for name, text in pages.items():
        path = FOLDER / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def command_line() -> str:
    """`kin-nb --help`, and the help of each command."""
    from kin_nb.cli.main import _parser

    os.environ["COLUMNS"] = "96"
    return "".join(f"## {parser.prog}\n\n```text\n{parser.format_help()}```\n\n" for parser in _parsers(_parser()))


def _parsers(parser: argparse.ArgumentParser) -> Iterable[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:  # noqa: SLF001  (argparse has no other name for it)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for each in action.choices.values():
                yield from _parsers(each)


def cell_options() -> str:
    from kin_nb.notebook.options import options_parser

    actions = options_parser()._actions  # noqa: SLF001
    rows = [(f"`{_option(action)}`", action.help or "") for action in actions]
    return _table(("option", "what it does"), rows)


def _option(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {action.metavar or (action.dest or '').upper()}"
    return f"{', '.join(action.option_strings)}{value}"


def tools() -> str:
    from kin_nb.core.tools.builtins import builtin_tools
    from kin_nb.notebook.namespace.notebook_cells import NotebookCells
    from kin_nb.notebook.namespace.python import Python
    from kin_nb.notebook.namespace.variables import Variables

    text = []
    for tool in (*builtin_tools().values(), Variables, Python, NotebookCells):
        text.append(f"## {tool.get_name()}\n\n{tool.description}.\n")
        parameters = tool.get_parameters()
        required = parameters.get("required", [])
        rows = [
            (f"`{name}`", _kind(field), "required" if name in required else "", field.get("description", ""))
            for name, field in parameters.get("properties", {}).items()
        ]
        if rows:
            text.append(_table(("argument", "type", "", "what it is"), rows))
    return "\n".join(text)


def _kind(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    kinds = field.get("anyOf", [field])
    return " or ".join(sorted({kind.get("type", "object") for kind in kinds} - {"null"}))


def settings() -> str:
    """Each key of config.toml with its type and its default."""
    from kin_nb.core.config import KinConfig
    from kin_nb.core.config.entries import ModelConfig, ProviderConfig

    text = ["## Top level\n", _fields(KinConfig)]
    for name, field in KinConfig.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            text += [f"## [{name}]\n", _fields(kind)]
    text += ["## [[providers]]\n", _fields(ProviderConfig), "## [[models]]\n", _fields(ModelConfig)]
    return "\n".join(text)


def _fields(model: type[BaseModel]) -> str:
    rows = []
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True) if not field.is_required() else None
        if isinstance(default, BaseModel) or (isinstance(default, list | tuple | dict) and len(str(default)) > 60):  # noqa: PLR2004
            continue
        kind = field.annotation
        shown = getattr(kind, "__name__", str(kind)).replace("typing.", "").rpartition(".")[2]
        rows.append((f"`{name}`", f"`{shown}`", "required" if field.is_required() else f"`{default!r}`"))
    return _table(("key", "type", "default"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "".join(f"| {' | '.join(' '.join(cell.split()) for cell in line)} |\n" for line in lines) + "\n"


if __name__ == "__main__":
    write_pages()
