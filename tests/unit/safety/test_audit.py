"""The audit log: what is in it, who may read it, and that nothing stops because of it."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kin_nb.core.config import KinConfig
from kin_nb.core.config.custom_modes import load_mode
from kin_nb.core.config.trusted_folders import TrustedFolders
from kin_nb.core.paths import kin_home, sole_writer
from kin_nb.core.records import RecordedCall, RecordedDecision
from kin_nb.core.safety import audit
from kin_nb.core.safety.audit import AuditEntry, AuditLog, audit_path, check_audit, head_path, read_audit, rotated
from kin_nb.core.safety.decision import Risk, Verdict

pytestmark = pytest.mark.usefixtures("own_home")


def entry(**fields) -> AuditEntry:
    default = {"session": "s-1", "turn": 1, "tool": "bash", "risk": "high", "verdict": "allow", "by": "person"}
    return AuditEntry(**{**default, **fields})


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "home" / "audit.jsonl"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def log(path, said) -> AuditLog:
    return AuditLog(path, said.append)


def test_nothing_is_made_before_the_first_decision(path, log):
    assert not path.parent.exists()
    assert list(read_audit(path)) == []


def test_an_entry_is_one_line_of_json_with_everything_and_comes_back(path, log):
    one = entry(
        call="call2",
        same_as="call1",
        summary="make test",
        reason="bash runs a command",
        scope="session",
        note="go on",
        workspace="/w",
        edited=True,
        time=datetime(2025, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC),
    )
    log.record(one)
    log.record(entry())
    first, second = path.read_text().splitlines()
    assert json.loads(first) == {
        "time": "2025-01-31T12:00:00.250000Z",
        "session": "s-1",
        "turn": 1,
        "tool": "bash",
        "call": "call2",
        "same_as": "call1",
        "summary": "make test",
        "risk": "high",
        "verdict": "allow",
        "by": "person",
        "reason": "bash runs a command",
        "scope": "session",
        "note": "go on",
        "workspace": "/w",
        "edited": True,
        "number": 1,
        "previous": "",
    }
    assert "note" not in json.loads(second)
    assert json.loads(second)["previous"] == hashlib.sha256(first.encode()).hexdigest()
    assert next(iter(read_audit(path))) == one.model_copy(update={"number": 1})


def test_only_its_owner_reads_it(path, log):
    log.record(entry())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    log.record(entry())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_texts_are_one_line_that_no_terminal_obeys():
    made = entry(summary="a\n\x1b[31mb\u202e", reason="x" * 1000, note="one\ntwo")
    assert (made.summary, made.note) == ("a [31mb", "one two")
    assert len(made.reason) < 500


def test_an_entry_is_made_of_the_call_as_it_was_recorded():
    decision = RecordedDecision(verdict="deny", by="DenyRules", reason="no", scope="once", note="why")
    call = RecordedCall(id="1", name="bash", arguments="{}", edited_arguments="{}", summary="make", decision=decision)
    made = AuditEntry.of(call, session="s", turn=3, risk=Risk.HIGH, workspace=Path("/w"))
    assert (made.session, made.turn, made.tool, made.summary) == ("s", 3, "bash", "make")
    assert (made.verdict, made.by, made.reason, made.note) == (Verdict.DENY, "DenyRules", "no", "why")
    assert (made.workspace, made.edited) == ("/w", True)
    with pytest.raises(ValueError, match="not been decided"):
        AuditEntry.of(call.model_copy(update={"decision": None}), session="s", turn=1, risk=Risk.LOW, workspace=Path())


WRITER = """
import sys
from pathlib import Path
from kin_nb.core.safety import audit
from kin_nb.core.safety.audit import AuditEntry, AuditLog
audit.LARGEST = int(sys.argv[3])
log = AuditLog(Path(sys.argv[1]), print)
for turn in range(100):
    log.record(AuditEntry(session=sys.argv[2], turn=turn, tool="bash", risk="high", verdict="allow", by="person",
                          summary=sys.argv[2] * 100))
"""


@pytest.mark.parametrize("largest", [10_000_000, 30_000])
def test_several_processes_write_whole_lines_and_lose_none_also_while_it_is_rotated(path, largest):
    argv = [[sys.executable, "-c", WRITER, path, name, str(largest)] for name in "ab"]
    writers = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in argv]
    assert [writer.communicate()[0] for writer in writers] == ["", ""]
    found = list(read_audit(path))
    assert None not in found
    for name in "ab":
        turns = [each.turn for each in found if each.session == name]
        if largest > 1_000_000:
            assert turns == list(range(100))
        else:
            assert turns == sorted(turns)
    assert rotated(path, 1).exists() is (largest < 1_000_000)
    assert check_audit(path) == []


def test_a_file_that_someone_else_has_just_put_aside_is_no_failure(path, said, monkeypatch):
    class Slower(AuditLog):
        def _rotate(self) -> None:
            path.rename(rotated(path, 1))
            super()._rotate()

    monkeypatch.setattr(audit, "LARGEST", 10)
    Slower(path, said.append).record(entry())
    assert said == []
    assert [each.turn for each in read_audit(path)] == [entry().turn]
    assert not rotated(path, 2).exists()


def test_the_newest_files_are_kept(path, log, monkeypatch):
    monkeypatch.setattr(audit, "LARGEST", 1_000)
    for turn in range(60):
        log.record(entry(turn=turn, summary="x" * 300))
    files = [path, head_path(path), *(rotated(path, number) for number in (1, 2, 3))]
    assert sorted(path.parent.iterdir()) == sorted(each for each in files if each.exists())
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in files if each.exists())
    turns = [each.turn for each in read_audit(path)]
    assert turns == list(range(turns[0], 60))
    assert 3 <= len(turns) <= 12


def test_a_file_that_cannot_be_written_is_reported_once_and_nothing_stops(tmp_path, said):
    (tmp_path / "file").write_text("")
    log = AuditLog(tmp_path / "file" / "audit.jsonl", said.append)
    log.record(entry())
    log.record(entry())
    assert len(said) == 1
    assert "continues without it" in said[0]


def test_a_pipe_in_its_place_stops_nothing(path, log, said):
    path.parent.mkdir()
    os.mkfifo(path)
    log.record(entry())
    assert said == [
        f"The audit log {path} cannot be written (it is not a regular file); the turn continues without it."
    ]


def test_a_full_disk_spoils_no_line(path):
    """A limit on the size of files is as good as a full disk: the kernel writes what fits, then refuses."""
    script = f"""
import resource, signal
from pathlib import Path
from kin_nb.core.safety.audit import AuditEntry, AuditLog
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = AuditLog(Path({str(path)!r}), print)
entry = AuditEntry(session="s", turn=1, tool="bash", risk="high", verdict="allow", by="person")
log.record(entry)
soft = Path({str(path)!r}).stat().st_size + 20
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))
log.record(entry)
log.record(entry)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.record(entry)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 1, "said once"
    assert [each and each.session for each in read_audit(path)] == ["s", "s"]
    assert check_audit(path) == []


@pytest.mark.parametrize("line", [b" ", b"{}", b"[1]", b"\xff\x00", b"[" * 100_000, b'{"time": "yesterday"}'])
def test_a_broken_line_is_none(path, log, line):
    log.record(entry())
    with path.open("ab") as file:
        file.write(line + b"\n")
    log.record(entry(turn=2))
    assert [each and each.turn for each in read_audit(path)] == [1, None, 2]


# The chain.


@pytest.fixture
def ten(path, log) -> Path:
    for turn in range(1, 11):
        log.record(entry(turn=turn))
    assert check_audit(path) == []
    return path


def change(path: Path, edit: Callable[[list[str]], list[str]]) -> None:
    path.write_text("".join(edit(path.read_text().splitlines(keepends=True))))


CHANGES: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "one edited": (
        lambda lines: [*lines[:3], lines[3].replace("person", "DenyRules"), *lines[4:]],
        "audit.jsonl:5: it does not follow the line before",
    ),
    "the last edited": (
        lambda lines: [*lines[:9], lines[9].replace("allow", "deny")],
        "audit.jsonl:10: the line was changed",
    ),
    "one removed": (lambda lines: lines[:3] + lines[4:], "audit.jsonl:4: line number 4 is missing before it"),
    "some removed": (lambda lines: lines[:3] + lines[6:], "audit.jsonl:4: lines number 4 to 6 are missing before it"),
    "the first removed": (lambda lines: lines[2:], "audit.jsonl:1: the lines before number 3 are missing"),
    "two exchanged": (
        lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]],
        "audit.jsonl:4: line number 4 is missing before it",
    ),
    "one put in": (lambda lines: [*lines[:3], lines[2], *lines[3:]], "audit.jsonl:4: it does not follow"),
    "garbage put in": (lambda lines: [*lines[:3], "{}\n", *lines[3:]], "audit.jsonl:4: this is not a line as kin-nb"),
    "cut": (lambda lines: lines[:7], "lines number 8 to 10 are missing at the end: the log was cut"),
    "emptied": (lambda _: [], "lines number 1 to 10 are missing at the end: the log was cut"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_log_is_found_out_where_it_was_changed(ten, what):
    edit, said = CHANGES[what]
    change(ten, edit)
    found = check_audit(ten)
    assert found[0].startswith(said)


@pytest.mark.parametrize("lines", [0, 7])
def test_a_cut_log_does_not_heal_when_it_is_written_again(ten, log, lines):
    change(ten, lambda all_of_them: all_of_them[:lines])
    log.record(entry(turn=11))
    log.record(entry(turn=12))
    (found,) = check_audit(ten)
    assert found.startswith(
        "audit.jsonl:8: lines number 8 to 10 are missing" if lines else "audit.jsonl:1: the lines before number 11 are"
    )


def test_a_log_that_was_removed_is_missed(ten, log):
    ten.unlink()
    assert check_audit(ten) == ["lines number 1 to 10 are missing at the end: the log was cut."]


def test_without_the_head_the_end_cannot_be_checked_and_that_is_reported(ten, log):
    head_path(ten).unlink()
    assert check_audit(ten) == ["the head file is missing, so lines that were cut off at the end would not be noticed."]
    log.record(entry(turn=11))
    assert stat.S_IMODE(head_path(ten).stat().st_mode) == 0o600


def test_a_head_that_was_missing_is_reported_at_each_check_also_when_it_is_there_again(ten, log):
    head_path(ten).unlink()
    said = "audit.jsonl:11: the head file was missing when this line was written: "
    said += "lines that were cut off before it are not noticed."
    for turn in range(11, 14):
        log.record(entry(turn=turn))
        assert check_audit(ten) == [said]
    change(ten, lambda lines: [*lines[:10], lines[10].replace('"head_missing":true,', ""), *lines[11:]])
    assert len(check_audit(ten)) == 1, "the mark is a part of the chain"


def test_the_first_line_of_a_log_is_written_without_a_head_and_says_nothing_of_it(path, log):
    log.record(entry())
    assert "head_missing" not in path.read_text()


def test_a_decision_is_written_while_another_program_saves_settings(path, log, said):
    log.record(entry())
    with sole_writer(path):
        log.record(entry())
    assert (len(list(read_audit(path))), said) == (2, [])


def test_a_process_that_ends_between_the_line_and_the_head_breaks_nothing(ten, log):
    before = head_path(ten).read_bytes()
    log.record(entry(turn=11))
    head_path(ten).write_bytes(before)
    assert check_audit(ten) == []
    log.record(entry(turn=12))
    assert check_audit(ten) == []
    assert [each.number for each in read_audit(ten)] == list(range(1, 13))


def test_the_chain_goes_through_the_files_that_are_kept(path, log, monkeypatch):
    monkeypatch.setattr(audit, "LARGEST", 2_000)
    for turn in range(60):
        log.record(entry(turn=turn))
        assert check_audit(path) == []
    assert rotated(path, 3).exists()
    rotated(path, 2).unlink()
    (found,) = check_audit(path)
    assert found.startswith("audit.jsonl.1:1: lines number ")
    rotated(path, 3).unlink()
    (found,) = check_audit(path)
    assert found.startswith("audit.jsonl.1:1: the lines before number ")


def test_lines_of_a_later_version_are_read(path):
    path.parent.mkdir()
    fields = json.loads(entry().model_dump_json(exclude_none=True))
    path.write_text(json.dumps({**fields, "hologram": 3}) + "\n")
    assert [each.tool for each in read_audit(path)] == ["bash"]


def test_its_place_is_the_users_folder():
    assert audit_path() == kin_home() / "audit.jsonl"


# Who may switch it off.


def test_the_user_may_switch_it_off(workspace, monkeypatch):
    assert KinConfig.load().audit is True
    kin_home().joinpath("config.toml").write_text("audit = false\n")
    assert KinConfig.load().audit is False
    monkeypatch.setenv("KIN_AUDIT", "true")
    assert KinConfig.load().audit is True


OWN = 'audit = false\n[session_logging]\nencrypt = "off"\nkey_file = "key"\nsave_dir = "s"\n'


def test_a_project_may_not_and_hears_of_it(workspace):
    folder = workspace / ".kin-code"
    (folder / "agents").mkdir(parents=True)
    for name in ("config.toml", "agents/mine.toml"):
        (folder / name).write_text(OWN)
    (kin_home() / "config.toml").write_text('[session_logging]\nencrypt = "key-file"\n')
    TrustedFolders().trust(workspace)
    config = KinConfig.load("mine", workdir=workspace)
    assert (config.audit, config.session_logging.encrypt, config.session_logging.key_file) == (True, "key-file", "")
    assert config.session_logging.save_dir == ""
    refused = [warning for warning in config.warnings if "can only be set by the user" in warning]
    assert len(refused) == 8
    assert f"{folder / 'config.toml'}:3: session_logging.encrypt can only be set by the user" in "\n".join(refused)
    mode = load_mode("mine", workspace, trusted=True)
    assert mode.config_overrides == {"session_logging": {}}
