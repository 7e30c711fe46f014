"""`kin-nb config` and `kin-nb trust`."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kin_nb.cli.console import DONE, USAGE, fail, warn

if TYPE_CHECKING:
    from kin_nb.core.config.trusted_folders import Trust
    from kin_nb.core.project_snapshot import ProjectSnapshot

_PURPOSE = {
    "AGENTS.md": "instructions to the model",
    ".kin-code/config.toml": "settings: models, tools, MCP servers",
    ".kin-code/agents": "named settings, and modes",
    ".kin-code/prompts": "system prompts",
    ".kin-code/skills": "skills",
    ".kin-code/tools": "Python files that kin_nb runs",
    ".kin-code/memory": "notes for the model from earlier sessions",
    ".agents/skills": "skills",
}


def show(arguments: argparse.Namespace) -> int:
    from kin_nb.core.config import ConfigError, KinConfig  # noqa: PLC0415  (each command loads its own)
    from kin_nb.core.config.origins import config_report, origin_report  # noqa: PLC0415
    from kin_nb.core.llm.adapters.dialects import thinking_warnings  # noqa: PLC0415

    if arguments.workdir is not None and not arguments.workdir.is_dir():
        return fail(f"--workdir {arguments.workdir}: this folder does not exist.", USAGE)
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
            print(
                f"{folders.distrust(arguments.folder)} is not trusted. Its settings, tools and instructions are not used."
            )
            return DONE
        found = folders.look(arguments.folder)
        _show_changes(found, arguments.folder)
        if arguments.show:
            return DONE
        back = f"To undo this: kin-nb trust --no {arguments.folder}"
        if found.of_itself and found.seen is not None:
            print(f"{found.seen.folder} is already trusted as it is; nothing was changed. {back}")
            return DONE
        if found.changes and sys.stdin.isatty() and not _confirm():
            return fail("Nothing was changed. The folder is not trusted as it is now.")
        folder = folders.trust(arguments.folder, found.seen if found.changes else None)
        print(f"{folder} is now trusted, as it is. {back}")
    except ConfigError as error:
        return fail(f"{error}{_code_hint(arguments.folder)}")
    return DONE


def _code_hint(folder: Path) -> str:
    """Explain a code of `%kin trust` that was given as the folder; "" for anything else."""
    if folder.exists() or not re.fullmatch("[0-9a-f]{8}", str(folder)):
        return ""
    return "\nCodes are for `%kin trust` in a notebook. Here: kin-nb trust DIR, which shows the changes and asks."


def _show_changes(found: Trust, folder: Path) -> None:
    """Print what is read from a folder, or how it differs from its trusted state."""
    if not found.changes or found.seen is None:
        _list_files(folder, trusted=bool(found.answer))
        return
    what = "it" if found.since == found.seen.folder else found.since
    print(f"{found.seen.folder} has changed since you trusted {what}: {found.changes.summary()}", end="\n\n")
    print("\n".join(found.changes.diff), end="\n\n", flush=True)
    _print_limit(found.seen)


def _print_limit(seen: ProjectSnapshot) -> None:
    if seen.limit:
        print(seen.limit, flush=True)


def _confirm() -> bool:
    try:
        return input("Trust it as it is now? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False


def _list_files(folder: Path, *, trusted: bool) -> None:
    """Print nothing for a folder that will be refused. Raises ConfigError if it holds too many files to compare."""
    from kin_nb.core.config.trusted_folders import is_too_broad, project_files  # noqa: PLC0415
    from kin_nb.core.paths import real_path  # noqa: PLC0415
    from kin_nb.core.project_snapshot import ProjectSnapshot  # noqa: PLC0415

    real = real_path(folder)
    if not real.is_dir() or is_too_broad(real):
        return
    names = project_files(real)
    if not names:
        print(f"{real} holds nothing yet that needs trust.")
        return
    width = max(map(len, names))
    print(f"{real} is trusted. What is read from it:" if trusted else f"What is read from {real} if you trust it:")
    print("\n".join(f"  {name:<{width}}  {_PURPOSE.get(name, '')}".rstrip() for name in names), flush=True)
    _print_limit(ProjectSnapshot.take(real))
