"""The %kin line commands. Each is a function of the session and its words; an unknown one names the nearest."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from kin_nb.core.config import ConfigError
from kin_nb.core.trusted_folders import TrustedFolders, project_files
from kin_nb.notebook.errors import KinError
from kin_nb.render import render_notice

if TYPE_CHECKING:
    from kin_nb.notebook.session import KinSession


def run_command(session: KinSession, name: str, words: list[str]) -> None:
    """Raises KinError for an unknown command, naming the nearest."""
    command = COMMANDS.get(name)
    if command is None:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f" Did you mean %kin {near[0]}?" if near else ""
        raise KinError(f"%kin {name}: no such command.{hint} %kin help lists them.")
    command(session, words)


def _save(session: KinSession, words: list[str]) -> None:
    session.save(" ".join(words) or None)


def _replay(session: KinSession, words: list[str]) -> None:
    source = None
    if "--from" in words:
        at = words.index("--from")
        source = " ".join(words[at + 1 :]) or None
        words = words[:at]
    if len(words) != 1:
        raise KinError("Usage: %kin replay SESSION@DIGEST [--from PATH]")
    session.replay(words[0], source)


def _live(session: KinSession, words: list[str]) -> None:
    del words
    session.go_live()


def _model(session: KinSession, words: list[str]) -> None:
    if words:
        session.choose_model(words[0])
    config = session.config()
    active = config.get_active_model()
    others = ", ".join(model.alias for model in config.models if model is not active)
    session.show(render_notice(f"Model: {active.alias} ({active.name} at {active.provider})", [f"Others: {others}"]))


def _mode(session: KinSession, words: list[str]) -> None:
    if words:
        session.choose_mode(words[0])
    session.show(render_notice(f"Mode: {session.mode.shown}"))


def _compact(session: KinSession, words: list[str]) -> None:
    del words
    session.show(session.compact())


def _clear(session: KinSession, words: list[str]) -> None:
    del words
    session.clear()
    session.show(render_notice("A new conversation begins with the next %%kin cell. What was said stays recorded."))


def _trust(session: KinSession, words: list[str]) -> None:
    """This folder's own settings, tools and instructions count from the next %%kin cell on."""
    del words
    try:
        folder = TrustedFolders().trust(session.config().effective_workdir)
    except ConfigError as error:
        raise KinError(str(error)) from None
    found = ", ".join(project_files(folder)) or "nothing yet"
    session.show(render_notice(f"{folder} is trusted", [f"What is used of it now: {found}."]))


def _last(session: KinSession, words: list[str]) -> None:
    del words
    session.show_last()


def _help(session: KinSession, words: list[str]) -> None:
    """The line magic's own docstring, which is what %kin? shows too."""
    del words
    usage = session.shell.find_line_magic("kin").__doc__ or ""
    lines = [re.sub(r"\s{2,}", ": ", line.strip()) for line in usage.splitlines() if line.strip().startswith("%kin")]
    session.show(render_notice("%%kin [--mode MODE] [--model ALIAS], then the prompt below it", lines))


COMMANDS: dict[str, Callable[[KinSession, list[str]], None]] = {
    "save": _save,
    "replay": _replay,
    "live": _live,
    "model": _model,
    "mode": _mode,
    "compact": _compact,
    "clear": _clear,
    "trust": _trust,
    "last": _last,
    "help": _help,
}
