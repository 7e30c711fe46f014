"""Encrypted sessions: unreadable without the key, whole with it, and never written in clear by mistake."""

from __future__ import annotations

import base64
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import ConfigError, KinConfig, SessionLoggingConfig
from kin_nb.core.documents.document import session_document
from kin_nb.core.modes import AgentMode
from kin_nb.core.paths import kin_home
from kin_nb.core.session.encryption import PASSPHRASE, SessionKeys, is_encrypted
from kin_nb.core.session.errors import EncryptedSessionError, SessionError, SessionNotFoundError, UnreadableSessionError
from kin_nb.core.session.log import SessionLog, read_lines, session_log
from kin_nb.core.session.state import SessionState
from kin_nb.core.session.store import SessionStore
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.saving.sources import session_from_log
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn
from tests.unit.session.conftest import HEADER, write_turns

SECRET = "the plan for the merger"


@pytest.fixture(autouse=True)
def _no_passphrase(monkeypatch) -> None:
    monkeypatch.delenv(PASSPHRASE, raising=False)


@pytest.fixture
def settings(root) -> SessionLoggingConfig:
    return SessionLoggingConfig(encrypt="key-file", save_dir=str(root))


@pytest.fixture
def store(root, settings) -> SessionStore:
    return SessionStore(root, SessionKeys(settings))


def write(settings: SessionLoggingConfig, name: str, *prompts: str, notice=None, **more) -> SessionLog:
    log = session_log(name, settings, notice)
    log.append("session", **HEADER, session=name, workspace="/w", **more)
    write_turns(log, *prompts)
    log.close()
    return log


def other_key() -> None:
    path = kin_home() / "session.key"
    path.write_bytes(base64.b64encode(os.urandom(32)) + b"\n")


# What is in the file.


def test_nothing_of_the_session_is_in_the_file_but_how_to_open_it(settings, store):
    log = write(settings, "aaaa-1", SECRET)
    data = log.path.read_bytes()
    first, *rest = data.splitlines()
    assert list(json.loads(first)) == ["type", "format", "kdf", "salt"]
    assert len(rest) == 4
    plain = b"".join(base64.b64decode(line, validate=True) for line in rest)
    for word in (SECRET.encode(), b"workspace", b"session", b'"type"'):  # short ones may be there by chance
        assert word not in plain
        assert word not in b"".join(rest)
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    stored = store.find("aaaa-1")
    assert [turn.prompt for turn in stored.turns] == [SECRET]
    assert stored.header["workspace"] == "/w"


def test_equal_records_and_equal_sessions_do_not_look_alike(settings):
    logs = [write(settings, name, "x", "x") for name in ("aaaa-1", "bbbb-1")]
    lines = [line for log in logs for line in log.path.read_bytes().splitlines()]
    assert len(set(lines)) == len(lines)


def test_a_line_is_appended_and_nothing_before_it_changes(settings, store):
    log = write(settings, "aaaa-1", "first")
    before = log.path.read_bytes()
    stored, resumed = store.resume("aaaa-1")
    write_turns(resumed, "second", first=2)
    resumed.close()
    assert log.path.read_bytes().startswith(before)
    assert [turn.prompt for turn in store.find("aaaa-1").turns] == ["first", "second"]
    assert stored.turns[0].outcome == "done"


# The key file.


def test_the_key_file_is_made_once_and_that_is_reported(settings):
    said: list[str] = []
    write(settings, "aaaa-1", "x", notice=said.append)
    path = kin_home() / "session.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(base64.b64decode(path.read_text().strip(), validate=True)) == 32
    assert len(said) == 1
    assert "Keep a copy" in said[0]
    key = path.read_bytes()
    write(settings, "bbbb-1", "x", notice=said.append)
    assert (path.read_bytes(), len(said)) == (key, 1)


async def test_the_notice_reaches_the_person_with_the_first_turn(model_server, config, settings):
    agent = Agent(config.model_copy(update={"session_logging": settings}))
    model_server.enqueue("Hello.")
    events = await run_turn(agent)
    await agent.aclose()
    assert any("new key" in getattr(event, "message", "") for event in events)


def test_another_place_for_the_key(settings, root, tmp_path):
    mine = settings.model_copy(update={"key_file": str(tmp_path / "safe" / "k")})
    write(mine, "aaaa-1", "x")
    assert (tmp_path / "safe" / "k").is_file()
    assert not (kin_home() / "session.key").exists()
    assert SessionStore(root, SessionKeys(mine)).find("aaaa-1").turns


def test_readers_that_are_given_no_keys_use_the_users_own(settings, root, tmp_path):
    key = tmp_path / "k"
    kin_home().joinpath("config.toml").write_text(f'[session_logging]\nkey_file = "{key}"\n')
    log = write(settings.model_copy(update={"key_file": str(key)}), "aaaa-1", "x")
    assert [line["type"] for line in read_lines(log.path)] == ["session", "turn", "reply", "end"]
    assert session_document(log.folder)["messages"][1]["content"] == "x"
    (summary,) = SessionStore(root).list()
    assert summary.title == "x"
    kin_home().joinpath("config.toml").write_text("x = \n")
    with pytest.raises(EncryptedSessionError, match="not valid TOML"):
        list(read_lines(log.path))


def remove_key() -> None:
    (kin_home() / "session.key").unlink()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (other_key, "the key does not open this session"),
        (remove_key, "session.key does not exist"),
        (lambda: (kin_home() / "session.key").chmod(0o644), "chmod 600 "),
        (lambda: (kin_home() / "session.key").write_text("password123\n"), "is not valid"),
        (lambda: (kin_home() / "session.key").write_text(""), "is not valid"),
    ],
)
def test_without_the_right_key_there_is_one_clear_error(settings, store, spoil, says):
    write(settings, "aaaa-1", SECRET)
    spoil()
    for use in (store.find, store.resume):
        with pytest.raises(EncryptedSessionError, match=says):
            use("aaaa-1")
    (summary,) = store.list()
    assert (summary.id, summary.title, summary.turns, summary.workdir) == ("aaaa-1", "(encrypted)", None, "")
    assert store.list(Path("/w")) == []
    for workdir in (None, Path("/w")):
        with pytest.raises(EncryptedSessionError, match=says) as error:
            store.find("latest", workdir)
        assert "Session aaaa-1 is the newest. To continue another one, give its id" in str(error.value)


def test_an_older_session_is_not_taken_for_the_newest_because_that_is_locked(settings, store, write_session, tmp_path):
    log = write_session("bbbb-1", "older")
    os.utime(write(settings, "aaaa-1", "newer").path, (2**31, 2**31))
    assert store.find("latest", tmp_path).id == "bbbb-1"
    other_key()
    with pytest.raises(EncryptedSessionError, match="is the newest"):
        store.find("latest", tmp_path)
    os.utime(log.folder.parent / "aaaa-1" / "log.jsonl", (1, 1))
    assert store.find("latest", tmp_path).id == "bbbb-1"


@pytest.mark.parametrize("left", [1, 2, 200])
def test_a_session_that_ended_before_its_first_record_was_whole_hides_no_older_one(settings, store, left):
    write(settings, "aaaa-1", "older")
    path = write(settings, "bbbb-1", "newer").path
    first, second, *_ = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[: min(left, len(second)) - 1])
    os.utime(path, (2**31, 2**31))
    assert [summary.id for summary in store.list()] == ["aaaa-1"]
    assert store.find("latest", Path("/w")).id == "aaaa-1"
    with pytest.raises(SessionNotFoundError, match="No sessions of"):
        store.find("latest", Path("/elsewhere"))
    other_key()
    assert [summary.id for summary in store.list()] == ["aaaa-1"]


def test_a_locked_session_that_turns_out_to_be_damaged_hides_no_older_one(settings, store, monkeypatch):
    write(settings, "aaaa-1", "older")
    path = write(settings, "bbbb-1", "newer").path
    os.utime(path, (2**31, 2**31))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[3]]))
    monkeypatch.setattr("kin_nb.core.session.summary._LONGEST_LINE", 200)  # its header is longer than is read here
    assert store.find("latest", Path("/w")).id == "aaaa-1"


def test_a_lost_key_is_never_replaced_by_reading(settings, store):
    write(settings, "aaaa-1", "x")
    (kin_home() / "session.key").unlink()
    with pytest.raises(EncryptedSessionError):
        store.resume("aaaa-1")
    assert not (kin_home() / "session.key").exists()


def test_with_its_key_a_session_is_listed_like_any_other(settings, store, root, write_session):
    write(settings, "aaaa-1", "x" * 20_000, "second", start_time="2024-01-26T10:30:00+01:00")
    write_session("bbbb-1", "plain")
    found = {summary.id: summary for summary in store.list()}
    assert found["aaaa-1"].turns == 2
    assert found["aaaa-1"].tokens == 220
    assert found["aaaa-1"].title.startswith("xxxx")
    assert found["bbbb-1"].title == "plain"
    assert [summary.id for summary in store.list(Path("/w"))] == ["aaaa-1"]


def test_a_long_encrypted_log_is_known_by_its_ends(settings, store, root):
    log = session_log("aaaa-1", settings)
    log.append("session", **HEADER, session="aaaa-1", workspace="/w")
    write_turns(log, *["x"] * 12)
    log.append("note", text="z" * 100_000)
    write_turns(log, "last", first=13)
    log.close()
    (summary,) = store.list()
    assert (summary.turns, summary.tokens) == (13, 13 * 110)


def test_a_name_that_it_once_had_finds_it(settings, store):
    log = write(settings, "aaaa-1", "x")
    resumed = store.resume("aaaa-1")[1]
    resumed.append("renamed", session_id="cccc-2", why="clear")
    resumed.close()
    assert store.find("cccc").id == "aaaa-1"
    other_key()
    with pytest.raises(SessionError, match="No session cccc"):
        store.find("cccc")
    assert log.path.exists()


# What was changed by somebody else.


def lines_of(log: SessionLog) -> list[bytes]:
    return log.path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]],
        lambda lines: [*lines[:3], *lines[4:]],
        lambda lines: [*lines[:3], lines[2], *lines[3:]],
        lambda lines: [*lines[:3], b"x" * (len(lines[3]) - 1) + b"\n", *lines[4:]],
        lambda lines: [*lines[:3], lines[3][:-9] + b"AAAAAAA=\n", *lines[4:]],
        lambda lines: [*lines[:3], b"\n", *lines[3:]],
        lambda lines: [*lines[:3], b'{"type":"turn","record":{"turn":9,"prompt":"mine"}}\n', *lines[3:]],
    ],
    ids=["swapped", "dropped", "repeated", "replaced", "altered", "blank", "clear"],
)
def test_lines_that_were_tampered_with_are_an_error_that_names_the_line(settings, store, change):
    log = write(settings, "aaaa-1", "first", "second")
    log.path.write_bytes(b"".join(change(lines_of(log))))
    with pytest.raises(UnreadableSessionError, match="line 4 was changed, moved or damaged"):
        store.find("aaaa-1")


def test_lines_of_another_session_of_the_same_key_do_not_open(settings, store):
    one, two = (write(settings, name, "first") for name in ("aaaa-1", "bbbb-1"))
    one.path.write_bytes(b"".join([*lines_of(one)[:1], *lines_of(two)[1:]]))
    with pytest.raises(EncryptedSessionError, match="does not open"):
        store.find("aaaa-1")


@pytest.mark.parametrize(
    "header",
    [
        b'{"type":"encrypted","format":2,"kdf":"hkdf","salt":"AAAA"}\n',
        b'{"type":"encrypted","format":1,"kdf":"rot13","salt":"AAAA"}\n',
        b'{"type":"encrypted","format":1,"kdf":"hkdf","salt":"AAAA"}\n',
        b'{"type":"encrypted","format":1,"kdf":[],"salt":3}\n',
        b'{"type":"encrypted"}\n',
        b'{"type":"encrypted" nonsense\n',
    ],
)
def test_a_first_line_that_is_none_of_this_version_says_so(settings, store, header):
    log = write(settings, "aaaa-1", "x")
    log.path.write_bytes(b"".join([header, *lines_of(log)[1:]]))
    with pytest.raises(EncryptedSessionError, match="in a format that this version does not know"):
        store.find("aaaa-1")
    assert [summary.title for summary in store.list()] == ["(encrypted)"]


# Kills.


def test_a_log_cut_at_any_byte_gives_what_was_whole_and_continues(settings, root, store):
    log = write(settings, "aaaa-1", "first")
    data = log.path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    for cut in sorted({*ends, *(end - 1 for end in ends), *(end - 5 for end in ends), 3}):
        log.path.write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends) - 1
        again = SessionLog.lock("aaaa-1", log.folder, keys=SessionKeys(settings))
        again.append("warning", message="continued")
        again.close()
        types = [line["type"] for line in read_lines(log.path, SessionKeys(settings))]
        assert types == [*["session", "turn", "reply", "end"][: max(whole, 0)], "warning"]
        assert is_encrypted(lines_of(log)[0])


WRITER = """
import sys
from kin_nb.core.config import SessionLoggingConfig
from kin_nb.core.session.log import session_log
log = session_log("aaaa-1", SessionLoggingConfig(encrypt="key-file", save_dir=sys.argv[1]))
log.append("session", session="aaaa-1", workspace="/w", model="m")
for number in range(1_000_000):
    log.append("note", number=number, text="x" * 3000)
    print(number, flush=True)
"""


def test_after_kill_9_every_record_that_was_handed_over_is_there(settings, root):
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, root], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as writer:
        seen = [int(writer.stdout.readline()) for _ in range(50)]
        os.kill(writer.pid, signal.SIGKILL)
        seen += [int(line) for line in writer.stdout.read().splitlines()]
    keys = SessionKeys(settings)
    notes = [line["number"] for line in read_lines(root / "aaaa-1" / "log.jsonl", keys) if line["type"] == "note"]
    assert notes[: len(seen)] == seen
    log = SessionLog.lock("aaaa-1", root / "aaaa-1", keys=keys)
    log.append("note", number=-1)
    log.close()
    *_, last = read_lines(root / "aaaa-1" / "log.jsonl", keys)
    assert last["number"] == -1


# A passphrase.


@pytest.fixture
def by_phrase(root) -> SessionLoggingConfig:
    return SessionLoggingConfig(encrypt="passphrase", save_dir=str(root))


def test_a_passphrase_opens_and_another_does_not(by_phrase, root, monkeypatch):
    monkeypatch.setenv(PASSPHRASE, "corr\u00e9ct horse")
    logs = [write(by_phrase, name, SECRET) for name in ("aaaa-1", "bbbb-1")]
    monkeypatch.setenv(PASSPHRASE, "corre\u0301ct horse")  # the same, as another keyboard types it
    store = SessionStore(root, SessionKeys(by_phrase))
    assert [turn.prompt for turn in store.find("aaaa-1").turns] == [SECRET]
    assert [summary.title for summary in store.list()] == [SECRET, SECRET]
    salts = [base64.b64decode(json.loads(lines_of(log)[0])["salt"]) for log in logs]
    assert salts[0][:16] == salts[1][:16], "a list of sessions stretches the passphrase once"
    assert salts[0][16:] != salts[1][16:]
    monkeypatch.setenv(PASSPHRASE, "wrong")
    with pytest.raises(EncryptedSessionError, match="does not open") as error:
        store.find("aaaa-1")
    assert "wrong" not in str(error.value)
    monkeypatch.setenv(PASSPHRASE, "corr\u00e9ct horse")
    (kin_home() / "session.salt").unlink()
    assert store.find("bbbb-1").turns, "each log holds its salt"


def test_a_passphrase_may_lie_where_keys_lie(by_phrase, root):
    path = kin_home() / ".env"
    path.write_text(f"{PASSPHRASE}=horse\n")
    path.chmod(0o600)
    write(by_phrase, "aaaa-1", "x")
    assert SessionStore(root, SessionKeys(by_phrase)).find("aaaa-1").turns


def test_without_a_passphrase_nothing_is_written_and_the_error_says_what_to_set(by_phrase, root, monkeypatch):
    log = session_log("aaaa-1", by_phrase)
    for _ in range(2):
        with pytest.raises(EncryptedSessionError, match=f"Set {PASSPHRASE}"):
            log.append("session", session="aaaa-1", workspace="/w")
        assert not log.has_header
    assert (root / "aaaa-1" / "log.jsonl").read_bytes() == b""
    monkeypatch.setenv(PASSPHRASE, "horse")
    log.append("session", session="aaaa-1", workspace="/w")
    log.close()
    assert [line["session"] for line in read_lines(log.path, SessionKeys(by_phrase))] == ["aaaa-1"]


def test_without_the_library_nothing_is_written_and_the_error_says_what_to_install(settings, store, monkeypatch):
    log = write(settings, "aaaa-1", "x")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    new = session_log("bbbb-1", settings)
    for use in (lambda: new.append("session", session="bbbb-1"), lambda: store.find("aaaa-1")):
        with pytest.raises(EncryptedSessionError, match=r"pip install 'kin-nb\[encryption\]'"):
            use()
    assert new.path.read_bytes() == b""
    assert [summary.title for summary in store.list()] == ["(encrypted)"]
    assert is_encrypted(lines_of(log)[0])


# What stays plain.


def test_the_library_is_not_loaded_for_plain_sessions(root):
    script = f"""
import sys
from pathlib import Path
from kin_nb.core.config import SessionLoggingConfig
from kin_nb.core.session.log import session_log
from kin_nb.core.session.store import SessionStore
log = session_log("aaaa-1", SessionLoggingConfig(save_dir={str(root)!r}))
log.append("session", session="aaaa-1", workspace="/w", model="m")
log.append("turn", record={{"turn": 1, "prompt": "x"}})
log.close()
print(len(SessionStore(Path({str(root)!r})).list()), "cryptography" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "1 False\n"


def test_a_session_that_began_plain_stays_plain(settings, store, write_session):
    log = write_session("aaaa-1", "first")
    before = log.path.read_bytes()
    _, resumed = store.resume("aaaa-1")
    write_turns(resumed, "second", first=2)
    resumed.close()
    assert log.path.read_bytes().startswith(before)
    assert len(SessionState.of(read_lines(log.path)).records) == 2
    assert not (kin_home() / "session.key").exists()


def test_a_session_that_began_encrypted_stays_so_when_it_is_switched_off(settings, root):
    log = write(settings, "aaaa-1", "first")
    off = settings.model_copy(update={"encrypt": "off"})
    _, resumed = SessionStore(root, SessionKeys(off)).resume("aaaa-1")
    write_turns(resumed, SECRET, first=2)
    resumed.close()
    assert SECRET.encode() not in log.path.read_bytes()
    assert len(SessionStore(root, SessionKeys(off)).find("aaaa-1").turns) == 2


def test_settings_that_are_none_are_an_error_with_their_place():
    path = kin_home() / "config.toml"
    path.write_text('[session_logging]\nencrypt = "rot13"\n')
    with pytest.raises(ConfigError, match=r"config\.toml:2: session_logging\.encrypt: "):
        KinConfig.load()


# The whole of it.


async def test_an_agent_continues_with_its_encrypted_session(model_server, config, settings, workspace):
    encrypted = config.model_copy(update={"session_logging": settings})
    agent = Agent(encrypted, AgentMode.AUTO_APPROVE)
    model_server.enqueue(calls=[tool_call("write_file", path="new.py", content=f"{SECRET}\n")])
    model_server.enqueue("Written.")
    await run_turn(agent, "first")
    await agent.clear_history()
    await agent.aclose()
    assert SECRET.encode() not in agent.log.path.read_bytes()
    again = Agent.resume(encrypted, agent.session_id[:8])
    assert again.turns == agent.turns
    assert again.conversation.usage.cleared
    model_server.enqueue("Hello again.")
    await run_turn(again, "second")
    await again.aclose()
    turns = SessionState.of(read_lines(agent.log.path, SessionKeys(settings))).records
    assert [turn.prompt for turn in turns if turn.type == "turn"] == ["first", "second"]


async def test_an_agent_without_its_passphrase_says_so_and_asks_no_model(model_server, config, by_phrase):
    agent = Agent(config.model_copy(update={"session_logging": by_phrase}))
    with pytest.raises(EncryptedSessionError, match=PASSPHRASE):
        await run_turn(agent)
    assert model_server.requests == []
    await agent.aclose()


def test_a_notebook_of_an_encrypted_session_needs_the_key(settings, tmp_path):
    home = settings.model_copy(update={"save_dir": ""})
    write(home, "aaaa-1", "first")
    session_from_log("aaaa", tmp_path)
    other_key()
    with pytest.raises(ReplayError, match="does not open"):
        session_from_log("aaaa", tmp_path)
