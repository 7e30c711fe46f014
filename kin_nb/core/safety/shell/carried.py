"""The commands inside a command: what `sudo`, `env`, `timeout`, `bash -c`, `eval` and their like are told to run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kin_nb.core.safety.shell.split import SimpleCommand, split

SHELLS = frozenset(("bash", "sh", "zsh", "dash", "fish", "ksh"))
_LEADS_TO_ANOTHER = frozenset(
    (
        *("sudo", "doas", "env", "command", "builtin", "exec", "nohup", "time", "nice", "timeout", "xargs"),
        *("setsid", "stdbuf", "ionice", "busybox", "coproc"),
        *("if", "then", "elif", "else", "while", "until", "do", "!", "{"),
    )
)

_OPTIONS_WITH_VALUE = {
    "sudo": "ugpCrtUDhR",
    "doas": "uC",
    "env": "uC",
    "timeout": "sk",
    "nice": "n",
    "xargs": "InPLdasE",
    "exec": "a",
    "stdbuf": "ioe",
    "ionice": "cn",
}
_LONGEST_CHAIN = 20
"""Commands in commands (`sudo env nice ...`) that are followed."""


def simple_commands(command: str, depth: int = 5) -> Iterator[SimpleCommand]:
    """Every simple command of a line, and each that is carried by another, as far as reading alone can tell."""
    for found in split(command):
        for _ in range(_LONGEST_CHAIN):
            if not found.words:
                break
            yield found
            inner = _script(found.words)
            if inner is not None and depth:
                yield from simple_commands(inner, depth - 1)
            found = carried(found)  # noqa: PLW2901  (the next one inside it)
        if found.writes and not found.words:  # a redirection alone
            yield found


def carried(command: SimpleCommand) -> SimpleCommand:
    """The command inside one: after `sudo`, `FOO=1`, `timeout 5`. Without words when there is none."""
    words = command.words
    if program(command) not in _LEADS_TO_ANOTHER and not _is_assignment(words[0]):
        return SimpleCommand()
    skipped = 1
    if words[0] == "command" and words[1:2] in (["-v"], ["-V"]):  # asks where a program is
        return SimpleCommand()
    valued = _OPTIONS_WITH_VALUE.get(program(command), "")
    while skipped < len(words) and (words[skipped].startswith("-") or words[skipped][:1].isdigit()):
        option = words[skipped]
        skipped += 2 if len(option) == 2 and option[1] in valued else 1  # noqa: PLR2004  (`-u root`)
    made_by = {index - skipped: commands for index, commands in command.made_by.items()}
    return replace(command, words=words[skipped:], made_by=made_by)


def program(command: SimpleCommand) -> str:
    """Its program's name, without the folder."""
    return command.words[0].rpartition("/")[2] if command.words else ""


def _script(words: list[str]) -> str | None:
    """The text that a shell is given to run."""
    name = words[0].rpartition("/")[2]
    if name == "eval":
        return " ".join(words[1:])
    options = [i for i, word in enumerate(words[:-1]) if word.startswith("-") and word.endswith("c")]
    return words[options[0] + 1] if name in SHELLS and options else None


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()
