"""Find the commands inside a command: of `sudo`, `env`, `timeout`, `bash -c`, `eval`, `find -exec` and similar programs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import dropwhile, pairwise

from kin_nb.core.safety.shell.command_prefix import split_git_options
from kin_nb.core.safety.shell.reader.parser import parse_commands
from kin_nb.core.safety.shell.reader.simple_command import (
    MOST_VALUES,
    ShellState,
    SimpleCommand,
    find_roots,
    is_assignment,
    predicted_output,
    program,
)

_ARCHITECTURE = re.compile(
    r"linux\d\d|uname26|i\d86|x86_64|aarch64|alpha|ia64|(arm|loongarch|mips|parisc|ppc|riscv|s390|sparc)\w*"
)


@dataclass(frozen=True)
class Launcher:
    """A program whose arguments contain a command to run (`sudo`, `strace`, `chroot`), and where that command begins.

    `letters`, `long`: options whose value is the next word. `operands`: number of words between the options and the command.
    `amounts`: numbers may come before the command (`timeout 5`). `in_a_shell`: a shell runs the rest as one text.
    """

    letters: str = ""
    long: str = ""
    operands: int = 0
    amounts: bool = True
    in_a_shell: bool = False

    def begin(self, words: list[str]) -> int:
        """The index of the command's first word."""
        index = 1
        while index < len(words):
            word = words[index]
            if word.startswith("-"):
                index += 2 if self._takes_the_next(word) else 1
            elif (self.amounts and word[:1].isdigit()) or (words[0].endswith("setarch") and _is_architecture(word)):
                index += 1
            else:
                break
        return min(index + self.operands, len(words))

    def _takes_the_next(self, option: str) -> bool:
        if option.startswith("--"):
            return option[2:] in self.long.split()
        first = next((at for at, letter in enumerate(option) if at and letter in self.letters), 0)
        return first == len(option) - 1  # otherwise its value is in the same word, or it has none


def _is_architecture(word: str) -> bool:
    return _ARCHITECTURE.fullmatch(word) is not None


_SUDO = "user group host prompt close-from chdir chroot role type other-user command-timeout"
_NAMESPACES = "root wd setuid setgid map-user map-group map-users map-groups propagation target"
LAUNCHERS = {
    **dict.fromkeys(("command", "builtin", "nohup", "setsid", "busybox", "coproc", "fakeroot", "unbuffer"), Launcher()),
    **dict.fromkeys(("setarch", "linux32", "linux64", "i386", "x86_64", "uname26"), Launcher()),
    **dict.fromkeys(("unshare", "nsenter"), Launcher("RwSGt", _NAMESPACES)),
    "sudo": Launcher("ugpCrtUDhRT", _SUDO),
    "doas": Launcher("uC"),
    "pkexec": Launcher("", "user"),
    "env": Launcher("uC", "unset chdir"),
    "timeout": Launcher("sk", "signal kill-after"),
    "nice": Launcher("n", "adjustment"),
    "ionice": Launcher("cn", "class classdata"),
    "taskset": Launcher(),
    "chrt": Launcher("TPD"),
    "xargs": Launcher("InPLdasE", "max-args max-procs max-chars delimiter arg-file"),
    "exec": Launcher("a"),
    "stdbuf": Launcher("ioe", "input output error"),
    "time": Launcher("of", "output format"),
    "watch": Launcher("n", "interval", in_a_shell=True),
    "flock": Launcher("wE", "timeout conflict-exit-code", operands=1, amounts=False),
    "chroot": Launcher("", "userspec groups", operands=1, amounts=False),
    "strace": Launcher("abeEIoOpPsSuUX", "output trace columns string-limit env user attach"),
    "ltrace": Launcher("aADeFlnopsuwx", "output align indent library"),
}
"""By the program's name."""


_PARALLEL = Launcher(
    "jaInNLlPSdCEsX",
    "jobs arg-file arg-sep max-args max-replace-args max-lines max-procs max-chars replace colsep delimiter delay joblog "
    "results sshlogin sshloginfile timeout tagstring retries halt load memfree nice tmpdir workdir basefile return env",
)
FIND_EXEC_OPTIONS = ("-exec", "-execdir", "-ok", "-okdir")
_LONGEST_CHAIN = 20
"""Most nested commands (`sudo env nice ...`) that are followed."""


def simple_commands(command: str) -> Iterator[SimpleCommand]:
    """Yield every simple command of a line, and every command nested in one."""
    state = ShellState()
    yield from _all(parse_commands(command, state), state, depth=5)


def _all(commands: list[SimpleCommand], state: ShellState, depth: int) -> Iterator[SimpleCommand]:
    for command in commands:
        found, given = command, dict[str, list[str]]()
        for _ in range(_LONGEST_CHAIN):
            if not found.words:
                break
            yield found
            if is_assignment(found.words[0]):  # `d=/ sh -c 'rm -rf $d'`
                name, _, value = found.words[0].partition("=")
                given[name] = [value]
            for text, words in (*inline_scripts(found), *_alias_script(found, state)) if depth else ():
                if text:
                    inside = state.for_call(words, given)
                    yield from _all(parse_commands(text, inside, found.inputs, found.level + 1), inside, depth - 1)
            found = nested_command(found)
        if found.writes and not found.words:  # only a redirection
            yield found


def _alias_script(command: SimpleCommand, state: ShellState) -> Iterator[tuple[str, list[str]]]:
    """The text of an alias that the line defines, with the words after it."""
    text = state.aliases.get(command.words[0], "")
    if text and text.split()[:1] != command.words[:1]:  # `alias ls='ls -l'` is not expanded again
        yield f"{text} {shlex.join(command.words[1:])}", []


def nested_command(command: SimpleCommand) -> SimpleCommand:
    """Return the command inside one: after `sudo`, `FOO=1`, `timeout 5`, `find -exec`. Without words when there is none."""
    words, name = command.words, program(command)
    if name == "find":
        return _find_exec_command(command)
    if name == "parallel":
        return _parallel_command(command)
    carrier = LAUNCHERS.get(name)
    if is_assignment(words[0]):
        carrier = LAUNCHERS["command"]
    if carrier is None:
        return SimpleCommand()
    asks = words[0] == "command" and words[1:2] in (["-v"], ["-V"])  # asks where a program is
    if asks or (name == "env" and env_script(words)):
        return SimpleCommand()
    begin = carrier.begin(words)
    inner = replace(command, words=words[begin:], producers=_after(command, begin))
    if carrier.in_a_shell and inner.words:
        return SimpleCommand(["eval", *inner.words], level=command.level)
    return _xargs_command(inner, words[1:begin]) if name == "xargs" and inner.words else inner


def _after(command: SimpleCommand, begin: int) -> dict[int, list[SimpleCommand]]:
    return {index - begin: commands for index, commands in command.producers.items()}


def _parallel_command(command: SimpleCommand) -> SimpleCommand:
    """The command of GNU parallel: its words with the values after `:::` or from its input, or the values alone."""
    words = command.words
    mark = next((at for at, word in enumerate(words) if word.startswith(":::")), len(words))
    begin = min(_PARALLEL.begin(words), mark)
    inner, given = words[begin:mark], [word for word in words[mark:] if not word.startswith(":::")]
    if mark == len(words):
        given = predicted_output(command.inputs).splitlines()[:MOST_VALUES]
    if not inner:
        return SimpleCommand(["eval", "; ".join(given)], level=command.level)
    if any("{}" in word for word in inner):
        inner = [new for word in inner for new in ([word.replace("{}", g) for g in given] if "{}" in word else [word])]
        given = []
    return SimpleCommand(["eval", *inner, *given], level=command.level)


def _xargs_command(command: SimpleCommand, options: list[str]) -> SimpleCommand:
    """The command of xargs with the words of its input, or with one unknown word."""
    if not command.inputs:
        return command
    given = predicted_output(command.inputs).split()[:MOST_VALUES]
    read, words = given or ["$"], command.words
    marks = [after for option, after in pairwise([*options, ""]) if option == "-I"]
    marks += [option[2:] or "{}" for option in options if option[:2] in ("-I", "-i") and option != "-I"]
    if marks and marks[0] and any(marks[0] in word for word in words):
        words = [
            new
            for word in words
            for new in ([word.replace(marks[0], text) for text in read] if marks[0] in word else [word])
        ]
        return replace(command, words=words, inputs=[])
    producers = command.producers if given else {**command.producers, len(words): command.inputs}
    return replace(command, words=[*words, *read], inputs=[], producers=producers)


def _find_exec_command(command: SimpleCommand) -> SimpleCommand:
    """The command of `find -exec`. `{}` is replaced by the searched folders when the search has no filter."""
    words = command.words
    begin = next((at for at, word in enumerate(words, 1) if word in FIND_EXEC_OPTIONS), len(words))
    end = next((at for at, word in enumerate(words) if at >= begin and word in (";", "+")), len(words))
    folders = find_roots(command)[:MOST_VALUES] if words.count("{}") == 1 else []  # several could multiply endlessly
    return replace(
        command,
        words=[new for word in words[begin:end] for new in (folders if word == "{}" and folders else [word])],
        producers={},
    )


SHELLS = frozenset(("bash", "sh", "zsh", "dash", "fish", "ksh", "ash", "rbash"))
SOURCES = frozenset(("source", "."))
STANDARD_INPUT = frozenset(("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"))
_HOLDS_A_PROGRAM = re.compile(r"-[emrp]$|-[^-]*c$")
_OPTION_OF_SHELL = re.compile(r"[-+]([A-Za-z]+)$|--\w[\w-]*")
_OPTIONS_WITH_VALUE = frozenset(("--rcfile", "--init-file"))
_RUN_AS_SHELL = frozenset(("su", "script", "flock"))
_SCRIPT_OPTION = re.compile(r"-[a-z]*c$|--command$")
_GIT_COMMAND_OPTIONS = {
    "rebase": re.compile(r"(?:-[a-z]*?x|--ex(?:ec?)?(?:=|$))(.*)", re.DOTALL),
    "difftool": re.compile(r"(?:-[a-z]*?x|--extc(?:md?)?(?:=|$))(.*)", re.DOTALL),
    "filter-branch": re.compile(r"--\w+-filter()$"),
}
"""git's subcommand -> the option whose value is a command, with a group for a value in the same word."""
_OF_ENV = {"--chdir": "C", "--split-string": "S", "--unset": "u"}
"""Options of `env` with a value -> their letters."""
_OF_ANOTHER_LANGUAGE = re.compile(r"#!(?!.*sh\b)")

_Script = tuple[str, list[str]]
"""The text of a script, and its arguments `$0`, `$1`, ..."""


def program_index(command: SimpleCommand) -> int | None:
    """Index of the word that is, or names, the program of an interpreter; None when it reads the program from its input."""
    words = command.words
    if program(command) in SHELLS:
        letters, index = _shell_options(words)
        reads = index == len(words) or ("c" not in letters and ("s" in letters or words[index] in STANDARD_INPUT))
        return None if reads else index
    for index, word in enumerate(words[1:], 1):
        if _HOLDS_A_PROGRAM.match(word):
            return index + 1 if index + 1 < len(words) else None
        if word in STANDARD_INPUT:
            return None
        if not word.startswith("-"):
            return index
    return None


def checks_syntax_only(command: SimpleCommand) -> bool:
    """Whether it is a shell that only checks the syntax: `bash -n`."""
    return program(command) in SHELLS and "n" in _shell_options(command.words)[0]


def _shell_options(words: list[str]) -> tuple[str, int]:
    """The letters of a shell's options, and the index of the word after them. `-o` takes the next word, also in a group."""
    letters, index = "", 1
    while index < len(words) and (option := _OPTION_OF_SHELL.match(words[index])):
        bundle = option[1] or ""
        letters += bundle if words[index][0] == "-" else ""
        index += 1 + bundle.count("o") + bundle.count("O") + (words[index] in _OPTIONS_WITH_VALUE)
    index += words[index : index + 1] == ["--"]
    return letters, min(index, len(words))


def inline_scripts(command: SimpleCommand) -> Iterator[_Script]:
    """Yield the texts that a command runs as shell code; "" for an unknown text."""
    name, words = program(command), command.words
    if name in SHELLS:
        yield _of_shell(command)
    elif name in SOURCES and len(words) > 1:
        made = command.inputs if words[1] in STANDARD_INPUT else command.producers.get(1, [])
        yield predicted_output(made), words[1:]
    elif name == "eval":
        yield " ".join(words[1:]), []
    elif name == "trap":
        yield next((word for word in words[1:] if not word.startswith("-")), ""), []
    elif name == "alias":
        yield from ((word.partition("=")[2], []) for word in words[1:])
    elif name in _RUN_AS_SHELL:
        yield next((text for option, text in pairwise(words[1:]) if _SCRIPT_OPTION.match(option)), ""), []
    elif name == "env":
        yield env_script(words), []
    elif name == "git":
        yield from ((text, []) for text in _git_scripts(words))
    elif 0 in command.producers and "/" in words[0]:
        text = predicted_output(command.producers[0])
        yield "" if _OF_ANOTHER_LANGUAGE.match(text) else text, words


def _of_shell(command: SimpleCommand) -> _Script:
    index, words = program_index(command), command.words
    letters, after = _shell_options(words)
    if "n" in letters:
        return "", []
    if index is None:
        return predicted_output(command.inputs), [*words[:1], *words[after:]]
    if "c" in letters:
        return words[index], words[index + 1 :]
    return predicted_output(command.producers.get(index, [])), words[index:]


def _git_scripts(words: list[str]) -> Iterator[str]:
    """Yield the commands that git runs for each submodule, commit, or bisect step."""
    rest = split_git_options(words)[0][1:]
    subcommand, given = "".join(rest[:1]), rest[1:]
    if subcommand == "bisect" and given[:1] == ["run"]:
        yield shlex.join(given[1:])
    elif subcommand == "submodule" and "foreach" in given:
        yield " ".join(dropwhile(lambda word: word.startswith("-"), given[given.index("foreach") + 1 :]))
    if option := _GIT_COMMAND_OPTIONS.get(subcommand):
        found = ((option.match(word), after) for word, after in pairwise([*given, ""]))
        yield from (option[1] or after for option, after in found if option)


def env_script(words: list[str]) -> str:
    """The shell code of `env -S "sh -c ..."` (one word with several) and of `env -C / ls` (another folder); else ""."""
    index, folder = 1, ""
    while index < len(words) and words[index].startswith("-"):
        kind, value = _option_of_env(words[index])
        if kind and value is None:
            index += 1
            value = "".join(words[index : index + 1])
        index += 1
        if kind == "S":
            text = " ".join([value or "", *words[index:]])
            return f"cd {shlex.quote(folder)}; {text}" if folder else text
        folder = value or "" if kind == "C" else folder
    return f"cd {shlex.quote(folder)}; env {shlex.join(words[index:])}" if folder else ""


def _option_of_env(word: str) -> tuple[str, str | None]:
    """The letter of an option with a value, and the value; None when it is the next word. Long options may be shortened."""
    name, equals, value = word.partition("=")
    if word.startswith("--"):
        kind = next((kind for long, kind in _OF_ENV.items() if len(name) > 2 and long.startswith(name)), "")  # noqa: PLR2004
        return kind, value if equals else None
    at = next((at for at, letter in enumerate(word) if letter in _OF_ENV.values()), 0)
    return word[at] if at else "", word[at + 1 :] or None
