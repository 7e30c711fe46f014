"""Proves that a line only reads: every part of its tree is of a kind that is known, every command is in the tables.

Nothing here guesses. The first part that is not proven ends the proof, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from kin_nb.core.safety.shell.agreed import check_agreement
from kin_nb.core.safety.shell.joined import JOINED, Part, Pipeline, pipelines
from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.place import Ends, Place
from kin_nb.core.safety.shell.program import Call
from kin_nb.core.safety.shell.programs.conditions import files_asked_about
from kin_nb.core.safety.shell.programs.table import check_origin, known_program
from kin_nb.core.safety.shell.syntax import WORDS, apart, parse, parts, refused, shown, text_of, unclear
from kin_nb.core.safety.shell.words import Word, WordReader, expanded, folders_listed
from kin_nb.core.safety.shell.wrappers import WRAPPERS, wrapped

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_COMMANDS = 300
"""Commands that are looked at, those in a loop once for each of its values."""
_BETWEEN = frozenset((";", "\n", "comment"))
_OWN_NAME = re.compile(r"[a-z][a-z0-9_]*|[A-Z]", re.ASCII)


def prove(command: str, root: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """What the line reads, as `Judgement.reads`. Raises UnprovenError."""
    source = command.encode()
    tree, proof, place = parse(command), _Proof(source), Place(root, root, environment)
    check_origin("bash", place)
    proof.statements(tree, place)
    check_agreement(tree, source)
    return tuple(dict.fromkeys(proof.reads))


class _Proof:
    def __init__(self, source: bytes) -> None:
        self._source = source
        self._commands = 0
        self.reads: list[str] = []

    def statements(self, node: Node, place: Place, around: tuple[str, ...] = ()) -> Ends:
        """The statements in a node, one after another. `around`: the words around them. Returns where they lead."""
        before: Node | None = None
        ends = Ends.at(place)
        for part in parts(node, self._source):
            if part.type == "comment" and before is not None and not apart(before, part, self._source):
                raise unclear(part, self._source)
            if part.type not in _BETWEEN and part.type not in around:
                ends = self._statement(part, *ends.all)
            before = part
        return ends

    def _statement(self, node: Node, *places: Place) -> Ends:
        """Where the statement leads, `cd` and all, from the one place that it runs in. Raises UnprovenError."""
        place, kind = self._certain(node, places), node.type
        if kind in JOINED:
            return self._joined(node, place)
        if kind == "command":
            return self._command(*self._words(node, place), place)
        if kind == "compound_statement":
            return self.statements(node, place, ("{", "}"))
        if kind == "subshell" and not text_of(node, self._source).startswith("(("):
            self.statements(node, place, ("(", ")"))
        elif kind in _SCOPED:
            _SCOPED[kind](self, node, place)
        else:
            raise refused(node, self._source)
        return Ends.at(place)

    def _certain(self, node: Node, places: tuple[Place, ...]) -> Place:
        if any(other != places[0] for other in places):
            where = shown(text_of(node, self._source))
            raise UnprovenError(f"{where} may run in one folder or another: the `cd` before it may not have run")
        return places[0]

    def _stays(self, node: Node, place: Place, ends: Ends) -> None:
        """For what may or may not run: it must not change the folder for what follows."""
        if any(end != place for end in ends.all):
            raise UnprovenError(f"{shown(text_of(node, self._source))} may or may not change the folder")

    def _joined(self, node: Node, place: Place) -> Ends:
        ends = Ends((place,), ())
        for pipeline in pipelines(node, self._source):
            before = ends.failed or (place,) if pipeline.operator == "||" else ends.succeeded
            after = self._pipeline(pipeline, *before)
            if pipeline.operator == "||":
                self._stays(node, before[0], after)
                ends = Ends(ends.all, ends.failed)
            else:
                ends = Ends(after.succeeded, (*ends.failed, *after.failed))
        return ends

    def _pipeline(self, pipeline: Pipeline, *places: Place) -> Ends:
        place, first = self._certain(pipeline.parts[0].node, places), pipeline.parts[0]
        found = [self._part(part, place) for part in pipeline.parts]
        if len(found) > 1:  # each in a shell of its own
            return Ends.at(place)
        if pipeline.negated:
            self._stays(first.node, place, found[0])
        return found[0]

    def _part(self, part: Part, place: Place) -> Ends:
        node = part.node
        ends = self._redirected(node, place) if node.type == "redirected_statement" else self._statement(node, place)
        if any(self._redirection(redirection, place) for redirection in part.redirections):
            raise unclear(node, self._source)
        return self._or_none(part.redirections, ends, place)

    def branches(self, node: Node, place: Place) -> None:
        for part in parts(node, self._source):
            if part.type in ("elif_clause", "else_clause"):
                self.branches(part, place)
            elif part.type not in _BETWEEN and part.type not in ("if", "then", "elif", "else", "fi"):
                self._stays(part, place, self._statement(part, place))

    def loop(self, node: Node, place: Place) -> None:
        """A `for` over words that are known: its body is proven once for each."""
        head = [part for part in parts(node, self._source) if part.type not in _BETWEEN]
        if len(head) < 4 or [head[0].type, head[1].type, head[2].type] != ["for", "variable_name", "in"]:  # noqa: PLR2004
            raise refused(node, self._source)
        name, body = text_of(head[1], self._source), head[-1]
        taken = name in place.environment or name in place.variables  # a loop inside another would leave it changed
        if not _OWN_NAME.fullmatch(name) or taken or body.type != "do_group":
            raise UnprovenError(f"the loop sets the variable {shown(name)}")
        for value in self._texts([self._word(part, place) for part in self._apart(head[3:-1])], place):
            inside = replace(place, variables={**place.variables, name: value})
            if any(end != inside for end in self.statements(body, inside, ("do", "done")).all):
                raise UnprovenError("the loop changes the folder")

    def _redirected(self, node: Node, place: Place) -> Ends:
        body, *redirections = parts(node, self._source)
        if body.type == "file_redirect":
            body, redirections = node, [body, *redirections]
        moved = [word for part in redirections for word in self._redirection(part, place)]
        if body.type == "command":
            words, more = self._words(body, place)
            ends = self._command([*words, *moved], more, place)
        elif moved:
            raise unclear(node, self._source)
        else:
            ends = Ends.at(place) if body is node else self._statement(body, place)
        return self._or_none(redirections, ends, place)

    def _or_none(self, redirections: list[Node], ends: Ends, place: Place) -> Ends:
        """Nothing runs when the file that is to be read is not there."""
        reads = any(part.type == "<" for node in redirections for part in node.children)
        return replace(ends, failed=(*ends.failed, place)) if reads else ends

    def _redirection(self, node: Node, place: Place) -> list[Word]:
        """The words behind it, which belong to the command. Raises UnprovenError unless it reads, or leads nowhere."""
        if node.type != "file_redirect":
            raise refused(node, self._source)
        found = parts(node, self._source, one_line=True)
        if found[0].type == "file_descriptor":  # agreed.py has a look at it
            found = found[1:]
        operator, *words = found
        target, *rest = [self._word(word, place) for word in self._apart(words)] or [Word("", "", known=False)]
        into = target.text if target.known and not target.pattern else ""
        if operator.type == "<" and into:
            self._read(into, place)
        elif operator.type == ">&" and re.fullmatch(r"[12]", into):
            pass
        elif operator.type not in (">", ">>", "&>", "&>>", ">&", ">|") or into != "/dev/null":
            raise UnprovenError(f"{shown(text_of(node, self._source))} sends output to a file")
        return rest

    def condition(self, node: Node, place: Place) -> None:
        first, *inner, last = parts(node, self._source, one_line=True)
        if (first.type, last.type) not in (("[", "]"), ("[[", "]]")):
            raise refused(node, self._source)
        leaves = self._apart([first, *(leaf for part in inner for leaf in self._leaves(part)), last])[1:-1]
        words = [self._word(leaf, place) if leaf.is_named else self._operator(leaf) for leaf in leaves]
        if any(word.pattern for word in words):
            raise unclear(node, self._source)
        for name in files_asked_about(words):
            self._read(place.named(name), place)

    def _operator(self, node: Node) -> Word:
        text = text_of(node, self._source)
        return Word(text, text)

    def _leaves(self, node: Node) -> Iterator[Node]:
        if node.type in ("unary_expression", "binary_expression", "negation_expression"):
            for part in parts(node, self._source, one_line=True):
                yield from self._leaves(part)
        else:
            yield node

    def _words(self, node: Node, place: Place) -> tuple[list[Word], list[Node]]:
        words: list[Node] = []
        redirections: list[Node] = []
        for part in self._apart(parts(node, self._source, one_line=True)):
            if part.type == "file_redirect":
                redirections.append(part)
            elif part.type == "command_name" and part.children:
                words.append(part.children[0])
            elif part.type in WORDS:
                words.append(part)
            else:
                raise refused(part, self._source)
        return [self._word(word, place) for word in words], redirections

    def _apart(self, nodes: list[Node]) -> list[Node]:
        """The nodes, when there is a blank between each two; for bash they would be one word."""
        for before, after in pairwise(nodes):
            if after.type != "file_redirect" and not apart(before, after, self._source):
                raise unclear(after, self._source)
        return nodes

    def _word(self, node: Node, place: Place) -> Word:
        begin = len(self._source[: node.start_byte].decode())
        inside = dict(self._substitutions(node, place))
        return WordReader(
            text_of(node, self._source), {start - begin: end - begin for start, end in inside.items()}, place.value
        ).read()

    def _substitutions(self, node: Node, place: Place) -> Iterator[tuple[int, int]]:
        """Where each `$(...)` in a word begins and ends, in characters of the line. What it runs is proven here."""
        if node.type == "command_substitution" and self._source[node.start_byte : node.end_byte].lstrip()[:2] == b"$(":
            self.statements(node, place, (node.children[0].type, ")"))
            text = text_of(node, self._source)
            end = len(self._source[: node.end_byte].decode())
            yield end - len(text.lstrip()), end
            return
        for child in node.children:
            yield from self._substitutions(child, place)

    def _command(self, words: list[Word], redirections: list[Node], place: Place) -> Ends:
        """Where a simple command leads. Raises UnprovenError unless it is known and harmless."""
        self._commands += 1
        if self._commands > _MOST_COMMANDS:
            raise UnprovenError(f"it runs more than {_MOST_COMMANDS} commands")
        words = [*words, *(word for part in redirections for word in self._redirection(part, place))]
        if not words or not words[0].known or words[0].pattern or "$" in words[0].raw:
            raise UnprovenError(f"{shown(words[0].raw) if words else 'the command'} is known only when it runs")
        name = words[0].text
        if name == "echo":
            self._texts(words[1:], place, any_text=True)
            return Ends.at(place)
        if name == "printf" and len(words) > 1 and words[1].is_no_flag:  # then all that follows is text
            self._texts(words[2:], place, any_text=True)
            words = words[:2]
        if name == "test":
            for asked in files_asked_about(words[1:]):
                self._read(place.named(asked), place)
            return Ends.at(place)
        return self._or_none(redirections, self._known_command(name, self._texts(words[1:], place), place), place)

    def _known_command(self, name: str, words: list[str], place: Place) -> Ends:
        if name == "cd" and len(words) == 1 and not words[0].startswith("-"):
            return Ends((place.moved(words[0]),), ())
        if name in WRAPPERS:
            inner = wrapped(name, words)
            for program in (name, *inner[:1]):  # not the shell's own, even where it has one
                check_origin(program, place)
            if inner and inner[0] != "echo":
                self._known_command(inner[0], inner[1:], place)
            return Ends.at(place)
        for read in known_program(name, place).prove(Call(name, words, place)):
            self._read(read, place)
        return Ends.at(place)

    def _texts(self, words: list[Word], place: Place, *, any_text: bool = False) -> list[str]:
        """What the words are when it runs, globs and all. `any_text`: it does not matter what they are."""
        unknown = next((word for word in words if not word.known), None)
        if unknown is not None and not any_text:
            raise UnprovenError(f"{shown(unknown.raw)} is known only when it runs")
        return [text for word in words for text in (self._files(word, place) if word.known else [word.text])]

    def _files(self, word: Word, place: Place) -> list[str]:
        """The texts that a word stands for. The folders that bash lists to find them are read."""
        for folder in folders_listed(word, texts := expanded(word, place.cwd)):
            self._read(folder, place)
        return texts

    def _read(self, word: str, place: Place) -> None:
        if (path := place.read(word)) is not None:
            self.reads.append(path)


_SCOPED: Mapping[str, Callable[[_Proof, Node, Place], None]] = {
    "test_command": _Proof.condition,
    "if_statement": _Proof.branches,
    "for_statement": _Proof.loop,
}
"""Statements that leave the folder as it is for what follows them."""
