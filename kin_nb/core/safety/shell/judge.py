"""The judgement of one command line; and of one that is not proven, the sensitive files that it writes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from kin_nb.core.safety.shell.dangerous import danger
from kin_nb.core.safety.shell.judgement import Judgement, UnprovenError
from kin_nb.core.safety.shell.reader.nested_commands import simple_commands
from kin_nb.core.safety.shell.reader.simple_command import program
from kin_nb.core.tool_types import ToolError
from kin_nb.core.workspace import Workspace

ONLY_READS = "every command in it is known, and only reads"


_WRITERS = frozenset(
    (
        *("chmod", "chown", "cp", "curl", "dd", "install", "ln", "mv", "patch", "perl", "rm", "rsync", "sed", "tee"),
        *("touch", "truncate", "unlink", "wget"),
    )
)
"""Programs that change the files that they name, or some of them."""
_PLAIN = re.compile(r"[^$`*?\[\]{}]+")


def sensitive_writes(command: str, workspace: Workspace) -> tuple[str, ...]:
    """The sensitive files that an unproven command surely names as what it changes: redirections, arguments of `cp` and such.

    Never all of them: what a script or a substitution writes is not known. Such a command asks too, as every unproven one.
    """
    named: list[str] = []
    for simple in simple_commands(command):
        named += simple.writes
        if program(simple) in _WRITERS:
            named += [word.removeprefix("of=") for word in simple.words[1:] if not word.startswith("-")]
    return tuple(path for path in dict.fromkeys(named) if _PLAIN.fullmatch(path) and _is_sensitive(path, workspace))


def _is_sensitive(path: str, workspace: Workspace) -> bool:
    try:
        return workspace.is_sensitive(workspace.resolve(path), "write") is not None
    except (ToolError, OSError):
        return False


def judge(command: str, root: Path, environment: Mapping[str, str] | None = None) -> Judgement:
    """What running `command` in the workspace `root` would do. Never raises; takes milliseconds.

    `environment`: the variables that the command will see, for PATH and HOME; this process's when absent. The answer
    holds for the moment: it looks at folders, programs and git's settings as they are now.
    """
    environment = os.environ if environment is None else environment
    root = root.resolve()
    why = danger(command, root, environment)
    if why:
        return Judgement("dangerous", why)
    try:
        from kin_nb.core.safety.shell.read_only.prover import prove  # noqa: PLC0415  (loads tree-sitter)

        return Judgement("harmless", ONLY_READS, prove(command, root, environment))
    except UnprovenError as error:
        return Judgement("unknown", str(error))
    except ImportError as error:
        return Judgement("unknown", f"nothing can be proven here, {error.name} is missing")
    except (OSError, ValueError, RecursionError) as error:  # an unreadable folder, a name that no file can have
        return Judgement("unknown", f"it cannot be proven harmless: {type(error).__name__}")
