"""`kin-nb replay`: its options, and which of them go together."""

from __future__ import annotations

import argparse
from pathlib import Path

from kin_nb.cli.exits import USAGE, fail


def add_replay(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "replay",
        help="re-execute session notebooks, without a key",
        description="Run session notebooks again, a copy of each: the input is only read. No model is called unless you "
        "say --live; what has drifted from the recording is listed.",
        epilog="exit codes: 0 as recorded, 1 an error or a refused call, 2 wrong usage, 3 drift, and of many notebooks the "
        "worst: 1, then 3; 130, 143, 129 interrupted by Ctrl-C, SIGTERM, SIGHUP",
    )
    parser.add_argument(
        "notebooks", nargs="+", metavar="NOTEBOOK", help="an .ipynb, or a pattern in quotes: 'sessions/**/*.ipynb'"
    )
    _add_ways(parser)
    _add_places(parser)
    _add_reporting(parser)
    _add_rules(parser)
    _add_scale(parser)
    parser.set_defaults(command=replay)


def _add_ways(parser: argparse.ArgumentParser) -> None:
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--tools", action="store_true", help="really run the tools, in a fresh copy of the workspace")
    ways.add_argument(
        "--live", action="store_true", help="ask the model again, with your settings, in a fresh copy of the workspace"
    )
    ways.add_argument(
        "--scratch", action="store_true", help="make the recorded changes of files in a temporary copy of the workspace"
    )
    parser.add_argument(
        "--approve", choices=["recorded"], help="allow what was allowed when recorded (your own notebooks only)"
    )
    parser.add_argument(
        "-p",
        "--parameter",
        dest="parameters",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="set a variable, as papermill does, in the executed copy; again for each more",
    )


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workspace", type=Path, metavar="DIR", help="the folder to copy (default: the recorded one)")
    parser.add_argument(
        "--output-dir",
        type=Path,
        metavar="DIR",
        help="where the executed notebooks go (default: a temporary folder)",
    )


def _add_reporting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fail-on",
        choices=["text", "effect"],
        default="text",
        help="what counts as drift: also other text (default), or only what was done",
    )
    parser.add_argument(
        "--report",
        choices=["text", "json", "junit"],
        default="text",
        help="for a terminal (default), or one document for all notebooks on stdout",
    )


def _add_rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rules",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="what may differ in results and outputs, besides the built-in rules (TOML); again for each more",
    )


def _add_scale(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-j", "--jobs", type=_positive, metavar="N", help="N notebooks at a time, each a process")
    parser.add_argument(
        "--timeout",
        type=_positive,
        metavar="S",
        help="most seconds for one notebook (default: 600 for each of its cells)",
    )
    parser.add_argument(
        "--dask", default="", metavar="ADDRESS", help="on a Dask cluster, tcp://HOST:PORT, which sees the same files"
    )


def replay(arguments: argparse.Namespace) -> int:
    from kin_nb.replay.commands.replay import BatchOptions  # noqa: PLC0415
    from kin_nb.replay.commands.replay import replay as replay_all  # noqa: PLC0415
    from kin_nb.replay.runner.options import ReplayOptions  # noqa: PLC0415  (each command loads its own)

    wrong = _wrong(arguments)
    if wrong:
        return fail(wrong, USAGE)
    options = ReplayOptions(
        tools=arguments.tools,
        live=arguments.live,
        scratch=arguments.scratch,
        approve_recorded=arguments.approve == "recorded",
        output_dir=arguments.output_dir,
        workspace=arguments.workspace,
        parameters=tuple((name, value) for name, value in arguments.parameters),
        fail_on=arguments.fail_on,
        rules=tuple(arguments.rules),
    )
    how = BatchOptions(arguments.report, arguments.jobs, arguments.timeout, arguments.dask)
    return replay_all(arguments.notebooks, options, how)


def _wrong(arguments: argparse.Namespace) -> str:
    """Which options do not go together, "" when all do."""
    from kin_nb.replay.runner.options import is_name  # noqa: PLC0415

    if arguments.approve and not (arguments.tools or arguments.live):
        return "--approve recorded is for --tools and --live: in playback no call runs."
    if arguments.rules and arguments.live:
        return "--rules is not for --live: turns, calls and files are compared there, and no texts."
    if arguments.dask and arguments.jobs:
        return "--dask and -j: the cluster's workers say how many notebooks run at a time."
    if arguments.dask and "://" not in arguments.dask:
        return f"--dask {arguments.dask} is no address of a scheduler: tcp://HOST:PORT"
    names = [name for name, _ in arguments.parameters if not is_name(name)]
    return f"-p {names[0]}: that is no name of a variable." if names else ""


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 10**6):
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to 999999, got {text!r}")
    return int(text)
