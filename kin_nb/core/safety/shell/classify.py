"""Classify one command line. Also: the sensitive files that an unproven command writes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from kin_nb.core.safety.shell.classification import Classification, UnprovenError
from kin_nb.core.safety.shell.dangerous import danger
from kin_nb.core.safety.shell.reader.nested_commands import simple_commands
from kin_nb.core.safety.shell.reader.simple_command import program
from kin_nb.core.tool_types import ToolError
from kin_nb.core.workspace import Workspace

ONLY_READS = "every command in it is a known read-only command"


_WRITERS = frozenset(
    (
        *("chmod", "chown", "cp", "curl", "dd", "install", "ln", "mv", "patch", "perl", "rm", "rsync", "sed", "tee"),
        *("touch", "truncate", "unlink", "wget"),
    )
)
"""Programs that write some of the files in their arguments."""
_PLAIN = re.compile(r"[^$`*?\[\]{}]+")


def sensitive_writes(command: str, workspace: Workspace) -> tuple[str, ...]:
    """Return the sensitive files that an unproven command names as its output: redirections, arguments of `cp` and others.

    The list is not complete: the output of a script or a substitution is unknown. Each unproven command asks in any case.
    """
    named: list[str] = []
    for simple in simple_commands(command):
        named += (path for path in simple.writes if path != os.devnull)
        if program(simple) in _WRITERS:
            named += [word.removeprefix("of=") for word in simple.words[1:] if not word.startswith("-")]
    return tuple(path for path in dict.fromkeys(named) if _PLAIN.fullmatch(path) and _is_sensitive(path, workspace))


def _is_sensitive(path: str, workspace: Workspace) -> bool:
    try:
        return workspace.is_sensitive(workspace.resolve(path), "write") is not None
    except (ToolError, OSError):
        return False


def classify(command: str, root: Path, environment: Mapping[str, str] | None = None) -> Classification:
    """Classify `command`, run in the workspace `root`. Never raises; takes milliseconds.

    `environment`: the variables of the command; those of this process by default. The result depends on folders, programs and
    git's settings as they are now.
    """
    environment = os.environ if environment is None else environment
    root = root.resolve()
    why = danger(command, root, environment)
    if why:
        return Classification("dangerous", why)
    try:
        from kin_nb.core.safety.shell.read_only.prover import prove  # noqa: PLC0415  (loads tree-sitter)

        return Classification("read-only", ONLY_READS, prove(command, root, environment))
    except UnprovenError as error:
        return Classification("unknown", str(error))
    except ImportError as error:
        return Classification("unknown", f"nothing can be proven: the package {error.name} is missing")
    except (OSError, ValueError, RecursionError) as error:  # an unreadable folder, a name that no file can have
        return Classification("unknown", f"it cannot be proven read-only: {type(error).__name__}")
