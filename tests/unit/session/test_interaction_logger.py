"""InteractionLogger: the seeds' name for what the log knows."""

from __future__ import annotations

import json

from kin_nb.core.config import SessionLoggingConfig
from kin_nb.core.documents.document import InteractionLogger, session_document
from kin_nb.core.messages import LLMMessage, Role
from kin_nb.core.session.log import SessionLog, session_log
from kin_nb.core.usage_stats import AgentStats
from tests.unit.session.conftest import write_turns

MESSAGES = [LLMMessage(role=Role.system, content="s"), LLMMessage(role=Role.user, content="u")]


def test_session_info_is_what_the_agent_is_at(root):
    log = SessionLog("aaaa-1", folder=root / "aaaa-1")
    logger = InteractionLogger(log)
    assert logger.session_info("aaaa-1", MESSAGES[:1], AgentStats()).start_time == ""
    log.append("session", session="aaaa-1", start_time="2024-01-26T10:30:00+01:00")
    info = logger.session_info("bbbb-1", MESSAGES, AgentStats(steps=3))
    assert info.model_dump(include={"session_id", "start_time", "message_count", "save_dir"}) == {
        "session_id": "bbbb-1",
        "start_time": "2024-01-26T10:30:00+01:00",
        "message_count": 2,
        "save_dir": str(root / "aaaa-1"),
    }
    assert info.stats.steps == 3
    log.close()


def test_saving_writes_the_document_beside_the_log_or_where_one_says(root, tmp_path):
    log = SessionLog("aaaa-1", folder=root / "aaaa-1")
    logger = InteractionLogger(log)
    assert logger.save_interaction() is None, "nothing has been said yet"
    log.append("session", session="aaaa-1", workspace="/w", model="m")
    write_turns(log, "Hello")
    assert logger.save_interaction() == root / "aaaa-1" / "session.json"
    assert logger.save_interaction(tmp_path / "mine.json") == tmp_path / "mine.json"
    for path in (root / "aaaa-1" / "session.json", tmp_path / "mine.json"):
        assert json.loads(path.read_text()) == session_document(log.folder)
    log.close()


def test_a_session_that_is_not_logged_has_no_folder_and_no_document(root):
    log = session_log("aaaa-1", SessionLoggingConfig(enabled=False, save_dir=str(root)))
    log.append("session", session="aaaa-1", start_time="2024-01-26T10:30:00+01:00")
    logger = InteractionLogger(log)
    info = logger.session_info("aaaa-1", MESSAGES, AgentStats())
    assert (logger.enabled, info.save_dir, info.start_time) == (False, "", "2024-01-26T10:30:00+01:00")
    assert logger.save_interaction() is None
    assert not root.exists()
