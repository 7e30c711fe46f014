"""`kin-nb run`: one prompt, from a script."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from kin_nb.cli.exits import DONE, FAILED, LIMITED, USAGE, fail

if TYPE_CHECKING:
    from kin_nb.core.session.records import TurnRecord


def run(arguments: argparse.Namespace) -> int:
    """The answer goes to stdout, everything else to stderr."""
    from kin_nb.core.config import ConfigError  # noqa: PLC0415  (each command loads its own)
    from kin_nb.core.session.errors import SessionError  # noqa: PLC0415

    prompt = arguments.prompt if arguments.prompt is not None else sys.stdin.read()
    if not prompt.strip():
        return fail("The prompt is empty. Give one with -p TEXT or on standard input.", USAGE)
    if arguments.workdir is not None and not arguments.workdir.is_dir():
        return fail(f"--workdir {arguments.workdir}: no such folder.", USAGE)
    try:
        turn = _turn(arguments, prompt)
    except ValueError as error:
        return fail(str(error), USAGE)
    except ConfigError as error:
        from kin_nb.core.first_steps import explain  # noqa: PLC0415

        return fail(explain(error))
    except SessionError as error:
        return fail(str(error))
    if turn.outcome != "done":
        return fail(turn.message, LIMITED if turn.outcome == "stopped" else FAILED)
    return _refusals(turn)


def _turn(arguments: argparse.Namespace, prompt: str) -> TurnRecord:
    """Raises ValueError for a wrong mode, ConfigError, SessionError."""
    from kin_nb.core.config import KinConfig  # noqa: PLC0415
    from kin_nb.core.custom_modes import load_mode  # noqa: PLC0415
    from kin_nb.core.programmatic import run_programmatic  # noqa: PLC0415
    from kin_nb.core.types import OutputFormat  # noqa: PLC0415

    config = KinConfig.load(arguments.agent, active_model=arguments.model, workdir=arguments.workdir)
    mode = load_mode(arguments.mode, config.effective_workdir, trusted=config.project_trusted)
    return asyncio.run(
        run_programmatic(
            config,
            prompt,
            mode=mode,
            output_format=OutputFormat(arguments.output),
            max_turns=arguments.max_turns,
            max_price=arguments.max_price,
            resume=arguments.resume,
            warn=lambda warning: print(f"warning: {warning}", file=sys.stderr),
        )
    )


def _refusals(turn: TurnRecord) -> int:
    unasked = [call.name for call in turn.calls if call.decision and call.decision.by == "headless"]
    if not unasked:
        return DONE
    names = ", ".join(dict.fromkeys(unasked))
    return fail(f"Refused, because nobody can be asked here: {names}. To allow more: --mode accept-edits, auto-approve")
