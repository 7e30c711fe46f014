"""The parser, and which function does what."""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
from pathlib import Path

from kin_nb import __version__
from kin_nb.cli import audit, doctor, kernel, notebooks, run, sessions, settings
from kin_nb.cli.exits import FAILED, INTERRUPTED, fail
from kin_nb.cli.replaying import add_replay
from kin_nb.core.modes import Policy
from kin_nb.replay.saving.options import add_save_options


def main(argv: list[str] | None = None) -> int:
    """Entry point of `kin-nb`. Returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what a terminal cannot show is no reason to fail
    arguments = _parser().parse_args(argv)
    arguments.own_process = argv is None  # not called by a program that has other things in its environment
    try:
        Path.cwd()
    except OSError as error:
        return fail(f"The current directory cannot be used: {error.strerror}. Change to another one.")
    try:
        return _written(int(arguments.command(arguments)))
    except KeyboardInterrupt as interrupt:
        return int(getattr(interrupt, "exit_code", INTERRUPTED))  # core.interrupts: which signal it was
    except BrokenPipeError:
        return _unwritten(FAILED)
    except Exception as error:  # noqa: BLE001  (the last net)
        if os.environ.get("KIN_DEBUG") == "1":
            traceback.print_exc()
        return fail(" ".join(f"kin-nb failed: {type(error).__name__}: {error}".split()))


def _written(code: int) -> int:
    """`code`, once what was printed has been written."""
    try:
        if sys.stdout is not None:  # None: it was closed before we began
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        return _unwritten(fail(f"The output cannot be written: {error.strerror}."))
    return code


def _unwritten(code: int) -> int:
    """Leave what could not be written, or Python complains of it when it flushes at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kin-nb", description="A coding agent that leaves behind notebooks anyone can run again."
    )
    parser.add_argument("--version", action="version", version=f"kin-nb {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_run(commands)
    _add_notebooks(commands)
    _add_sessions(commands)
    _add_audit(commands)
    _add_settings(commands)
    _add_installation(commands)
    demo = commands.add_parser("demo", help="re-execute the quickstart session: no key, no network")
    demo.add_argument("--lab", action="store_true", help="open it in JupyterLab instead")
    demo.set_defaults(command=notebooks.demo)
    return parser


_WORKDIR = "the workspace (default: the current directory)"
Commands = argparse._SubParsersAction  # noqa: SLF001  (argparse has no other name for it)


def _add_run(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "run",
        help="one prompt, from a script",
        description="Ask the agent once. The answer goes to stdout, everything else to stderr; nobody is asked: "
        "what the mode does not allow is refused.",
        epilog="exit codes: 0 done, 1 an error, a refused call, or something that could not be stored, 2 wrong usage, "
        "3 stopped by a limit; 130, 143, 129 interrupted by Ctrl-C, SIGTERM, SIGHUP",
    )
    parser.add_argument(
        "-p", "--prompt", metavar="TEXT", help="the prompt, or a /command (/help); without it, standard input is read"
    )
    parser.add_argument(
        "--mode", default="default", metavar="MODE", help="default, plan, accept-edits, auto-approve, or one of yours"
    )
    parser.add_argument(
        "--output",
        choices=["text", "json", "streaming", "events"],
        default="text",
        help="the last answer (default), all messages as one JSON list, each as a line of JSON when it is there, or "
        "every event of the turn as a line of JSON",
    )
    parser.add_argument(
        "--policy", choices=list(Policy), help="how much runs unasked, instead of the configured policy"
    )
    parser.add_argument("--model", metavar="ALIAS", help="the model to use instead of active_model")
    parser.add_argument("--agent", metavar="NAME", help="with the settings of agents/NAME.toml")
    parser.add_argument("--workdir", type=Path, metavar="DIR", help=_WORKDIR)
    parser.add_argument("--max-turns", type=_count, metavar="N", help="most requests of the session; then exit code 3")
    parser.add_argument(
        "--max-price", type=_price, metavar="USD", help="most that the session may cost; then exit code 3"
    )
    again = parser.add_mutually_exclusive_group()
    again.add_argument(
        "--continue",
        dest="resume",
        action="store_const",
        const=run.LATEST,
        help="go on with this folder's last session",
    )
    again.add_argument(
        "--resume", metavar="ID", help="go on with a session, in its own folder: an id, or the beginning of one"
    )
    parser.set_defaults(command=run.run)


def _add_notebooks(commands: Commands[argparse.ArgumentParser]) -> None:
    add_replay(commands)
    description = "Write a session of the log as a notebook that anyone can run again."
    save = commands.add_parser("save", help="write a session of the log as a notebook", description=description)
    save.add_argument(
        "session",
        metavar="SESSION",
        help="session id or the beginning of one; or a notebook with answered prompts",
    )
    save.add_argument(
        "path", nargs="?", type=Path, metavar="FILE", help="the notebook to write (default: NAME.kin.ipynb)"
    )
    save.add_argument(
        "--check",
        action="store_true",
        help="then run its cells once, in a copy of the files around it, unconfined, however long it takes; without it this is "
        "done confined, without network, for 30 seconds at most ([save] check_seconds; --no-check: not at all)",
    )
    add_save_options(save)
    save.set_defaults(command=notebooks.save)
    _add_comparing(commands)


def _add_comparing(commands: Commands[argparse.ArgumentParser]) -> None:
    diff = commands.add_parser(
        "diff",
        help="two runs of a session side by side",
        description="Compare two runs of a session, by two models or on two days: turns, tool calls, files, tokens, "
        "cost. Times, results and the words of replies are not compared.",
        epilog="exit codes: 0 the same in turns, calls and files, 1 an error, 2 wrong usage, 3 they differ",
    )
    for name in "ab":
        diff.add_argument(
            name, metavar=name.upper(), help="a session notebook; or the id of a session of the log, or its beginning"
        )
    diff.add_argument(
        "--output", choices=["text", "json"], default="text", help="for a terminal (default), or one JSON document"
    )
    diff.set_defaults(command=notebooks.diff)

    merge = commands.add_parser(
        "merge",
        help="join two notebooks that went on from one",
        description="Join two session notebooks, A and B, that went on from BASE. Where both have new turns, both stay, as "
        "branches of the conversation, and each cell shows its own answer; nothing is lost.",
        epilog="exit codes: 0 merged, 1 an error (nothing was written), 2 wrong usage, 3 merged, and cells that both "
        "changed wait for your choice. As git's merge driver: kin-nb merge %O %A %B -o %A --force",
    )
    merge.add_argument("base", type=Path, metavar="BASE", help="the notebook as it was before the two parted")
    merge.add_argument("a", type=Path, metavar="A", help="one of the two; its cells come first")
    merge.add_argument("b", type=Path, metavar="B", help="the other")
    merge.add_argument(
        "-o", "--out", type=Path, metavar="FILE", help="where to write (default: A.merged.ipynb beside A)"
    )
    merge.add_argument("--force", action="store_true", help="replace FILE when it exists, also when it is A or B")
    merge.set_defaults(command=notebooks.merge)


def _add_sessions(commands: Commands[argparse.ArgumentParser]) -> None:
    description = "The sessions of the log, newest first; or one of them."
    parser = commands.add_parser("sessions", help="list and show the sessions of the log", description=description)
    parser.set_defaults(command=sessions.list_all, workdir=None)
    kinds = parser.add_subparsers(title="commands", metavar="COMMAND")
    listing = kinds.add_parser("list", help="the sessions, newest first", description="The sessions, newest first.")
    listing.add_argument("--workdir", type=Path, metavar="DIR", help="only those of this workspace")
    listing.set_defaults(command=sessions.list_all)
    show = kinds.add_parser("show", help="one session, turn by turn", description="One session, turn by turn.")
    show.add_argument(
        "session",
        nargs="?",
        default="latest",
        metavar="ID",
        help="an id, or the beginning of one (default: the newest)",
    )
    what = show.add_mutually_exclusive_group()
    what.add_argument("--json", action="store_true", help="everything, as one JSON document")
    what.add_argument("--output", metavar="CALL", help="all that a tool call put out, also what the model did not get")
    show.set_defaults(command=sessions.show)


def _add_audit(commands: Commands[argparse.ArgumentParser]) -> None:
    description = "The decisions of the audit log: what was allowed or refused, by whom and why. The newest come last."
    parser = commands.add_parser("audit", help="who allowed or refused which call, and why", description=description)
    parser.add_argument("--session", metavar="ID", help="only those of a session: an id, or the beginning of one")
    parser.add_argument("--tool", metavar="NAME", help="only those about this tool")
    parser.add_argument("--verdict", choices=["allow", "deny"], help="only these")
    parser.add_argument("--since", type=audit.since, metavar="TIME", help="only newer ones: 2h, 3d, or a date")
    parser.add_argument("--json", action="store_true", help="each as a line of JSON, with everything")
    parser.add_argument(
        "-n", dest="number", type=audit.positive, default=50, metavar="N", help="how many at most (default: 50)"
    )
    parser.set_defaults(command=audit.show)


def _add_settings(commands: Commands[argparse.ArgumentParser]) -> None:
    config = commands.add_parser(
        "config",
        help="the settings in force here, and where each comes from",
        description="The settings in force here that are not the defaults, as TOML. Secrets are hidden.",
    )
    config.add_argument("--origin", action="store_true", help="each with the file and line that it comes from")
    config.add_argument("--all", action="store_true", help="as --origin, with the defaults too")
    config.add_argument("--agent", metavar="NAME", help="as with the settings of agents/NAME.toml")
    config.add_argument("--workdir", type=Path, metavar="DIR", help=_WORKDIR)
    config.set_defaults(command=settings.show)

    trust = commands.add_parser(
        "trust",
        help="let a project folder bring its own settings, tools and instructions",
        description="Show what is read from a folder when you trust it, or what has changed since you did, and trust it as it is.",
    )
    trust.add_argument("folder", nargs="?", type=Path, default=Path(), metavar="DIR", help="default: this folder")
    trust.add_argument("--show", action="store_true", help="only show that, and change nothing")
    trust.add_argument("--no", action="store_true", help="never use them, and do not mention them")
    trust.set_defaults(command=settings.trust)


def _add_installation(commands: Commands[argparse.ArgumentParser]) -> None:
    check = commands.add_parser(
        "doctor",
        help="is all in place? What is not, and what to do",
        description="Check the installation, the settings and the model's server, which is the only address that is asked.",
        epilog="exit codes: 0 nothing fails (warnings may be there), 1 something does",
    )
    check.add_argument("--json", action="store_true", help="as one JSON document")
    check.add_argument("--offline", action="store_true", help="do not ask the model's server")
    check.set_defaults(command=doctor.examine)

    described = "The Kin kernel for Jupyter: a notebook in which every cell is a prompt."
    parser = commands.add_parser("kernel", help="install the Kin kernel, or remove it", description=described)
    kinds = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, function, what in (
        ("install", kernel.install, "a kernelspec that runs this interpreter, for Jupyter in any environment"),
        ("uninstall", kernel.uninstall, "remove the kernelspec"),
    ):
        kind = kinds.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
        places = kind.add_mutually_exclusive_group()
        places.add_argument("--user", action="store_true", help="for this user (default)")
        places.add_argument("--sys-prefix", action="store_true", help="in this environment")
        places.add_argument("--prefix", type=Path, metavar="DIR", help="in DIR/share/jupyter/kernels")
        kind.add_argument(
            "--name", type=kernel.kernel_name, default=kernel.NAME, help="kin (default), or kin-... for one more"
        )
        kind.set_defaults(command=function)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}")
    return int(text)


def _price(text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not price >= 0:
        raise argparse.ArgumentTypeError(f"must be a number of USD from 0, got {text!r}")
    return price
