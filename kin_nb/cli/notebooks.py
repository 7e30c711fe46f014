"""`kin-nb save`, `diff`, `merge` and `demo`."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kin_nb.cli.console import DONE, LIMITED, fail

if TYPE_CHECKING:
    from kin_nb.core.config import KinConfig


def save(arguments: argparse.Namespace) -> int:
    from kin_nb.replay.commands.save import SaveCommand  # noqa: PLC0415
    from kin_nb.replay.commands.save import save as save_session  # noqa: PLC0415
    from kin_nb.replay.saving.options import save_options  # noqa: PLC0415
    from kin_nb.replay.saving.privacy import known_secrets  # noqa: PLC0415

    options, secrets = save_options(arguments), known_secrets()
    command = SaveCommand(
        arguments.session, arguments.path, options, check=arguments.check, config=_config(), secrets=secrets
    )
    return save_session(command)


def _config() -> KinConfig:
    """Return the defaults if a settings file is broken: saving a notebook must still work."""
    from kin_nb.core.config import ConfigError, KinConfig  # noqa: PLC0415

    try:
        return KinConfig.load()
    except ConfigError:
        return KinConfig()


def diff(arguments: argparse.Namespace) -> int:
    from kin_nb.replay.errors import ReplayError  # noqa: PLC0415
    from kin_nb.replay.run_diff import (  # noqa: PLC0415
        RunLabel,
        compare_runs,
        diff_json,
        diff_text,
    )
    from kin_nb.replay.saving.privacy import known_secrets  # noqa: PLC0415
    from kin_nb.replay.saving.sources import resolve_source  # noqa: PLC0415

    names = (arguments.a, arguments.b)
    try:
        recordings = [resolve_source(name, Path.cwd()).recording for name in names]
    except ReplayError as error:
        return fail(str(error))
    found = compare_runs(recordings[0], recordings[1]).cleaned(known_secrets())
    a, b = map(RunLabel.of, names, recordings)
    if arguments.output == "json":
        print(diff_json(a, b, found))
    else:
        print(diff_text(a, b, found, shutil.get_terminal_size().columns))
    return DONE if found.same else LIMITED


def merge(arguments: argparse.Namespace) -> int:
    from kin_nb.replay.commands.merge import merge as merge_files  # noqa: PLC0415

    return merge_files(arguments.base, arguments.a, arguments.b, arguments.out, force=arguments.force)


def demo(arguments: argparse.Namespace) -> int:
    from kin_nb.replay.commands.replay import demo as run_demo  # noqa: PLC0415
    from kin_nb.replay.commands.replay import demo_in_lab  # noqa: PLC0415

    return demo_in_lab(arguments.name) if arguments.lab else run_demo(arguments.name)
