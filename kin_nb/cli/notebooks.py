"""`kin-nb replay`, `save` and `demo`."""

from __future__ import annotations

import argparse


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
    from kin_nb.replay.command import save as save_session  # noqa: PLC0415

    return save_session(arguments.session, arguments.path)


def demo(arguments: argparse.Namespace) -> int:
    from kin_nb.replay import command  # noqa: PLC0415

    return command.demo_in_lab() if arguments.lab else command.demo()
