"""`kin-nb run`: send one prompt, without a user to answer questions."""

from __future__ import annotations

import argparse
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kin_nb.cli.console import DONE, FAILED, LIMITED, USAGE, fail, note, warn

if TYPE_CHECKING:
    from collections.abc import Callable

    from kin_nb.core.commands import TypedCommand
    from kin_nb.core.config import KinConfig
    from kin_nb.core.config.custom_modes import CustomMode
    from kin_nb.core.modes import AgentMode
    from kin_nb.core.records import TurnRecord

LATEST = "latest"
"""The session that `--continue` resumes: the newest of the workspace."""

_MAX_REFUSALS = 3
"""Refusals that are shown with their reason and with how to allow the call."""

NOT_STORED = (
    "Not all of this session could be stored (see the warnings above).\nUndo and --continue may miss a part of it."
)


class ArgumentsError(Exception):
    """Wrong arguments: exit code 2."""


def run(arguments: argparse.Namespace) -> int:
    """Run the prompt or the /command. The answer goes to stdout, everything else to stderr."""
    from kin_nb.core.commands import UnknownCommandError, typed_command  # noqa: PLC0415  (each command loads its own)
    from kin_nb.core.config import ConfigError  # noqa: PLC0415
    from kin_nb.core.session.errors import SessionError  # noqa: PLC0415
    from kin_nb.core.skills.models import SkillError  # noqa: PLC0415

    config: KinConfig | None = None
    try:
        prompt = _prompt(arguments)
        typed = typed_command(prompt)
        config, mode = _settings(arguments)
        if typed is not None and not typed.command.asks:
            from kin_nb.cli.terminal_host import run_typed  # noqa: PLC0415

            return run_typed(config, mode, arguments.resume, typed)
        lost: list[str] = []
        turn = _turn(arguments, config, mode, prompt, typed, lambda: lost.append(NOT_STORED))
    except (ArgumentsError, UnknownCommandError) as error:
        return fail(str(error), USAGE)
    except ConfigError as error:
        from kin_nb.core.config.loading import explain  # noqa: PLC0415

        for warning in config.warnings if config is not None else ():
            warn(warning)  # settings of the project that were not used may be the reason
        return fail(explain(error))
    except (SessionError, SkillError) as error:
        return fail(str(error))
    if turn.outcome == "stopped":
        return fail(f"{_why_stopped(arguments, turn)}\n{_how_to_continue(arguments, turn)}", LIMITED)
    if turn.outcome != "done":
        return fail(turn.message, FAILED)
    return fail("\n".join(lost)) if lost else _report_refusals(turn)


def _why_stopped(arguments: argparse.Namespace, turn: TurnRecord) -> str:
    limit = arguments.max_requests
    if turn.stop_reason == "max_turns" and limit is not None:
        return (
            f"Stopped after {limit} model request{'' if limit == 1 else 's'} in this session (--max-requests {limit})."
        )
    return f"{turn.message.rstrip('.')}."


def _how_to_continue(arguments: argparse.Namespace, turn: TurnRecord) -> str:
    by_id = arguments.resume not in {None, LATEST}
    words = ["kin-nb", "run", *(["--resume", arguments.resume] if by_id else ["--continue"])]
    for name in ("workdir", "mode", "policy", "model", "agent"):
        value = getattr(arguments, name)
        if value not in {None, "default"}:
            words += [f"--{name}", str(value)]
    limited = turn.stop_reason in {"max_turns", "price"}
    command = shlex.join([*words, "-p", "Continue."])
    return f"To continue{' without this limit' if limited else ''}: {command}"


def _prompt(arguments: argparse.Namespace) -> str:
    """Raises ArgumentsError."""
    try:
        prompt: str = arguments.prompt if arguments.prompt is not None else _stdin()
        prompt.encode()  # undecodable bytes arrive as lone surrogates in some locales
    except UnicodeError:
        raise ArgumentsError("The prompt is not valid text in this locale's encoding.") from None
    if not prompt.strip():
        raise ArgumentsError("The prompt is empty.\nGive one with -p TEXT or on standard input.")
    if arguments.workdir is not None and not arguments.workdir.is_dir():
        raise ArgumentsError(f"--workdir {arguments.workdir}: this folder does not exist.")
    return prompt


def _stdin() -> str:
    """Read all of standard input. On a terminal, say first how to end it."""
    if sys.stdin is None:  # it was closed when the process started
        return ""
    if sys.stdin.isatty():
        note("Type the prompt. End it with Ctrl-D on an empty line.")
    return sys.stdin.read()


def _settings(arguments: argparse.Namespace) -> tuple[KinConfig, AgentMode | CustomMode]:
    """Raises ArgumentsError for a wrong mode, ConfigError, SessionError."""
    from kin_nb.core.config import KinConfig  # noqa: PLC0415
    from kin_nb.core.config.custom_modes import load_mode  # noqa: PLC0415

    workdir = arguments.workdir
    if workdir is None and arguments.resume not in {None, "", LATEST}:
        workdir = _folder_of(arguments.resume)
    config = KinConfig.load(arguments.agent, active_model=arguments.model, workdir=workdir, policy=arguments.policy)
    try:
        mode = load_mode(
            arguments.mode, config.effective_workdir, trusted=config.project_trusted, may_use=config.is_as_trusted
        )
    except ValueError as error:
        raise ArgumentsError("\n".join(filter(None, [str(error), config.layers.left_out]))) from None
    _check_policy(arguments.policy, mode)
    return config, mode


def _turn(
    arguments: argparse.Namespace,
    config: KinConfig,
    mode: AgentMode | CustomMode,
    prompt: str,
    typed: TypedCommand | None,
    not_stored: Callable[[], None],
) -> TurnRecord:
    """Raises ArgumentsError, ConfigError, SessionError, SkillError."""
    from kin_nb.core.commands import unescaped  # noqa: PLC0415
    from kin_nb.core.interrupts import run_interruptible  # noqa: PLC0415
    from kin_nb.core.output_formatters import OutputFormat  # noqa: PLC0415
    from kin_nb.core.programmatic import run_programmatic  # noqa: PLC0415

    flow = None
    if typed is not None:
        if not typed.words[0]:
            raise ArgumentsError(f"Usage: /{typed.command.shown}")
        if typed.command.name == "flow":
            flow, prompt = typed.words[0], " ".join(typed.words[1:])
    if arguments.own_process:
        _hide_keys(config)
    return run_interruptible(
        run_programmatic(
            config,
            prompt if typed is not None else unescaped(prompt),
            mode=mode,
            flow=flow,
            output_format=OutputFormat(arguments.output),
            max_turns=arguments.max_requests,
            max_price=arguments.max_price,
            resume=arguments.resume,
            write=partial(print, flush=True),
            warn=warn,
            not_stored=not_stored,
        )
    )


def _hide_keys(config: KinConfig) -> None:
    """Remove keys from the environment that commands and tools get, and keep other processes from reading our memory."""
    from kin_nb.core.config.keys import take_from_environment  # noqa: PLC0415
    from kin_nb.core.config.secrets import key_names  # noqa: PLC0415
    from kin_nb.core.environment import hide_secrets, keep_memory_private  # noqa: PLC0415

    names = key_names(config)
    hide_secrets(names)
    take_from_environment(names)
    keep_memory_private()


def _check_policy(policy: str | None, mode: AgentMode | CustomMode) -> None:
    """Raise ArgumentsError when the mode sets another policy than `--policy` does."""
    named = mode.config_overrides.get("policy", policy)
    if policy is not None and named != policy:
        raise ArgumentsError(
            f"--mode {mode.shown} and --policy {policy} contradict each other.\nGive only one of them."
        )


def _folder_of(session: str) -> Path:
    """Return the workspace of the session. If that folder no longer exists: this one, with a warning.

    Raises ConfigError, SessionError.
    """
    from kin_nb.cli.sessions import session_store  # noqa: PLC0415
    from kin_nb.core.config import KinConfig  # noqa: PLC0415

    config = KinConfig.load()
    here = config.effective_workdir
    recorded = Path(str(session_store(config).find(session).header.get("workspace") or here))
    if not recorded.is_dir():
        warn(f"the folder of the session, {recorded}, does not exist any more; working in {here}")
        return here
    if recorded != here:
        note(f"Working in {recorded}, the folder of the session.")
    return recorded


def _report_refusals(turn: TurnRecord) -> int:
    """Name the calls that no one could approve, with how to allow each; 0 when there are none."""
    if not turn.unasked:
        return DONE
    decisions = [call.decision for call in turn.calls if call.decision is not None and call.decision.by == "headless"]
    notes = list(dict.fromkeys(decision.note for decision in decisions if decision.note))
    lines = [f"Not run, because no one can approve it here: {', '.join(turn.unasked)}.", *notes[:_MAX_REFUSALS]]
    if not notes or len(notes) > _MAX_REFUSALS:  # a subagent's calls are not in this record
        lines.append("For every reason: kin-nb audit --verdict deny. To allow everything: --mode auto-approve.")
    return fail("\n".join(lines))
