"""What may stand at the cursor of a prompt: `@path` and `/command`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kin_nb.core.autocompletion.file_indexer.indexer import FileIndexer
from kin_nb.core.autocompletion.fuzzy import best_matches
from kin_nb.core.autocompletion.path_prompt import typed_mention, written_mention
from kin_nb.core.ignore.ignore_rules import Entry

_COMMAND = re.compile(r"\s*(/[^\s/]*)")


@dataclass(frozen=True)
class Completion:
    """`text` replaces what is between `start` (an index of the prompt) and the cursor; `display` is for the list."""

    text: str
    display: str
    description: str
    start: int


class Completer(Protocol):
    def complete(self, text: str, cursor: int) -> list[Completion]:
        """The best first; empty when it has nothing to say at this place. `cursor` is an index of `text`."""
        ...


class PathCompleter:
    """`@src/ma`: files and folders of the workspace; `/` after a folder, so that one types on.

    After `@` and after a `/` what is in that folder; else what matches anywhere. Names with a leading dot only when a
    dot was typed.
    """

    def __init__(self, indexer: FileIndexer, *, most: int = 50) -> None:
        self._indexer = indexer
        self._most = most
        self._entries: Sequence[Entry] = ()
        self._paths: list[str] = []
        self._plain_paths: list[str] = []

    def complete(self, text: str, cursor: int) -> list[Completion]:
        start, typed = typed_mention(text[:cursor]) or (0, "/")
        if typed.startswith("/"):  # nothing of the workspace
            return []
        typed = typed.removeprefix("./")
        folder, _, name = typed.rpartition("/")
        paths = self._matching(typed) if name else self._in_folder(folder)
        completions = []
        for path in paths:
            written = written_mention(path)
            if written is not None:
                is_folder = path.endswith("/")
                written = written.removesuffix('"') if is_folder else written  # one types on inside the quotes
                completions.append(Completion(written, path, "folder" if is_folder else "", start))
        return completions

    def _in_folder(self, folder: str) -> list[str]:
        shown = [entry for entry in self._indexer.children(folder) if not _is_hidden(entry.path[len(folder) :])]
        shown.sort(key=lambda entry: (not entry.is_dir, entry.path.lower()))
        return [_path(entry) for entry in shown[: self._most]]

    def _matching(self, typed: str) -> list[str]:
        entries = self._indexer.entries()
        if entries is not self._entries:  # the same object until something changes
            self._entries = entries
            self._paths = [_path(entry) for entry in entries]
            self._plain_paths = [path for path in self._paths if not _is_hidden(path)]
        paths = self._paths if _is_hidden(typed) else self._plain_paths
        return [match.text for match in best_matches(typed, paths, self._most)]


class CommandCompleter:
    """`/comm` at the start of a prompt. `commands`: names without the `/`, and what each does."""

    def __init__(self, commands: Mapping[str, str]) -> None:
        self._commands = commands

    def complete(self, text: str, cursor: int) -> list[Completion]:
        match = _COMMAND.fullmatch(text[:cursor])
        if match is None:
            return []
        found = best_matches(match[1][1:], sorted(self._commands), len(self._commands))
        return [
            Completion(f"/{name}", f"/{name}", self._commands[name], match.start(1)) for name in (m.text for m in found)
        ]


class MultiCompleter:
    """Several in one: the first that has something to say."""

    def __init__(self, completers: Iterable[Completer]) -> None:
        self._completers = tuple(completers)

    def complete(self, text: str, cursor: int) -> list[Completion]:
        answers = (completer.complete(text, cursor) for completer in self._completers)
        return next(filter(None, answers), [])


def _path(entry: Entry) -> str:
    return f"{entry.path}/" if entry.is_dir else entry.path


def _is_hidden(path: str) -> bool:
    return path.startswith(".") or "/." in path
