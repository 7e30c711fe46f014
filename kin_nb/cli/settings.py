"""`kin-nb config` and `kin-nb trust`."""

from __future__ import annotations

import argparse
import sys

from kin_nb.cli.exits import DONE, fail


def show(arguments: argparse.Namespace) -> int:
    from kin_nb.core.config import ConfigError, KinConfig  # noqa: PLC0415  (each command loads its own)
    from kin_nb.core.config.origins import config_report, origin_report  # noqa: PLC0415

    try:
        config = KinConfig.load(arguments.agent, workdir=arguments.workdir)
    except ConfigError as error:
        return fail(str(error))
    for warning in config.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(origin_report(config, all=arguments.all) if arguments.origin else config_report(config))
    return DONE


def trust(arguments: argparse.Namespace) -> int:
    from kin_nb.core.config import ConfigError  # noqa: PLC0415
    from kin_nb.core.trusted_folders import TrustedFolders, project_files  # noqa: PLC0415

    folders = TrustedFolders()
    try:
        if arguments.no:
            print(f"{folders.distrust(arguments.folder)} is not trusted: nothing of it is read as settings.")
        else:
            folder = folders.trust(arguments.folder)
            found = ", ".join(project_files(folder)) or "nothing yet"
            print(f"{folder} is trusted. What is used of it now: {found}.")
    except ConfigError as error:
        return fail(str(error))
    return DONE
