"""Tab in a cell that speaks to the agent: options, commands, @variables and @paths, and silence in prose.

IPython's matcher API (version 2). What a completion needs is imported with the first Tab.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from IPython.core.completer import SimpleCompletion, context_matcher

from kin_nb.notebook.options import KinError

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.core.autocompletion.completers import Completer
    from kin_nb.notebook.session import NotebookSession

_LINE = re.compile(r"\s*%kin[ \t]+(?P<words>.*)\Z")
_CELL = re.compile(r"\n*%%kin(?:[ \t]+(?P<options>[^\n]*))?(?P<body>\n)?")


def matcher(shell: InteractiveShell, session: Callable[[], NotebookSession]) -> Any:
    """Return a matcher for `shell.Completer.custom_matchers`. `session` returns the notebook's session, created on first use."""
    found = _Completions(shell, session)

    @context_matcher(identifier="kin_nb")
    def kin(context: CompletionContext) -> dict[str, Any]:
        lines = context.full_text.split("\n")[: context.cursor_line + 1]
        before = "\n".join([*lines[:-1], lines[-1][: context.cursor_position]])
        try:
            return found.at_end_of(before)
        except KinError:  # wrong settings are reported when a cell runs
            return _of("", ())

    return kin


class _Completions:
    def __init__(self, shell: InteractiveShell, session: Callable[[], NotebookSession]) -> None:
        self._shell, self._session = shell, session
        self._paths: Completer | None = None

    def at_end_of(self, before: str) -> dict[str, Any]:
        """Return the completions at the end of a cell's text; none for Python cells."""
        cell = _CELL.match(before)
        if cell is not None and cell["body"]:
            return self._in_prompt(before[cell.end() :])
        if cell is not None:
            return self._option((cell["options"] or "").split(" "))
        line = _LINE.match(before.rpartition("\n")[2])
        return self._command(line["words"]) if line else {"completions": []}

    def _option(self, words: list[str]) -> dict[str, Any]:
        from kin_nb.notebook.options import options_parser  # noqa: PLC0415  (the first Tab)

        *earlier, typed = words
        if earlier and earlier[-1] == "--mode":
            return _of(typed, self._modes())
        if earlier and earlier[-1] == "--model":
            return _of(typed, [model.alias for model in self._session().live.config().models])
        return _of(typed, options_parser().names)

    def _command(self, typed: str) -> dict[str, Any]:
        from kin_nb.core.commands import COMMANDS  # noqa: PLC0415  (the first Tab)

        name, _, rest = typed.partition(" ")
        if typed == name:
            return _of(typed, [f"{each}:" if command.asks else each for each, command in COMMANDS.items()])
        if name == "mode":
            return _of(rest, self._modes())
        if name == "model":
            return _of(rest, [model.alias for model in self._session().live.config().models])
        return _of("", ())

    def _in_prompt(self, text: str) -> dict[str, Any]:
        from kin_nb.core.autocompletion.completers import CommandCompleter  # noqa: PLC0415  (the first Tab)
        from kin_nb.core.autocompletion.path_prompt import typed_mention  # noqa: PLC0415
        from kin_nb.core.commands import command_names  # noqa: PLC0415

        commands = CommandCompleter(command_names({}, {})).complete(text, len(text))
        if commands:
            return _these([each.text for each in commands], text[commands[0].start :])
        mention = typed_mention(text)
        if mention is None:
            return _as_it_is(text)
        start, typed = mention
        names = [f"@{name}" for name in self._variables() if name.startswith(typed)]
        paths = [each.text for each in self._path_completer().complete(text, len(text))]
        return _these([*names, *paths], text[start:])

    def _variables(self) -> list[str]:
        hidden = self._shell.user_ns_hidden
        return [
            "error",
            *sorted(name for name in self._shell.user_ns if not name.startswith("_") and name not in hidden),
        ]

    def _path_completer(self) -> Completer:
        if self._paths is None:
            from kin_nb.core.autocompletion.completers import PathCompleter  # noqa: PLC0415  (the first Tab)
            from kin_nb.core.autocompletion.file_indexer import FileIndexer  # noqa: PLC0415

            self._paths = PathCompleter(FileIndexer(self._session().live.config().effective_workdir))
        return self._paths

    def _modes(self) -> list[str]:
        from kin_nb.core.modes import AgentMode  # noqa: PLC0415  (the first Tab)

        return [mode.value.replace("_", "-") for mode in AgentMode]


def _as_it_is(text: str) -> dict[str, Any]:
    """Complete a word with itself: a matcher without completions cannot suppress jedi, which completes Python in prose."""
    line = text.rpartition("\n")[2]
    word = line.rpartition(" ")[2] or line[-1:]
    return _these([word] if word else [], word)


def _of(typed: str, words: Iterable[str]) -> dict[str, Any]:
    return _these([word for word in words if word.startswith(typed)], typed)


def _these(texts: list[str], typed: str) -> dict[str, Any]:
    """Return these completions in place of `typed`, and suppress those of other matchers."""
    completions = [SimpleCompletion(text=text, type="kin") for text in texts]
    return {"completions": completions, "suppress": True, "matched_fragment": typed, "ordered": True}
