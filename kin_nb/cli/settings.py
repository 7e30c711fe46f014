"""`kin-nb config` and `kin-nb trust`."""

from __future__ import annotations

import argparse
from pathlib import Path

from kin_nb.cli.exits import DONE, USAGE, fail, warn

_WHAT_IT_IS = {
    "AGENTS.md": "instructions to the model",
    ".kin-code/config.toml": "settings: model servers, policy, MCP servers",
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

    if arguments.workdir is not None and not arguments.workdir.is_dir():
        return fail(f"--workdir {arguments.workdir}: no such folder.", USAGE)
    try:
        config = KinConfig.load(arguments.agent, workdir=arguments.workdir)
    except ConfigError as error:
        return fail(str(error))
    for warning in config.warnings:
        warn(warning)
    with_origin = arguments.origin or arguments.all
    report = origin_report(config, all=arguments.all) if with_origin else config_report(config)
    print(report.rstrip("\n"))
    return DONE


def trust(arguments: argparse.Namespace) -> int:
    from kin_nb.core.config import ConfigError  # noqa: PLC0415
    from kin_nb.core.trusted_folders import TrustedFolders  # noqa: PLC0415

    folders = TrustedFolders()
    try:
        if arguments.no:
            print(f"{folders.distrust(arguments.folder)} is not trusted: nothing of it is read as settings.")
            return DONE
        _say_what_counts(arguments.folder)
        folder = folders.trust(arguments.folder)
        print(f"{folder} is trusted from now on. To take that back: kin-nb trust --no {arguments.folder}")
    except ConfigError as error:
        return fail(str(error))
    return DONE


def _say_what_counts(folder: Path) -> None:
    """Nothing for a folder that will be refused."""
    from kin_nb.core.paths import real_path  # noqa: PLC0415
    from kin_nb.core.trusted_folders import is_too_broad, project_files  # noqa: PLC0415

    real = real_path(folder)
    if not real.is_dir() or is_too_broad(real):
        return
    names = project_files(real)
    if not names:
        print(f"{real} holds nothing that trust is needed for, yet.")
        return
    width = max(map(len, names))
    print(f"What counts of {real} once it is trusted:")
    print("\n".join(f"  {name:<{width}}  {_WHAT_IT_IS.get(name, '')}".rstrip() for name in names), flush=True)
