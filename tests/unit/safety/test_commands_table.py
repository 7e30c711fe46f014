"""commands.toml: the commands that are known to only read."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from kin_nb.core.safety.shell import read_only
from kin_nb.core.safety.shell.read_only.command_spec import specs
from kin_nb.core.safety.shell.read_only.commands import BUILTINS, PROGRAMS
from kin_nb.core.safety.shell.read_only.filters import FILTERS

TABLE = tomllib.loads((Path(read_only.__file__).parent / "commands.toml").read_text(encoding="utf-8"))
NOT_COMMANDS = {"options", "git_why", "find", "jq"}


def names(section: str) -> list[str]:
    return [name for command, values in TABLE[section].items() for name in (command, *values.get("same", ()))]


def test_a_command_is_listed_once_and_every_listed_command_is_known():
    sections = TABLE.keys() - NOT_COMMANDS - {"git"}
    listed = Counter(name for section in sections for name in names(section))
    assert {name for name, times in listed.items() if times > 1} == set()
    assert listed.keys() == (BUILTINS.keys() | PROGRAMS.keys() | FILTERS.keys()) - {"find", "ps", "jq"}
    assert max(Counter(names("git")).values()) == 1


def test_a_check_that_is_not_written_is_an_error_and_not_a_command_without_a_check():
    with pytest.raises(KeyError, match="date"):
        specs("system", checks={})
