"""`kin-nb run`: one prompt, from a script."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kin_nb.cli.exits import DONE, FAILED, LIMITED, USAGE, fail, note, warn

if TYPE_CHECKING:
    from collections.abc import Callable

    from kin_nb.core.commands import TypedCommand
    from kin_nb.core.config import KinConfig
    from kin_nb.core.config.custom_modes import CustomMode
    from kin_nb.core.modes import AgentMode
    from kin_nb.core.records import TurnRecord

LATEST = "latest"
"""What `--continue` resumes: the newest session of the workspace."""

_MOST_NOTES = 3
"""How many refusals are told with their reason."""

NOT_STORED = "Not all of this session could be stored (see the warnings above): undo and resume may lack a part of it."


class UsageError(Exception):
    """The command line asks for something that there is not."""


def run(arguments: argparse.Namespace) -> int:
    """The answer goes to stdout, everything else to stderr."""
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
            from kin_nb.cli.commands import run_typed  # noqa: PLC0415

            return run_typed(config, mode, arguments.resume, typed)
        lost: list[str] = []
        turn = _turn(arguments, config, mode, prompt, typed, lambda: lost.append(NOT_STORED))
    except (UsageError, UnknownCommandError) as error:
        return fail(str(error), USAGE)
    except ConfigError as error:
        from kin_nb.core.config.loading import explain  # noqa: PLC0415

        for warning in config.warnings if config is not None else ():
            warn(warning)  # a project's settings that were left out may be why
        return fail(explain(error))
    except (SessionError, SkillError) as error:
        return fail(str(error))
    if turn.outcome == "stopped":
        limited = arguments.max_turns is not None or arguments.max_price is not None
        higher = ", with a higher limit or none: it counts the whole session" if limited else ""
        return fail(f"{turn.message.rstrip('.')}. To go on: kin-nb run --continue{higher}", LIMITED)
    if turn.outcome != "done":
        return fail(turn.message, FAILED)
    return fail("\n".join(lost)) if lost else _refusals(turn)


def _prompt(arguments: argparse.Namespace) -> str:
    """Raises UsageError."""
    try:
        prompt: str = arguments.prompt if arguments.prompt is not None else _stdin()
        prompt.encode()  # bytes that are no text come as half characters, where the locale lets them through
    except UnicodeError:
        raise UsageError("The prompt is not valid text in this locale's encoding.") from None
    if not prompt.strip():
        raise UsageError("The prompt is empty. Give one with -p TEXT or on standard input.")
    if arguments.workdir is not None and not arguments.workdir.is_dir():
        raise UsageError(f"--workdir {arguments.workdir}: no such folder.")
    return prompt


def _stdin() -> str:
    """To its end; "" when it was closed before we began. A person who types is told how that ends."""
    if sys.stdin is None:
        return ""
    if sys.stdin.isatty():
        note("Type the prompt, then Ctrl-D on a line of its own.")
    return sys.stdin.read()


def _settings(arguments: argparse.Namespace) -> tuple[KinConfig, AgentMode | CustomMode]:
    """Raises UsageError for a wrong mode, ConfigError, SessionError."""
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
        raise UsageError("\n".join(filter(None, [str(error), config.layers.left_out]))) from None
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
    """Raises UsageError, ConfigError, SessionError, SkillError."""
    from kin_nb.core.commands import unescaped  # noqa: PLC0415
    from kin_nb.core.interrupts import run_interruptible  # noqa: PLC0415
    from kin_nb.core.output_formatters import OutputFormat  # noqa: PLC0415
    from kin_nb.core.programmatic import run_programmatic  # noqa: PLC0415

    flow = None
    if typed is not None:
        if not typed.words[0]:
            raise UsageError(f"Usage: /{typed.command.shown}")
        if typed.command.name == "flow":
            flow, prompt = typed.words[0], " ".join(typed.words[1:])
    if arguments.own_process:
        _keep_secrets(config)
    return run_interruptible(
        run_programmatic(
            config,
            prompt if typed is not None else unescaped(prompt),
            mode=mode,
            flow=flow,
            output_format=OutputFormat(arguments.output),
            max_turns=arguments.max_turns,
            max_price=arguments.max_price,
            resume=arguments.resume,
            write=partial(print, flush=True),
            warn=warn,
            not_stored=not_stored,
        )
    )


def _keep_secrets(config: KinConfig) -> None:
    """Out of reach of commands and tools: not in this process's environment, nor for others to read in its memory."""
    from kin_nb.core.config.keys import take_from_environment  # noqa: PLC0415
    from kin_nb.core.config.secrets import key_names  # noqa: PLC0415
    from kin_nb.core.environment import hide_secrets, keep_memory_private  # noqa: PLC0415

    names = key_names(config)
    hide_secrets(names)
    take_from_environment(names)
    keep_memory_private()


def _check_policy(policy: str | None, mode: AgentMode | CustomMode) -> None:
    """Raises UsageError when the mode is about another policy than the one asked for: neither may quietly win."""
    named = mode.config_overrides.get("policy", policy)
    if policy is not None and named != policy:
        raise UsageError(f"--mode {mode.shown} means the policy {named}. Leave out --mode, or --policy {policy}.")


def _folder_of(session: str) -> Path:
    """The workspace that the session worked in; this one, with a warning, when that is gone.

    Raises ConfigError, SessionError.
    """
    from kin_nb.cli.sessions import session_store  # noqa: PLC0415
    from kin_nb.core.config import KinConfig  # noqa: PLC0415

    config = KinConfig.load()
    here = config.effective_workdir
    recorded = Path(str(session_store(config).find(session).header.get("workspace") or here))
    if not recorded.is_dir():
        warn(f"the session's folder {recorded} is gone; working in {here}")
        return here
    if recorded != here:
        note(f"Working in {recorded}, the session's folder.")
    return recorded


def _refusals(turn: TurnRecord) -> int:
    if not turn.unasked:
        return DONE
    decisions = [call.decision for call in turn.calls if call.decision is not None and call.decision.by == "headless"]
    notes = list(dict.fromkeys(decision.note for decision in decisions if decision.note))[:_MOST_NOTES]
    refused = f"Refused, because nobody can be asked here: {', '.join(turn.unasked)}."
    return fail("\n".join([refused, *notes, "To allow everything: --mode auto-approve"]))
