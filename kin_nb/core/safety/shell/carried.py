"""The commands inside a command: what `sudo`, `env`, `timeout`, `bash -c`, `eval` and their like are told to run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from kin_nb.core.safety.shell.carriers import CARRIERS, Carrier
from kin_nb.core.safety.shell.known import MOST_VALUES, ShellState
from kin_nb.core.safety.shell.printed import printed, searched
from kin_nb.core.safety.shell.scripts import given_to_env, scripts
from kin_nb.core.safety.shell.simple_command import SimpleCommand, is_assignment, program
from kin_nb.core.safety.shell.split import split

_PARALLEL = Carrier(
    "jaInNLlPSdCEsX",
    "jobs arg-file arg-sep max-args max-replace-args max-lines max-procs max-chars replace colsep delimiter delay joblog "
    "results sshlogin sshloginfile timeout tagstring retries halt load memfree nice tmpdir workdir basefile return env",
)
FOR_EACH_FOUND = ("-exec", "-execdir", "-ok", "-okdir")
_LONGEST_CHAIN = 20
"""Commands in commands (`sudo env nice ...`) that are followed."""


def simple_commands(command: str) -> Iterator[SimpleCommand]:
    """Every simple command of a line, and each that is carried by another, as far as reading alone can tell."""
    known = ShellState()
    yield from _all(split(command, known), known, depth=5)


def _all(commands: list[SimpleCommand], known: ShellState, depth: int) -> Iterator[SimpleCommand]:
    for command in commands:
        found, given = command, dict[str, list[str]]()
        for _ in range(_LONGEST_CHAIN):
            if not found.words:
                break
            yield found
            if is_assignment(found.words[0]):  # `d=/ sh -c 'rm -rf $d'`
                name, _, value = found.words[0].partition("=")
                given[name] = [value]
            for text, words in (*scripts(found), *_of_alias(found, known)) if depth else ():
                if text:
                    inside = known.called_with(words, given)
                    yield from _all(split(text, inside, found.inputs, found.level + 1), inside, depth - 1)
            found = carried(found)
        if found.writes and not found.words:  # a redirection alone
            yield found


def _of_alias(command: SimpleCommand, known: ShellState) -> Iterator[tuple[str, list[str]]]:
    """What a word that the line has made an alias stands for, with the words after it."""
    text = known.aliases.get(command.words[0], "")
    if text and text.split()[:1] != command.words[:1]:  # `alias ls='ls -l'` is not followed again
        yield f"{text} {shlex.join(command.words[1:])}", []


def carried(command: SimpleCommand) -> SimpleCommand:
    """The command inside one: after `sudo`, `FOO=1`, `timeout 5`, `find -exec`. Without words when there is none."""
    words, name = command.words, program(command)
    if name == "find":
        return _for_each_found(command)
    if name == "parallel":
        return _in_parallel(command)
    carrier = CARRIERS.get(name)
    if is_assignment(words[0]):
        carrier = CARRIERS["command"]
    if carrier is None:
        return SimpleCommand()
    asks = words[0] == "command" and words[1:2] in (["-v"], ["-V"])  # where a program is
    if asks or (name == "env" and given_to_env(words)):
        return SimpleCommand()
    begin = carrier.begin(words)
    inner = replace(command, words=words[begin:], made_by=_after(command, begin))
    if carrier.in_a_shell and inner.words:
        return SimpleCommand(["eval", *inner.words], level=command.level)
    return _with_its_input(inner, words[1:begin]) if name == "xargs" and inner.words else inner


def _after(command: SimpleCommand, begin: int) -> dict[int, list[SimpleCommand]]:
    return {index - begin: commands for index, commands in command.made_by.items()}


def _in_parallel(command: SimpleCommand) -> SimpleCommand:
    """What GNU parallel runs: its words with what follows `:::`, or what it reads; those themselves when it has no words."""
    words = command.words
    mark = next((at for at, word in enumerate(words) if word.startswith(":::")), len(words))
    begin = min(_PARALLEL.begin(words), mark)
    inner, given = words[begin:mark], [word for word in words[mark:] if not word.startswith(":::")]
    if mark == len(words):
        given = printed(command.inputs).splitlines()[:MOST_VALUES]
    if not inner:
        return SimpleCommand(["eval", "; ".join(given)], level=command.level)
    if any("{}" in word for word in inner):
        inner = [new for word in inner for new in ([word.replace("{}", g) for g in given] if "{}" in word else [word])]
        given = []
    return SimpleCommand(["eval", *inner, *given], level=command.level)


def _with_its_input(command: SimpleCommand, options: list[str]) -> SimpleCommand:
    """What xargs runs, with the words that it reads, or one that is not known in their place."""
    if not command.inputs:
        return command
    known = printed(command.inputs).split()[:MOST_VALUES]
    read, words = known or ["$"], command.words
    marks = [after for option, after in pairwise([*options, ""]) if option == "-I"]
    marks += [option[2:] or "{}" for option in options if option[:2] in ("-I", "-i") and option != "-I"]
    if marks and marks[0] and any(marks[0] in word for word in words):
        words = [
            new
            for word in words
            for new in ([word.replace(marks[0], text) for text in read] if marks[0] in word else [word])
        ]
        return replace(command, words=words, inputs=[])
    made_by = command.made_by if known else {**command.made_by, len(words): command.inputs}
    return replace(command, words=[*words, *read], inputs=[], made_by=made_by)


def _for_each_found(command: SimpleCommand) -> SimpleCommand:
    """What `find -exec` runs; `{}` stands for all the folders, where it is run for all that is in them."""
    words = command.words
    begin = next((at for at, word in enumerate(words, 1) if word in FOR_EACH_FOUND), len(words))
    end = next((at for at, word in enumerate(words) if at >= begin and word in (";", "+")), len(words))
    folders = searched(command)[:MOST_VALUES] if words.count("{}") == 1 else []  # more could multiply without end
    return replace(
        command,
        words=[new for word in words[begin:end] for new in (folders if word == "{}" and folders else [word])],
        made_by={},
    )
