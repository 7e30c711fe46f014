"""`kin-nb replay`: its options, and which of them can be combined."""

from __future__ import annotations

import argparse
from pathlib import Path

from kin_nb.cli.arguments import ArgumentParser, positive_number
from kin_nb.cli.console import USAGE, fail


def add_replay(commands: argparse._SubParsersAction[ArgumentParser]) -> None:
    parser = commands.add_parser(
        "replay",
        help="run session notebooks again, without a key",
        description="Run a copy of each session notebook; the file itself is only read. No model is asked, except with --live. "
        "Differences from the recording are listed.",
        epilog="exit codes: 0 as recorded, 1 an error or a refused tool call, 2 wrong usage, 3 differences; for several "
        "notebooks the worst one: 1, then 3; 130, 143, 129 interrupted by Ctrl-C, SIGTERM, SIGHUP",
    )
    parser.add_argument(
        "notebooks", nargs="+", metavar="NOTEBOOK", help="an .ipynb, or a pattern in quotes: 'sessions/**/*.ipynb'"
    )
    _add_mode_options(parser)
    _add_folder_options(parser)
    _add_report_options(parser)
    _add_rules_option(parser)
    _add_scheduling_options(parser)
    parser.set_defaults(command=replay)


def _add_mode_options(parser: argparse.ArgumentParser) -> None:
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--tools", action="store_true", help="run the tools again, in a fresh copy of the workspace")
    ways.add_argument(
        "--live", action="store_true", help="ask the model again, with your settings, in a fresh copy of the workspace"
    )
    ways.add_argument(
        "--scratch", action="store_true", help="apply the recorded file changes in a temporary copy of the workspace"
    )
    parser.add_argument(
        "--approve",
        choices=["recorded"],
        help="run the tool calls that the recording says were approved (only for reviewed notebooks)",
    )
    parser.add_argument(
        "-p",
        "--parameter",
        dest="parameters",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="set a variable in the executed copy, as papermill does; repeat for more",
    )


def _add_folder_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workspace", type=Path, metavar="DIR", help="the folder to copy (default: the recorded one)")
    parser.add_argument(
        "--output-dir",
        type=Path,
        metavar="DIR",
        help="where to write the executed notebooks (default: a temporary folder)",
    )


def _add_report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fail-on",
        choices=["text", "effect"],
        default="text",
        help="text: a different output is a difference (default); effect: only different files or exit codes are",
    )
    parser.add_argument(
        "--report",
        choices=["text", "json", "junit"],
        default="text",
        help="text for a terminal (default), or one document for all notebooks on stdout",
    )


def _add_rules_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rules",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="TOML file with more rules for what may differ in results and outputs; repeat for more",
    )


def _add_scheduling_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-j", "--jobs", type=positive_number, metavar="N", help="run N notebooks at a time, in processes"
    )
    parser.add_argument(
        "--timeout",
        type=positive_number,
        metavar="S",
        help="stop a notebook after S seconds (default: 600 for each of its cells)",
    )
    parser.add_argument(
        "--dask",
        default="",
        metavar="ADDRESS",
        help="run on a Dask cluster, tcp://HOST:PORT, whose workers see the same files",
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
    """Return which options cannot be combined or have a wrong value; "" if all are right."""
    from kin_nb.replay.runner.options import is_name  # noqa: PLC0415

    if arguments.approve and not (arguments.tools or arguments.live):
        return "--approve recorded needs --tools or --live: without these no tool call runs."
    if arguments.rules and arguments.live:
        return "--rules cannot be combined with --live, which compares turns, tool calls and files, and no texts."
    if arguments.dask and arguments.jobs:
        return "Give only one of --dask and -j: on a cluster its workers decide how many notebooks run at a time."
    if arguments.dask and "://" not in arguments.dask:
        return f"--dask must be the address of a scheduler, tcp://HOST:PORT, got {arguments.dask}."
    names = [name for name, _ in arguments.parameters if not is_name(name)]
    return f"-p needs the name of a variable, got {names[0]}." if names else ""
