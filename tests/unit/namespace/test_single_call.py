"""A call of `python` that belongs to no turn: decided as one of a turn, by a separate agent; only the audit log keeps it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kin_nb.core.paths import kin_home
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.session.log import UnwrittenLog
from kin_nb.notebook.live_agent import LiveAgent
from kin_nb.notebook.options import KinError

CODE = "x = 41 + 1\nprint('printed')"


@pytest.fixture
def live(shell, workspace, model_server, monkeypatch):
    """Of a user whose model wants a key that is not set."""
    monkeypatch.chdir(workspace)
    configure("")
    found = LiveAgent(shell)
    yield found
    found.close()


def configure(more: str) -> None:
    (kin_home() / "config.toml").write_text(
        'active_model = "m"\n[[providers]]\nname = "p"\napi_base = "http://127.0.0.1:9"\n'
        f'api_key_env_var = "KEY_THAT_IS_NOT_SET"\n[[models]]\nname = "m"\nprovider = "p"\n{more}\n'
    )


@pytest.fixture
def call(live, in_turn):
    """`call(answer, ...)`: the result; the requests that were asked about are in `call.asked`."""

    def run(approved=None, code: str = CODE, grant=None):
        run.asked = []

        async def ask(request: ApprovalRequest) -> ApprovalDecision:
            run.asked.append(request)
            return ApprovalDecision(bool(approved))

        with live.separate() as agent:
            run.agent = agent
            agent.set_ask(ask)
            if grant is not None:
                agent.safety().grants.add(grant)
            return in_turn(lambda: agent.run_tool("python", {"code": code}, call_id="again-1", turn=7))

    return run


def audited() -> list[tuple[str, int, str, str]]:
    lines = (kin_home() / "audit.jsonl").read_text().splitlines()
    return [(each["tool"], each["turn"], each["verdict"], each["by"]) for each in map(json.loads, lines)]


def test_it_asks_as_a_call_of_a_turn_does_and_needs_no_key(call, live, shell):
    ended = call(approved=True)
    (request,) = call.asked
    assert request.preview.body == CODE
    assert "it runs in your notebook's kernel" in request.reason
    assert (ended.result.printed, ended.call.status, shell.user_ns["x"]) == ("printed\n", "ok", 42)
    assert audited() == [("python", 7, "allow", "person")]
    with pytest.raises(KinError, match="KEY_THAT_IS_NOT_SET"):
        live.get()


def test_refused_nothing_runs(call, shell):
    ended = call(approved=False)
    assert ended.skipped
    assert "x" not in shell.user_ns
    assert audited() == [("python", 7, "deny", "person")]


def test_no_log_begins_and_the_session_has_no_agent_afterwards(call, live):
    call(approved=True)
    assert isinstance(call.agent.log, UnwrittenLog)
    assert not (kin_home() / "sessions").exists()
    assert live.agent_or_none is None


def test_a_grant_of_the_session_covers_it_and_one_given_here_is_not_the_sessions(call, live, monkeypatch):
    call(approved=False)
    (grant, *_) = call.asked[0].scopes
    monkeypatch.setenv("KEY_THAT_IS_NOT_SET", "k")
    grants = live.get().safety().grants
    assert call(grant=grant).call.decision.by == "AllowWhatWasGranted"
    assert grants.granted == []
    grants.add(grant)
    assert call().call.decision.by == "AllowWhatWasGranted"
    assert call.asked == []


def test_the_mode_that_a_session_begins_in_counts(shell, live, in_turn):
    begins = LiveAgent(shell, None, "plan")
    with begins.separate() as agent:
        ended = in_turn(lambda: agent.run_tool("python", {"code": CODE}, call_id="c", turn=1))
    begins.close()
    assert ended.call.decision.by == "DenyWhilePlanning"


def test_an_error_of_the_code_is_a_result(call):
    assert call(approved=True, code="1 / 0").result.error.endswith("ZeroDivisionError: division by zero")


def test_what_is_no_plain_python_is_an_error_of_the_call(call):
    ended = call(approved=True, code="%time 1")
    assert ended.error is not None
    assert ended.error.startswith("Magics and `!` commands do not run here")


def test_settings_that_cannot_be_read_are_named(live):
    (kin_home() / "config.toml").write_text("active_model = [")
    with pytest.raises(KinError, match=r"config\.toml"), live.separate():
        pytest.fail("there is no agent")


def test_the_open_notebook_is_no_change_of_the_call(call, workspace: Path, monkeypatch):
    path = workspace / "open.ipynb"
    path.write_text("{}")
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    code = f"from pathlib import Path\nfor path in ({str(path)!r}, {str(workspace / 'b.py')!r}): _ = Path(path).write_text('y')"
    assert [change.path for change in call(approved=True, code=code).call.files] == ["b.py"]
