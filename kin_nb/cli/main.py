"""The parser, and which function does what."""

from __future__ import annotations

import argparse
from pathlib import Path

from kin_nb import __version__
from kin_nb.cli import notebooks, run, sessions, settings
from kin_nb.cli.exits import FAILED, INTERRUPTED


def main(argv: list[str] | None = None) -> int:
    """Entry point of `kin-nb`. Returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.command(arguments))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kin-nb", description="A coding agent that leaves behind notebooks anyone can run again."
    )
    parser.add_argument("--version", action="version", version=f"kin-nb {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_run(commands)
    _add_notebooks(commands)
    _add_sessions(commands)
    _add_settings(commands)
    demo = commands.add_parser("demo", help="re-execute the quickstart session: no key, no network")
    demo.add_argument("--lab", action="store_true", help="open it in JupyterLab instead")
    demo.set_defaults(command=notebooks.demo)
    return parser


Commands = argparse._SubParsersAction  # noqa: SLF001  (argparse has no other name for it)


def _add_run(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("run", help="one prompt, from a script")
    parser.add_argument("-p", "--prompt", help="the prompt; without it, standard input is read")
    parser.add_argument("--mode", default="default", help="default, plan, accept-edits, auto-approve, or one of yours")
    parser.add_argument("--output", choices=["text", "json", "streaming"], default="text")
    parser.add_argument("--model", help="alias of the model to use instead of active_model")
    parser.add_argument("--agent", help="settings of agents/NAME.toml")
    parser.add_argument("--workdir", type=Path, help="the workspace (default: the current directory)")
    parser.add_argument("--max-turns", type=_count, metavar="N", help="most requests to the model; then exit code 3")
    parser.add_argument("--max-price", type=_price, metavar="X", help="most USD; then exit code 3")
    again = parser.add_mutually_exclusive_group()
    again.add_argument(
        "--continue", dest="resume", action="store_const", const="latest", help="go on with this folder's last session"
    )
    again.add_argument("--resume", metavar="ID", help="go on with a session: its id or the beginning of it")
    parser.set_defaults(command=run.run)


def _add_notebooks(commands: Commands[argparse.ArgumentParser]) -> None:
    replay = commands.add_parser("replay", help="re-execute session notebooks, without a key")
    replay.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    replay.add_argument("--tools", action="store_true", help="really run the tools, in a fresh copy of the workspace")
    replay.add_argument(
        "--approve", choices=["recorded"], help="allow what was allowed when recorded (your own notebooks only)"
    )
    replay.add_argument("--workspace", type=Path, help="the folder to copy (default: the recorded one)")
    replay.add_argument("--output-dir", type=Path, help="where the executed notebooks go (default: a temporary folder)")
    replay.set_defaults(command=notebooks.replay)

    save = commands.add_parser("save", help="write a session of the log as a notebook")
    save.add_argument(
        "session", help="session id or the beginning of one; or a session notebook, to draw its outputs anew"
    )
    save.add_argument("path", type=Path, help="the notebook to write")
    save.set_defaults(command=notebooks.save)


def _add_sessions(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("sessions", help="list and show the sessions of the log")
    parser.set_defaults(command=sessions.list_all, workdir=None)
    kinds = parser.add_subparsers(title="commands", metavar="COMMAND")
    listing = kinds.add_parser("list", help="the sessions, newest first")
    listing.add_argument("--workdir", type=Path, help="only those of this workspace")
    listing.set_defaults(command=sessions.list_all)
    show = kinds.add_parser("show", help="one session, turn by turn")
    show.add_argument("session", nargs="?", default="latest", metavar="ID", help="an id, or the beginning of one")
    show.add_argument("--json", action="store_true", help="everything, as one JSON document")
    show.set_defaults(command=sessions.show)


def _add_settings(commands: Commands[argparse.ArgumentParser]) -> None:
    config = commands.add_parser("config", help="the settings in force here, and where each comes from")
    config.add_argument("--origin", action="store_true", help="name the file and line of each")
    config.add_argument("--all", action="store_true", help="the defaults too (with --origin)")
    config.add_argument("--agent", help="as with the settings of agents/NAME.toml")
    config.add_argument("--workdir", type=Path, help="the workspace (default: the current directory)")
    config.set_defaults(command=settings.show)

    trust = commands.add_parser("trust", help="let a project folder bring its own settings, tools and instructions")
    trust.add_argument("folder", nargs="?", type=Path, default=Path(), help="default: the current directory")
    trust.add_argument("--no", action="store_true", help="never use them, and do not mention them")
    trust.set_defaults(command=settings.trust)


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return number


def _price(text: str) -> float:
    price = float(text)
    if not price >= 0:
        raise argparse.ArgumentTypeError(f"{text} is no price")
    return price
