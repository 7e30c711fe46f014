"""`kin-nb config` and `kin-nb trust`."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kin_nb.cli.exits import DONE, USAGE, fail, warn

if TYPE_CHECKING:
    from kin_nb.core.config.trusted_folders import Trust
    from kin_nb.core.project_snapshot import ProjectSnapshot

_WHAT_IT_IS = {
    "AGENTS.md": "instructions to the model",
    ".kin-code/config.toml": "settings: models, tools, MCP servers",
    ".kin-code/agents": "settings under a name, and modes",
    ".kin-code/prompts": "system prompts",
    ".kin-code/skills": "skills",
    ".kin-code/tools": "Python files that are run",
    ".kin-code/memory": "notes to the model, kept from earlier sessions",
    ".agents/skills": "skills",
}


def show(arguments: argparse.Namespace) -> int:
    from kin_nb.core.config import ConfigError, KinConfig  # noqa: PLC0415  (each command loads its own)
    from kin_nb.core.config.origins import config_report, origin_report  # noqa: PLC0415
    from kin_nb.core.llm.adapters.dialects import thinking_warnings  # noqa: PLC0415

    if arguments.workdir is not None and not arguments.workdir.is_dir():
        return fail(f"--workdir {arguments.workdir}: no such folder.", USAGE)
    try:
        config = KinConfig.load(arguments.agent, workdir=arguments.workdir)
    except ConfigError as error:
        return fail(str(error))
    for warning in (*config.warnings, *thinking_warnings(config, config.models)):
        warn(warning)
    with_origin = arguments.origin or arguments.all
    report = origin_report(config, all=arguments.all) if with_origin else config_report(config)
    print(report.rstrip("\n"))
    return DONE


def trust(arguments: argparse.Namespace) -> int:
    from kin_nb.core.config import ConfigError  # noqa: PLC0415
    from kin_nb.core.config.trusted_folders import TrustedFolders  # noqa: PLC0415

    folders = TrustedFolders()
    try:
        if arguments.no:
            print(f"{folders.distrust(arguments.folder)} is not trusted: nothing of it is read as settings.")
            return DONE
        found = folders.look(arguments.folder)
        _show_what_acts(found, arguments.folder)
        if arguments.show:
            return DONE
        back = f"To take that back: kin-nb trust --no {arguments.folder}"
        if found.of_itself and found.seen is not None:
            print(f"{found.seen.folder} is already trusted as it is; nothing was changed. {back}")
            return DONE
        if found.changes and sys.stdin.isatty() and not _agreed():
            return fail("Nothing was changed: it is not trusted as it is now.")
        folder = folders.trust(arguments.folder, found.seen if found.changes else None)
        print(f"{folder} is trusted from now on, as it is. {back}")
    except ConfigError as error:
        return fail(f"{error}{_about_codes(arguments.folder)}")
    return DONE


def _about_codes(folder: Path) -> str:
    """What to say besides when the folder, which cannot be trusted, looks like a code of `%kin trust`."""
    if folder.exists() or not re.fullmatch("[0-9a-f]{8}", str(folder)):
        return ""
    how = "`kin-nb trust` takes a folder, shows what has changed in it and asks."
    return f" Codes are for `%kin trust` in a notebook: {how}"


def _show_what_acts(found: Trust, folder: Path) -> None:
    """Print what is read from a folder, or how it differs from what was trusted."""
    if not found.changes or found.seen is None:
        _list_what_is_read(folder, trusted=bool(found.answer))
        return
    what = "it" if found.since == found.seen.folder else found.since
    print(f"{found.seen.folder} has changed since you trusted {what}: {found.changes.summary()}", end="\n\n")
    print("\n".join(found.changes.diff), end="\n\n", flush=True)
    _say_what_is_not_compared(found.seen)


def _say_what_is_not_compared(seen: ProjectSnapshot) -> None:
    if seen.limit:
        print(seen.limit, flush=True)


def _agreed() -> bool:
    try:
        return input("Trust it as it is now? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False


def _list_what_is_read(folder: Path, *, trusted: bool) -> None:
    """Nothing for a folder that will be refused. Raises ConfigError when there is too much in it to be compared."""
    from kin_nb.core.config.trusted_folders import is_too_broad, project_files  # noqa: PLC0415
    from kin_nb.core.paths import real_path  # noqa: PLC0415
    from kin_nb.core.project_snapshot import ProjectSnapshot  # noqa: PLC0415

    real = real_path(folder)
    if not real.is_dir() or is_too_broad(real):
        return
    names = project_files(real)
    if not names:
        print(f"{real} holds nothing that trust is needed for, yet.")
        return
    width = max(map(len, names))
    print(f"{real} is trusted. What is read from it:" if trusted else f"What is read from {real} when you trust it:")
    print("\n".join(f"  {name:<{width}}  {_WHAT_IT_IS.get(name, '')}".rstrip() for name in names), flush=True)
    _say_what_is_not_compared(ProjectSnapshot.take(real))
