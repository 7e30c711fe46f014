"""`kin-nb replay`, `save`, `diff`, `merge` and `demo`."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from kin_nb.cli.exits import DONE, LIMITED, fail


def replay(arguments: argparse.Namespace) -> int:
    from kin_nb.replay.command import replay as replay_all  # noqa: PLC0415  (each command loads its own)
    from kin_nb.replay.runner import ReplayOptions  # noqa: PLC0415

    options = ReplayOptions(
        tools=arguments.tools,
        approve_recorded=arguments.approve == "recorded",
        output_dir=arguments.output_dir,
        workspace=arguments.workspace,
    )
    return replay_all(arguments.notebooks, options)


def save(arguments: argparse.Namespace) -> int:
    if arguments.plain:
        from kin_nb.replay.plain_command import save_plain  # noqa: PLC0415

        return save_plain(arguments.session, arguments.path)
    from kin_nb.replay.command import save as save_session  # noqa: PLC0415

    return save_session(arguments.session, arguments.path)


def diff(arguments: argparse.Namespace) -> int:
    from kin_nb.replay.diff_report import Run, diff_json, diff_text  # noqa: PLC0415
    from kin_nb.replay.diffing import compare_runs  # noqa: PLC0415
    from kin_nb.replay.errors import ReplayError  # noqa: PLC0415
    from kin_nb.replay.named_recording import named_recording  # noqa: PLC0415

    names = (arguments.a, arguments.b)
    try:
        recordings = [named_recording(name, Path.cwd())[0] for name in names]
    except ReplayError as error:
        return fail(str(error))
    found = compare_runs(recordings[0], recordings[1])
    a, b = map(Run.of, names, recordings)
    if arguments.output == "json":
        print(diff_json(a, b, found))
    else:
        print(diff_text(a, b, found, shutil.get_terminal_size().columns))
    return DONE if found.same else LIMITED


def merge(arguments: argparse.Namespace) -> int:
    from kin_nb.replay.merge_command import merge as merge_files  # noqa: PLC0415

    return merge_files(arguments.base, arguments.a, arguments.b, arguments.out, force=arguments.force)


def demo(arguments: argparse.Namespace) -> int:
    from kin_nb.replay import command  # noqa: PLC0415

    return command.demo_in_lab() if arguments.lab else command.demo()
