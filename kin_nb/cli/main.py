"""Entry point of `kin-nb`: the parser, and the function of each command."""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
from pathlib import Path
from typing import TypeAlias

from kin_nb import __version__
from kin_nb.cli import audit, config, doctor, kernel, notebooks, run, sessions
from kin_nb.cli.arguments import ArgumentParser, positive_number, price, time_since, whole_number
from kin_nb.cli.console import FAILED, INTERRUPTED, fail
from kin_nb.cli.replay import add_replay
from kin_nb.core.modes import Policy
from kin_nb.replay.saving.options import add_save_options


def main(argv: list[str] | None = None) -> int:
    """Entry point of `kin-nb`. Returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a character that the terminal cannot show must not fail the command
    arguments = _parser().parse_args(argv)
    arguments.own_process = argv is None  # False where a program calls main() with its own environment
    try:
        Path.cwd()
    except OSError as error:
        return fail(f"The current directory cannot be used: {error.strerror}.\nChange to another one.")
    try:
        return _flush_stdout(int(arguments.command(arguments)))
    except KeyboardInterrupt as interrupt:
        return int(getattr(interrupt, "exit_code", INTERRUPTED))  # core.interrupts: which signal it was
    except BrokenPipeError:
        return _discard_stdout(FAILED)
    except Exception as error:  # noqa: BLE001  (last resort: one line instead of a stack trace)
        if os.environ.get("KIN_DEBUG") == "1":
            traceback.print_exc()
        return fail(
            " ".join(f"kin-nb failed: {type(error).__name__}: {error}".split())
            + "\nPlease report this. For the stack trace, set KIN_DEBUG=1 and run it again."
        )


def _flush_stdout(code: int) -> int:
    """Flush stdout; return `code`, or the code of a failure to write."""
    try:
        if sys.stdout is not None:  # None: stdout was closed when the process started
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        return _discard_stdout(fail(f"The output cannot be written: {error.strerror}."))
    return code


def _discard_stdout(code: int) -> int:
    """Drop the unwritten output, so that Python does not report it again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="kin-nb", description="A coding agent. Its sessions can be saved as notebooks that anyone can run again."
    )
    parser.add_argument("--version", action="version", version=f"kin-nb {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_run(commands)
    _add_notebooks(commands)
    _add_sessions(commands)
    _add_audit(commands)
    _add_config(commands)
    _add_installation(commands)
    demo = commands.add_parser(
        "demo",
        help="run a recorded example session again, without a key or a network",
        epilog="examples: quickstart (fix a failing test), second-thoughts (reject, undo, ask again), refactor (plan first), "
        "data-analysis (work on variables; needs pandas and matplotlib), investigate (git history), subagents",
    )
    demo.add_argument("name", nargs="?", default="quickstart", metavar="NAME", help="default: quickstart")
    demo.add_argument("--lab", action="store_true", help="open its notebook in JupyterLab instead")
    demo.set_defaults(command=notebooks.demo)
    return parser


_WORKDIR = "the workspace: the folder that the agent works in (default: the current directory)"
Commands: TypeAlias = "argparse._SubParsersAction[ArgumentParser]"  # noqa: SLF001  (argparse has no public name for it)


def _add_run(commands: Commands) -> None:
    parser = commands.add_parser(
        "run",
        help="send one prompt, for scripts and CI",
        description="Send one prompt to the agent. The answer goes to stdout, everything else to stderr. No one is asked "
        "for approval: a tool call that the mode does not allow is refused.",
        epilog="exit codes: 0 done, 1 an error, a refused tool call, or a session that could not be stored, 2 wrong usage, "
        "3 stopped by a limit; 130, 143, 129 interrupted by Ctrl-C, SIGTERM, SIGHUP",
    )
    parser.add_argument(
        "-p", "--prompt", metavar="TEXT", help="the prompt, or a command such as /help (default: read standard input)"
    )
    parser.add_argument(
        "--mode",
        default="default",
        metavar="MODE",
        help="default, plan, accept-edits, auto-approve, or NAME of agents/NAME.toml",
    )
    parser.add_argument(
        "--output",
        choices=["text", "json", "streaming", "events"],
        default="text",
        help="text: the last answer (default); json: all messages as one JSON list; streaming: each message as a line of "
        "JSON; events: each event of the turn as a line of JSON",
    )
    parser.add_argument(
        "--policy", choices=list(Policy), help="how much runs without asking, instead of the policy in config.toml"
    )
    parser.add_argument("--model", metavar="ALIAS", help="the model to ask (default: active_model in config.toml)")
    parser.add_argument("--agent", metavar="NAME", help="use the settings of agents/NAME.toml, without its mode")
    parser.add_argument("--workdir", type=Path, metavar="DIR", help=_WORKDIR)
    parser.add_argument(
        "--max-requests",
        type=whole_number,
        metavar="N",
        help="stop after N model requests in this session (exit code 3)",
    )
    parser.add_argument("--max-turns", dest="max_requests", type=whole_number, help=argparse.SUPPRESS)  # its old name
    parser.add_argument(
        "--max-price", type=price, metavar="USD", help="stop when the session has cost more than USD (exit code 3)"
    )
    again = parser.add_mutually_exclusive_group()
    again.add_argument(
        "--continue",
        dest="resume",
        action="store_const",
        const=run.LATEST,
        help="continue the last session of this folder",
    )
    again.add_argument(
        "--resume", metavar="ID", help="continue a session in its own folder: its id, or the beginning of the id"
    )
    parser.set_defaults(command=run.run)


def _add_notebooks(commands: Commands) -> None:
    add_replay(commands)
    description = "Write a stored session to a notebook file that anyone can run again."
    save = commands.add_parser("save", help="write a stored session to a notebook file", description=description)
    save.add_argument(
        "session",
        metavar="SESSION",
        help="the id of a session, or its beginning; or a notebook with answered prompts",
    )
    save.add_argument(
        "path", nargs="?", type=Path, metavar="FILE", help="the notebook to write (default: NAME.kin.ipynb)"
    )
    save.add_argument(
        "--check",
        action="store_true",
        help="after writing, run its cells once in a copy of the files next to it, without a sandbox and without a time "
        "limit (default: in a sandbox without network, 30 seconds at most; --no-check: not at all)",
    )
    add_save_options(save)
    save.hint = "`kin-nb sessions` lists the stored sessions; `kin-nb save --help` lists the options."
    save.set_defaults(command=notebooks.save)
    _add_diff_and_merge(commands)


def _add_diff_and_merge(commands: Commands) -> None:
    diff = commands.add_parser(
        "diff",
        help="compare two runs of a session",
        description="Compare two runs of a session, by two models or on two days: turns, tool calls, files, tokens, "
        "cost. Times, results and the text of replies are not compared.",
        epilog="exit codes: 0 the same turns, tool calls and files, 1 an error, 2 wrong usage, 3 they differ",
    )
    for name in "ab":
        diff.add_argument(
            name, metavar=name.upper(), help="a session notebook; or the id of a stored session, or its beginning"
        )
    diff.add_argument(
        "--output", choices=["text", "json"], default="text", help="text for a terminal (default), or one JSON document"
    )
    diff.set_defaults(command=notebooks.diff)

    merge = commands.add_parser(
        "merge",
        help="combine two copies of a session notebook that were continued separately",
        description="Combine A and B, two copies of the session notebook BASE that were continued separately. New turns of "
        "both are kept, as branches of the conversation, and each cell shows its own answer.",
        epilog="exit codes: 0 merged, 1 an error (nothing was written), 2 wrong usage, 3 merged, with cells that both "
        "changed left for you to choose. As git's merge driver: kin-nb merge %O %A %B -o %A --force",
    )
    merge.add_argument("base", type=Path, metavar="BASE", help="the notebook that both copies were made from")
    merge.add_argument("a", type=Path, metavar="A", help="one of the copies; its cells come first")
    merge.add_argument("b", type=Path, metavar="B", help="the other copy")
    merge.add_argument(
        "-o", "--out", type=Path, metavar="FILE", help="the notebook to write (default: A.merged.ipynb next to A)"
    )
    merge.add_argument("--force", action="store_true", help="replace FILE if it exists, also if it is A or B")
    merge.set_defaults(command=notebooks.merge)


def _add_sessions(commands: Commands) -> None:
    description = "List the stored sessions, newest first, or show one."
    parser = commands.add_parser("sessions", help="list and show the stored sessions", description=description)
    parser.set_defaults(command=sessions.list_all, workdir=None)
    kinds = parser.add_subparsers(title="commands", metavar="COMMAND")
    listing = kinds.add_parser(
        "list", help="list the stored sessions", description="List the stored sessions, newest first."
    )
    listing.add_argument("--workdir", type=Path, metavar="DIR", help="only sessions of this workspace")
    listing.set_defaults(command=sessions.list_all)
    show = kinds.add_parser("show", help="show one session", description="Show one session, turn by turn.")
    show.add_argument(
        "session",
        nargs="?",
        default="latest",
        metavar="ID",
        help="its id, or the beginning of the id (default: the newest session)",
    )
    what = show.add_mutually_exclusive_group()
    what.add_argument("--json", action="store_true", help="show everything, as one JSON document")
    what.add_argument(
        "--output",
        metavar="CALL",
        help="print the full output of a tool call, not only what the model got",
    )
    show.set_defaults(command=sessions.show)


def _add_audit(commands: Commands) -> None:
    description = (
        "Show the audit log: which tool calls were allowed or refused, who decided and why. The newest come last."
    )
    parser = commands.add_parser(
        "audit", help="show which tool calls were allowed or refused, and why", description=description
    )
    parser.add_argument("--session", metavar="ID", help="only this session: its id, or the beginning of the id")
    parser.add_argument("--tool", metavar="NAME", help="only this tool")
    parser.add_argument(
        "--verdict", choices=["allow", "deny"], help="only calls that were allowed, or only refused ones"
    )
    parser.add_argument("--since", type=time_since, metavar="TIME", help="only newer ones, e.g. 2h, 3d or 2025-01-31")
    parser.add_argument("--json", action="store_true", help="each decision as a line of JSON, with all fields")
    parser.add_argument(
        "-n", dest="number", type=positive_number, default=50, metavar="N", help="show at most N (default: 50)"
    )
    parser.set_defaults(command=audit.show)


def _add_config(commands: Commands) -> None:
    parser = commands.add_parser(
        "config",
        help="show the settings in use, and where each comes from",
        description="Show the settings in use here that differ from the defaults, as TOML. Secrets are hidden.",
    )
    parser.add_argument("--origin", action="store_true", help="show the file and line of each setting")
    parser.add_argument("--all", action="store_true", help="like --origin, and show the defaults too")
    parser.add_argument("--agent", metavar="NAME", help="include the settings of agents/NAME.toml")
    parser.add_argument("--workdir", type=Path, metavar="DIR", help=_WORKDIR)
    parser.set_defaults(command=config.show)

    trust = commands.add_parser(
        "trust",
        help="let a project folder bring its own settings, tools and instructions",
        description="Show what is read from a folder if you trust it, or what has changed since you trusted it; then trust "
        "it as it is now. This is not Jupyter's notebook trust.",
    )
    trust.add_argument(
        "folder", nargs="?", type=Path, default=Path(), metavar="DIR", help="the folder (default: this folder)"
    )
    trust.add_argument("--show", action="store_true", help="only show this; change nothing")
    trust.add_argument(
        "--no", action="store_true", help="never use what the folder brings, and do not mention it again"
    )
    trust.set_defaults(command=config.trust)


def _add_installation(commands: Commands) -> None:
    check = commands.add_parser(
        "doctor",
        help="check the installation and suggest fixes",
        description="Check the installation, the settings and the model server. The network is used for one request, to that "
        "server, without your key.",
        epilog="exit codes: 0 no check failed (there may be warnings), 1 a check failed",
    )
    check.add_argument("--json", action="store_true", help="print the result as one JSON document")
    check.add_argument("--offline", action="store_true", help="do not connect to the model server")
    check.set_defaults(command=doctor.examine)

    described = "Install or remove the Kin kernel for Jupyter: a notebook in which every cell is a prompt."
    parser = commands.add_parser("kernel", help="install or remove the Kin kernel for Jupyter", description=described)
    kinds = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, function, what in (
        ("install", kernel.install, "install a kernelspec that runs this Python, for Jupyter in any environment"),
        ("uninstall", kernel.uninstall, "remove the kernelspec"),
    ):
        kind = kinds.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
        places = kind.add_mutually_exclusive_group()
        places.add_argument("--user", action="store_true", help="for this user (default)")
        places.add_argument("--sys-prefix", action="store_true", help="in this environment")
        places.add_argument("--prefix", type=Path, metavar="DIR", help="in DIR/share/jupyter/kernels")
        kind.add_argument(
            "--name", type=kernel.kernel_name, default=kernel.NAME, help="kin (default), or kin-NAME for one more"
        )
        kind.set_defaults(command=function)
