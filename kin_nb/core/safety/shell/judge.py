"""The judgement of one command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kin_nb.core.safety.shell.dangerous import danger
from kin_nb.core.safety.shell.judgement import Judgement, UnprovenError

ONLY_READS = "every command in it is known, and only reads"


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
        from kin_nb.core.safety.shell.proof import prove  # noqa: PLC0415  (loads tree-sitter)

        return Judgement("harmless", ONLY_READS, prove(command, root, environment))
    except UnprovenError as error:
        return Judgement("unknown", str(error))
    except ImportError as error:
        return Judgement("unknown", f"nothing can be proven here, {error.name} is missing")
    except (OSError, ValueError, RecursionError) as error:  # an unreadable folder, a name that no file can have
        return Judgement("unknown", f"it cannot be proven harmless: {type(error).__name__}")
