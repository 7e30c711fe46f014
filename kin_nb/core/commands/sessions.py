"""/save, /load, /sessions, /resume: stored sessions. /replay, /live, /status: recorded answers."""

from __future__ import annotations

from pathlib import Path

from kin_nb.core.agent import Agent
from kin_nb.core.commands.host import CommandError, CommandHost, CommandResult, Table, UsageError
from kin_nb.core.documents.report import HEADINGS, NUMBERS, session_row
from kin_nb.core.documents.session import load_session, save_session
from kin_nb.core.session.store import LATEST, SessionStore


def save(host: CommandHost, words: list[str]) -> CommandResult:
    path = " ".join(words)
    if not path.endswith(".json"):
        return host.save(path)
    host.check_live("save")
    if host.agent is None or not host.agent.turns:
        raise CommandError("Nothing to save yet: no prompt has run in this session.")
    saved = save_session(host.agent, _path(path))
    return CommandResult(f"Saved {saved}", lines=(f"To continue it elsewhere: /load {saved.name}",))


def load(host: CommandHost, words: list[str]) -> CommandResult:
    if not words:
        raise UsageError(", the file of a session notebook (.ipynb) or of a saved session (.json)")
    host.check_live("put another in the place of")
    path = _path(" ".join(words))
    way_back = _way_back(host)
    config = host.config()
    config.check_api_key()
    if path.suffix == ".ipynb":
        restore = host.notebook(path)
        agent = Agent(config, host.mode, host=host.facts)
        restore(agent)
    elif path.suffix == ".json":
        agent = load_session(config, path, mode=host.mode, host=host.facts)
    else:
        raise CommandError(f"/load reads .ipynb and .json files, got {path.name}.")
    return _switched(host, agent, f"Loaded {path.name}", way_back)


def sessions(host: CommandHost, words: list[str]) -> CommandResult:
    del words
    found = SessionStore.from_config(host.config().session_logging).list()
    if not found:
        return CommandResult("No sessions yet")
    table = Table(HEADINGS, tuple(map(session_row, found)), frozenset(NUMBERS))
    return CommandResult("Sessions, newest first", table, ("/resume ID continues one.",))


def resume(host: CommandHost, words: list[str]) -> CommandResult:
    if len(words) > 1:
        raise UsageError("")
    host.check_live("put another in the place of")
    config = host.config()
    config.check_api_key()
    own = host.agent.journal.root_id if host.agent is not None else ""
    store = SessionStore.from_config(config.session_logging)
    others = [] if words else [each.id for each in store.list(config.effective_workdir) if each.id != own]
    stored = store.find(words[0] if words else (others[0] if others else LATEST), config.effective_workdir)
    if host.agent is not None and stored.id == own and not host.agent.log.continued_elsewhere:
        raise CommandError(f"Session {own[:8]} is the current one.\n/sessions lists all stored sessions.")
    way_back = _way_back(host)
    agent = Agent.resume(config, stored.id, mode=host.mode, host=host.facts)
    return _switched(host, agent, f"Continued session {agent.journal.root_id[:8]}", way_back)


def _switched(host: CommandHost, agent: Agent, title: str, way_back: tuple[str, ...]) -> CommandResult:
    host.take(agent)
    count = f"{len(agent.turns)} turn{'' if len(agent.turns) == 1 else 's'}"
    elsewhere = str(agent.header.get("workspace") or "")
    other = (f"It worked in {elsewhere}; now it works in {agent.workspace.root}.",)
    moved = other if elsewhere and Path(elsewhere) != agent.workspace.root else ()
    return CommandResult(f"{title}: {count}", lines=(*moved, *agent.journal.warnings, *way_back))


def _way_back(host: CommandHost) -> tuple[str, ...]:
    """Return how to get back to the current session. Raises CommandError if that would be impossible."""
    agent = host.agent
    if agent is None or not agent.turns:
        return ()
    if not agent.config.session_logging.enabled:
        raise CommandError(
            "This session is not stored and would be lost.\nSave it first with /save PATH, then restart the kernel."
        )
    if agent.busy:
        raise CommandError("A turn is still ending. Try again in a moment.")
    return (f"To get back to the session before: /resume {agent.journal.root_id[:8]}",)


def _path(text: str) -> Path:
    """Raises CommandError for an unknown `~user`."""
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise CommandError(f"{text}: {error}") from None


def replay(host: CommandHost, words: list[str]) -> CommandResult:
    source = None
    if "--from" in words:
        at = words.index("--from")
        source = " ".join(words[at + 1 :]) or None
        words = words[:at]
    names = [word for word in words if word != "--scratch"]
    if len(names) != 1:
        raise UsageError("\nThe first cell of a session notebook has this line. In a terminal: kin-nb replay NOTEBOOK")
    host.replay(names[0], source, scratch="--scratch" in words)
    return CommandResult()


def live(host: CommandHost, words: list[str]) -> CommandResult:
    del words
    host.go_live()
    return CommandResult()


def status(host: CommandHost, words: list[str]) -> CommandResult:
    del words
    model = host.config().get_active_model()
    lines = (f"Model: {model.alias} ({model.name} at {model.provider})", f"Mode: {host.mode.shown}")
    return CommandResult(f"Prompts: {host.record_mode()}", lines=lines)
