"""Observers listen, and can neither break a turn nor be turned on by a project."""

from __future__ import annotations

import subprocess
import sys
from contextlib import aclosing

import pytest

from kin_nb.core.config import KinConfig
from kin_nb.core.config.trusted_folders import TrustedFolders
from kin_nb.core.events import ErrorEvent, TurnEndEvent, TurnStartEvent, WarningEvent
from kin_nb.core.observability import Observers, observers_for
from kin_nb.core.records import TurnRecord


class Session:
    session_id = "s1"

    def __init__(self, **settings):
        self.config = KinConfig(observability=settings)

    def redact(self, text):
        return text.replace("secret", "[secret]")


class Listener:
    def __init__(self, fails_at=()):
        self.heard, self.fails_at, self.closed = [], fails_at, 0

    def on_event(self, event):
        self.heard.append(type(event).__name__)
        if isinstance(event, self.fails_at):
            raise OSError(28, "No room")

    def close(self):
        self.closed += 1


@pytest.fixture
def listening(monkeypatch):
    """Observers of our own in the place of those that the settings name."""

    def listening(*listeners):
        monkeypatch.setattr("kin_nb.core.observability.observers.observers_for", lambda session, warn: list(listeners))
        return Observers(Session())

    return listening


START, WARNING, ERROR = TurnStartEvent(turn=1, prompt="p"), WarningEvent(message="w"), ErrorEvent(message="e")
END = TurnEndEvent(record=TurnRecord(turn=1, prompt="p"))


def test_by_default_there_is_no_one_and_nothing_is_imported():
    assert observers_for(Session(), pytest.fail) == []
    code = (
        "import sys; from kin_nb.core.observability import Observers; from kin_nb.core.config import KinConfig;"
        "from kin_nb.core.events import ErrorEvent;"
        "S = type('S', (), {'config': KinConfig(), 'session_id': 's', 'redact': str});"
        "o = Observers(S()); o.on_event(ErrorEvent(message='x')); o.close();"
        "names = ('opentelemetry', 'prometheus_client', 'kin_nb.core.wire', 'kin_nb.core.observability.tracing',"
        " 'kin_nb.core.observability.file_observers');"
        "print([n for n in names if n in sys.modules], o.warnings)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[] []"


def test_one_that_fails_is_dropped_with_one_warning_and_the_others_continue(listening):
    good, bad = Listener(), Listener(fails_at=WarningEvent)
    observers = listening(bad, good)
    for event in (START, WARNING, ERROR, END):
        observers.on_event(event)
    assert good.heard == ["TurnStartEvent", "WarningEvent", "ErrorEvent", "TurnEndEvent"]
    assert bad.heard == ["TurnStartEvent", "WarningEvent"]
    assert observers.warnings == ["observability: Listener failed, and gets no more events: no room."]
    observers.close()
    assert (good.closed, bad.closed) == (1, 0)


def test_a_turn_that_is_cut_short_is_over_for_them_too(listening):
    listener = Listener()
    observers = listening(listener)
    observers.turn_over(END.record)
    assert listener.heard == []
    observers.on_event(START)
    observers.turn_over(END.record)
    observers.turn_over(END.record)
    assert listener.heard == ["TurnStartEvent", "TurnEndEvent"]


async def test_closing_an_agents_turn_early_ends_it_for_them(make_agent, model_server, listening):
    listener = Listener()
    listening(listener)
    model_server.enqueue("Some words that come in pieces.")
    agent = make_agent()
    async with aclosing(agent.act("go")) as events:
        await anext(events)
    await agent.aclose()
    assert listener.heard == ["TurnStartEvent", "TurnEndEvent"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"log": "/dev/null/x.jsonl"}, "not a directory"),
        (
            {"prometheus": "/no/such/folder/x.prom"},
            "observability.prometheus is not used: /no/such/folder: there is no",
        ),
    ],
)
def test_what_cannot_be_had_is_a_warning_that_names_the_place(settings, said):
    observers = Observers(Session(**settings))
    for event in (START, WARNING, END):
        observers.on_event(event)
    (warning,) = observers.warnings
    assert said in warning
    assert next(iter(settings.values())).rpartition("/")[0] in warning


def test_a_missing_library_says_what_to_install(monkeypatch):
    for name in [
        name for name in sys.modules if name.startswith(("opentelemetry", "kin_nb.core.observability.tracing"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    warnings: list[str] = []
    assert observers_for(Session(otel=True), warnings.append) == []
    assert warnings == ["observability.otel is not used: pip install kin-nb[otel]."]


def test_no_project_turns_them_on_or_names_their_places(home, tmp_path):
    project = tmp_path / "workspace" / ".kin-code"
    project.mkdir(parents=True)
    (project / "config.toml").write_text('[observability]\nlog = "/tmp/x"\notel = true\ncontents = true\n')
    TrustedFolders().trust(project.parent)
    (home / "config.toml").write_text('[observability]\nprometheus = "kin.prom"\n')
    config = KinConfig.load(workdir=project.parent)
    assert config.observability.model_dump(exclude_defaults=True) == {"prometheus": "kin.prom"}
    for key, warning in zip(("log", "otel", "contents"), config.warnings, strict=True):
        assert warning.startswith(f"{project}/config.toml:")
        assert f"observability.{key} can only be set by the user" in warning
    (home / "config.toml").write_text('[observability]\nprometheos = "kin.prom"\n')
    assert any("Did you mean prometheus?" in warning for warning in KinConfig.load(workdir=project.parent).warnings)
