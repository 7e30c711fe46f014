"""`kin-nb`: scripts, CI, and teammates without JupyterLab."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from kin_nb import __version__

DONE, FAILED, USAGE, LIMITED, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes: 3 is drift for replay, a limit for run."""


def main(argv: list[str] | None = None) -> int:
    """Entry point of `kin-nb`. Returns the exit code; errors are one or two lines on stderr, never a stack trace."""
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

    run = commands.add_parser("run", help="one prompt, from a script")
    run.add_argument("-p", "--prompt", help="the prompt; without it, standard input is read")
    run.add_argument("--mode", default="default", help="default, plan, accept-edits, auto-approve")
    run.add_argument("--output", choices=["text", "json", "streaming"], default="text")
    run.add_argument("--model", help="alias of the model to use instead of active_model")
    run.add_argument("--workdir", type=Path, help="the workspace (default: the current directory)")
    run.set_defaults(command=_run)

    replay = commands.add_parser("replay", help="re-execute session notebooks, without a key")
    replay.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    replay.add_argument("--tools", action="store_true", help="really run the tools, in a fresh copy of the workspace")
    replay.add_argument(
        "--approve", choices=["recorded"], help="allow what was allowed when recorded (your own notebooks only)"
    )
    replay.add_argument("--workspace", type=Path, help="the folder to copy (default: the recorded one)")
    replay.add_argument("--output-dir", type=Path, help="where the executed notebooks go (default: a temporary folder)")
    replay.set_defaults(command=_replay)

    save = commands.add_parser("save", help="write a session of the log as a notebook")
    save.add_argument(
        "session", help="session id or the beginning of one; or a session notebook, to draw its outputs anew"
    )
    save.add_argument("path", type=Path, help="the notebook to write")
    save.set_defaults(command=_save)

    demo = commands.add_parser("demo", help="re-execute the quickstart session: no key, no network")
    demo.add_argument("--lab", action="store_true", help="open it in JupyterLab instead")
    demo.set_defaults(command=_demo)
    return parser


def fail(message: str, code: int = FAILED) -> int:
    print(message, file=sys.stderr)
    return code


def _run(arguments: argparse.Namespace) -> int:
    from kin_nb.core.config import ConfigError, KinConfig  # noqa: PLC0415  (each command loads its own)
    from kin_nb.core.modes import AgentMode  # noqa: PLC0415
    from kin_nb.core.programmatic import run_programmatic  # noqa: PLC0415
    from kin_nb.core.types import OutputFormat  # noqa: PLC0415

    prompt = arguments.prompt if arguments.prompt is not None else sys.stdin.read()
    if not prompt.strip():
        return fail("The prompt is empty. Give one with -p TEXT or on standard input.", USAGE)
    if arguments.workdir is not None and not arguments.workdir.is_dir():
        return fail(f"--workdir {arguments.workdir}: no such folder.", USAGE)
    try:
        mode = AgentMode.parse(arguments.mode)
        config = KinConfig.load(active_model=arguments.model, workdir=arguments.workdir)
        turn = asyncio.run(run_programmatic(config, prompt, mode=mode, output_format=OutputFormat(arguments.output)))
    except ValueError as error:
        return fail(str(error), USAGE)
    except ConfigError as error:
        from kin_nb.core.first_steps import explain  # noqa: PLC0415

        return fail(explain(error))
    if turn.outcome != "done":
        return fail(turn.message, LIMITED if turn.outcome == "stopped" else FAILED)
    unasked = [call.name for call in turn.calls if call.decision and call.decision.by == "headless"]
    if unasked:
        names = ", ".join(dict.fromkeys(unasked))
        return fail(
            f"Refused, because nobody can be asked here: {names}. To allow more: --mode accept-edits, auto-approve"
        )
    return DONE


def _replay(arguments: argparse.Namespace) -> int:
    from kin_nb.replay.command import replay  # noqa: PLC0415
    from kin_nb.replay.runner import ReplayOptions  # noqa: PLC0415

    options = ReplayOptions(
        tools=arguments.tools,
        approve_recorded=arguments.approve == "recorded",
        output_dir=arguments.output_dir,
        workspace=arguments.workspace,
    )
    return replay(arguments.notebooks, options)


def _save(arguments: argparse.Namespace) -> int:
    from kin_nb.replay.command import save  # noqa: PLC0415

    return save(arguments.session, arguments.path)


def _demo(arguments: argparse.Namespace) -> int:
    from kin_nb.replay.command import demo, demo_in_lab  # noqa: PLC0415

    return demo_in_lab() if arguments.lab else demo()


if __name__ == "__main__":
    sys.exit(main())
