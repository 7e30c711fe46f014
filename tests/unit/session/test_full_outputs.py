"""Whole outputs: what a tool cut stands beside the log, all of it, and is found again by the call's id."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest
from pydantic import BaseModel

from kin_nb.core.agent import Agent
from kin_nb.core.config import SessionLoggingConfig
from kin_nb.core.context.context_window import placeholder
from kin_nb.core.context.history import History, tool_message
from kin_nb.core.messages import FunctionCall
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import RecordedCall, sha256
from kin_nb.core.session import full_outputs
from kin_nb.core.session.encryption import SessionKeys
from kin_nb.core.session.errors import EncryptedSessionError, SessionError, UnreadableSessionError
from kin_nb.core.session.full_outputs import FULL_OUTPUT_LIMIT, limited, note
from kin_nb.core.session.log import SessionLog, read_lines
from kin_nb.core.session.state import SessionState
from kin_nb.core.session.store import StoredSession, full_output_of
from kin_nb.core.tool_types import BaseToolConfig, BaseToolState, ToolError
from kin_nb.core.tools import truncation
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.mcp.answers import TEXT_LIMIT, read_result
from kin_nb.core.tools.truncation import KEPT_UNTIL_REDACTED, CappedOutput, Whole, whole_output
from kin_nb.notebook.namespace.captured_output import CapturedOutput
from kin_nb.replay.rerun.drift import compare_call
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

LONG = tool_call("bash", command="seq 20000; exit 3")
ALL = "".join(f"{number}\n" for number in range(1, 20_001))
SECRET = "s3cret-and-very-long"


def outputs(log: SessionLog) -> list[Path]:
    folder = log.folder / full_outputs.FOLDER
    return sorted(folder.iterdir()) if folder.exists() else []


async def ran(agent: Agent, server, *calls) -> tuple[RecordedCall, ...]:
    """A turn with these calls in one reply, as recorded."""
    server.enqueue(None, calls=calls or [LONG])
    server.enqueue("Done.")
    return (await run_turn(agent))[-1].record.calls


@pytest.fixture
def handed_over():
    """What tools hand over outside of an agent."""
    found: list[Whole] = []
    token = whole_output.set(found.append)
    yield found
    whole_output.reset(token)


# What is kept.


async def test_all_of_a_long_output_is_beside_the_log_and_the_model_gets_a_part_that_says_so(model_server, trusted):
    (call,) = await ran(trusted, model_server)
    (file,) = outputs(trusted.log)
    assert file.read_text() == ALL
    told = model_server.requests[-1]["messages"][-1]["content"]
    assert "characters left out" in told
    assert told.endswith(
        f"\n20000\n[exit code 3]\n[cut; all of it: kin-nb sessions show {trusted.session_id[:8]} --output {call.id}]"
    )
    assert len(told) < 40_000
    assert call.output == told
    assert full_output_of(StoredSession.read(trusted.log.folder), call.id) == ALL


async def test_it_is_the_owners_alone(model_server, trusted):
    await ran(trusted, model_server)
    (file,) = outputs(trusted.log)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_what_fits_has_no_file_and_is_shown_from_its_record(model_server, trusted):
    (call,) = await ran(trusted, model_server, tool_call("bash", command="echo short"))
    assert outputs(trusted.log) == []
    assert call.output == "short"
    stored = StoredSession.read(trusted.log.folder)
    assert (stored.full_outputs, full_output_of(stored, call.id)) == ({}, "short")


async def test_it_is_whole_before_the_log_names_it(model_server, trusted, monkeypatch):
    named: list[bool] = []
    write = SessionLog._write

    def seen(self, record):
        if "whole" in record:
            named.append((self.folder / "outputs" / record["whole"]).read_text() == ALL)
        write(self, record)

    monkeypatch.setattr(SessionLog, "_write", seen)
    await ran(trusted, model_server)
    assert named == [True]


async def test_records_know_nothing_of_it_and_a_resume_has_the_same_conversation(model_server, trusted):
    (call,) = await ran(trusted, model_server)
    (file,) = outputs(trusted.log)
    state = SessionState.of(read_lines(trusted.log.path))
    header, turns = state.header, state.records
    assert turns == trusted.turns
    assert file.name not in json.dumps([header, *(turn.model_dump(mode="json") for turn in turns)])
    await trusted.aclose()
    again = Agent.resume(trusted.base_config)
    assert again.messages[1:] == trusted.messages[1:]
    assert again.history.fingerprint() == trusted.history.fingerprint()
    assert full_output_of(StoredSession.read(again.log.folder), call.id) == ALL
    await again.aclose()


async def test_an_undo_leaves_it_there(model_server, trusted):
    (call,) = await ran(trusted, model_server)
    await trusted.undo()
    assert full_output_of(StoredSession.read(trusted.log.folder), call.id) == ALL


async def test_equal_outputs_are_one_file(model_server, trusted):
    calls = await ran(trusted, model_server, LONG, tool_call("bash", command="seq 1 20000"))
    assert len(outputs(trusted.log)) == 1
    stored = StoredSession.read(trusted.log.folder)
    assert [full_output_of(stored, call.id) for call in calls] == [ALL, ALL]


async def test_a_call_that_was_run_once_for_two_tells_both_of_one_file(model_server, trusted):
    first, second = await ran(trusted, model_server, LONG, LONG)
    assert len(outputs(trusted.log)) == 1
    assert first.output == second.output
    assert first.hint == second.hint == note(trusted.session_id, first.id)
    assert second.output == f"{second.result}\n{second.hint}"
    last = trusted.messages[-2]
    assert (last.content, last.hint) == (second.output, second.hint)


class Nothing(BaseModel):
    pass


class Text(BaseModel):
    text: str


class Talk(BaseTool[Nothing, Text, BaseToolConfig, BaseToolState]):
    description = "Talk"

    async def run(self, args: Nothing) -> Text:
        return Text(text=ALL)


class Complain(Talk):
    async def run(self, args: Nothing) -> Text:
        raise ToolError(ALL)


@pytest.mark.parametrize(("tool", "all_of_it"), [(Talk, f"text: {ALL}"), (Complain, ALL)])
async def test_a_tool_that_cuts_nothing_is_cut_by_us_and_kept(model_server, trusted, tool, all_of_it):
    trusted.tool_manager.add(tool)
    (call,) = await ran(trusted, model_server, tool_call(tool.get_name()))
    assert len(call.output) < 40_200
    assert full_output_of(StoredSession.read(trusted.log.folder), call.id) == all_of_it


# What is not.


async def test_secrets_and_places_are_out_also_where_the_cut_goes_through_one(
    model_server, trusted, workspace, monkeypatch
):
    monkeypatch.setenv("OUR_TOKEN", SECRET)
    monkeypatch.setattr(full_outputs, "FULL_OUTPUT_LIMIT", 50_000)
    monkeypatch.setattr(truncation, "KEPT_UNTIL_REDACTED", 55_000)
    (workspace / "long.txt").write_text(
        f"{workspace} {SECRET}\n{'x' * 50_000}"[:49_980] + f" {SECRET}\n" + "y\n" * 90_000
    )
    (call,) = await ran(trusted, model_server, tool_call("bash", command="cat long.txt"))
    (file,) = outputs(trusted.log)
    text = file.read_text()
    assert text.startswith("{workspace} [secret]\nxxx")
    assert SECRET[:6] not in text
    kept, _, sentence = text.removesuffix("\n").rpartition("\n")
    assert len(kept.encode()) <= 50_000
    assert sentence.startswith("[… ")
    assert sentence.endswith(" more bytes were not kept]")
    assert full_output_of(StoredSession.read(trusted.log.folder), call.id) == text


def test_ten_megabytes_are_kept_and_the_rest_is_counted(subtests):
    for text, more, kept, left in [
        ("x" * FULL_OUTPUT_LIMIT, 0, "x" * FULL_OUTPUT_LIMIT, 0),
        ("x" * (FULL_OUTPUT_LIMIT + 5), 7, "x" * FULL_OUTPUT_LIMIT, 12),
        ("é" * (FULL_OUTPUT_LIMIT // 2) + "é", 0, "é" * (FULL_OUTPUT_LIMIT // 2), 2),
        ("x" + "é" * (FULL_OUTPUT_LIMIT // 2), 0, "x" + "é" * (FULL_OUTPUT_LIMIT // 2 - 1), 2),
        ("short", 3, "short", 3),
    ]:
        with subtests.test(text=text, more=more, kept=kept, left=left):
            found = limited(text, more).decode()
            assert found == kept + (f"\n[… {left:,} more bytes were not kept]\n" if left else "")


def test_a_stream_without_end_is_counted_and_not_kept(handed_over):
    output, chunk, chunks = CappedOutput(100, lambda _: None), b"x" * 65_536, 200
    for _ in range(chunks):
        output.add(chunk)
    output.text()
    output.keep_whole()
    (whole,) = handed_over
    assert KEPT_UNTIL_REDACTED <= len(whole.text) < KEPT_UNTIL_REDACTED + len(chunk)
    assert len(whole.text) + whole.more == chunks * len(chunk)


def test_what_is_not_cut_is_not_handed_over(handed_over):
    output = CappedOutput(100, lambda _: None)
    output.add(b"x" * 100)
    assert output.text() == "x" * 100
    output.keep_whole()
    read_result({"content": [{"type": "text", "text": "x" * TEXT_LIMIT}]})
    assert handed_over == []


def test_a_servers_long_answer_is_handed_over_also_when_it_is_an_error(handed_over):
    text = "x" * (TEXT_LIMIT + 1)
    read_result({"content": [{"type": "text", "text": text}]})
    with pytest.raises(ToolError):
        read_result({"content": [{"type": "text", "text": text}], "isError": True})
    read_result({"content": [], "structuredContent": {"a": text}})
    assert [whole.text for whole in handed_over] == [text, text, json.dumps({"a": text})]
    assert [whole.more for whole in handed_over] == [0, 0, 0]


async def test_what_code_in_the_notebook_prints_is_handed_over_as_it_reads(handed_over):
    printed = CapturedOutput(asyncio.get_running_loop(), lambda _: None)
    printed.write("\x1b[1mbold\x1b[0m 10%\r20%\n")
    printed.write(ALL)
    assert "characters left out" in printed.text()
    (whole,) = handed_over
    assert whole.text == "20%\n" + ALL


async def test_a_session_that_is_not_stored_keeps_nothing_and_promises_nothing(model_server, config):
    config = config.model_copy(update={"session_logging": SessionLoggingConfig(enabled=False)})
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    (call,) = await ran(agent, model_server)
    assert "characters left out" in call.output
    assert call.hint == ""
    assert "kin-nb sessions show" not in call.output
    assert not agent.log.folder.exists()
    await agent.aclose()


async def test_where_it_cannot_be_written_the_turn_continues_and_a_warning_says_so(model_server, trusted):
    trusted.log.folder.mkdir(parents=True)
    (trusted.log.folder / full_outputs.FOLDER).write_text("a file")
    (call,) = await ran(trusted, model_server)
    assert trusted.turns[-1].outcome == "done"
    assert call.hint == ""
    assert "kin-nb sessions show" not in call.output
    assert any(
        "full output of a tool call was not saved (Not a directory)" in said for said in trusted.journal.warnings
    )


# Reading.


async def test_an_encrypted_session_keeps_nothing_in_clear(model_server, config):
    settings = SessionLoggingConfig(encrypt="key-file")
    agent = Agent(config.model_copy(update={"session_logging": settings}), AgentMode.AUTO_APPROVE)
    (call,) = await ran(agent, model_server)
    await agent.aclose()
    (file,) = outputs(agent.log)
    assert b"19999" not in file.read_bytes()
    assert file.name != sha256(ALL)
    keys = SessionKeys(settings)
    stored = StoredSession.read(agent.log.folder, keys)
    assert full_output_of(stored, call.id, keys) == ALL
    keys.key_file.write_bytes(b"A" * 43 + b"=\n")
    with pytest.raises(EncryptedSessionError, match="does not open this output"):
        full_output_of(stored, call.id, keys)


async def test_a_damaged_or_missing_file_is_named(model_server, trusted):
    (call,) = await ran(trusted, model_server)
    (file,) = outputs(trusted.log)
    stored = StoredSession.read(trusted.log.folder)
    file.write_text(ALL[:-1])
    with pytest.raises(UnreadableSessionError, match=f"{file.name}: the file is missing or was changed"):
        full_output_of(stored, call.id)
    file.unlink()
    with pytest.raises(UnreadableSessionError, match=f"{file.name}: cannot be read"):
        full_output_of(stored, call.id)


@pytest.mark.parametrize("name", ["../../other/log.jsonl", "x", "", 7, None, ["a"]])
async def test_a_log_that_names_another_file_reads_none(model_server, trusted, name):
    (call,) = await ran(trusted, model_server)
    await trusted.aclose()
    lines = [json.loads(line) for line in trusted.log.path.read_text().splitlines()]
    changed = [{**line, "whole": name} if "whole" in line else line for line in lines]
    trusted.log.path.write_text("".join(f"{json.dumps(line)}\n" for line in changed))
    with pytest.raises(UnreadableSessionError, match="the file is missing or was changed"):
        full_output_of(StoredSession.read(trusted.log.folder), call.id)


async def test_an_unknown_call_is_shown_the_known_ones(model_server, trusted):
    (call,) = await ran(trusted, model_server)
    with pytest.raises(SessionError, match=rf"No tool call nonesuch in session .*The newest: {call.id} \(bash\)\."):
        full_output_of(StoredSession.read(trusted.log.folder), "nonesuch")


async def test_half_a_character_comes_back_as_it_was(model_server, trusted, monkeypatch):
    lone = "\ud800" + ALL
    monkeypatch.setattr(Talk, "to_model", lambda _, __: lone)
    trusted.tool_manager.add(Talk)
    (call,) = await ran(trusted, model_server, tool_call("talk"))
    assert full_output_of(StoredSession.read(trusted.log.folder), call.id) == lone


# The note.


@pytest.mark.parametrize(("name", "ends"), [("bash", ["first", "[exit code 3]"]), ("web_fetch", [])])
def test_a_stub_still_says_where_all_of_it_is(name, ends):
    said = note("0123456789", "call00001")
    message = tool_message("call00001", name, f"first\n{'x' * 500}\n[exit code 3]\n{said}", hint=said)
    call = FunctionCall(name=name, arguments='{"command": "make"}')
    head, *rest = (placeholder(message, call, str, str).content or "").split("\n")
    assert head.startswith(f"[{name} make: 520 characters were here; call it again ")
    assert rest == [*ends, said]


def test_two_runs_of_one_conversation_have_one_fingerprint():
    one, two = (History("system", str) for _ in range(2))
    for history, name in ((one, "aaaaaaaa-1"), (two, "bbbbbbbb-2")):
        hint = note(name, "call00001")
        history.append(tool_message("c", "bash", f"output\n{hint}", hint=hint))
    assert one.fingerprint() == two.fingerprint()


def test_a_call_that_ran_again_in_another_session_is_the_same():
    call = RecordedCall(id="c", name="bash", arguments="{}", status="ok")
    hints = [note(name, "c") for name in ("aaaaaaaa", "bbbbbbbb")]
    one, two = (call.model_copy(update={"output": f"a\n{hint}", "hint": hint}) for hint in hints)
    assert compare_call(one, two).kind == "same"
    assert compare_call(one, two.model_copy(update={"output": f"b\n{hints[1]}"})).kind == "text"


def test_what_a_program_prints_is_its_result_whatever_it_reads_like(subtests):
    for text in ["", "a", note("a", "c"), f"a\n{note('a', 'c')}", f"a\n{note('a', 'c')}\nb"]:
        with subtests.test(text=text):
            assert RecordedCall(id="c", name="bash", arguments="{}", output=text).result == text


def test_nothing_is_left_where_the_disk_refuses(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="No space left"):
        full_outputs.write_output(tmp_path, b"x", None)
    assert list((tmp_path / full_outputs.FOLDER).iterdir()) == []
