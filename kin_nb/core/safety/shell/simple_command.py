"""One simple command of a shell line, with what reaches it from the rest of the line."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class SimpleCommand:
    """`words`: quotes taken off, redirections left out, variables in the place of which the line spells a text filled in.

    Without words it stands for a group, or for a redirection alone: what it reads is what it prints.
    """

    words: list[str] = field(default_factory=list)
    has_input: bool = False
    """It reads from a pipe, a file or a here-document."""
    inputs: list[SimpleCommand] = field(default_factory=list)
    """What it reads: the command before the pipe, or one that prints the same as the file or the text does."""
    writes: list[str] = field(default_factory=list)
    """The files that its output is redirected to."""
    made_by: dict[int, list[SimpleCommand]] = field(default_factory=dict)
    """For each word (by index) that begins with a substitution, or names a file that the line writes: the commands behind it."""
    level: int = 0
    """Parentheses around it: a `cd` in there ends with them."""
    function: str = ""
    """In whose body it stands."""
    beside: bool = False
    """It runs beside what follows (`&`)."""


def program(command: SimpleCommand) -> str:
    """Its program's name, without the folder."""
    return command.words[0].rpartition("/")[2] if command.words else ""


def is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.removesuffix("+").isidentifier()
