"""Names of seeds 001 and 004, by hand, and where each is with us."""

from __future__ import annotations

import importlib
import inspect

import pytest

from kin_nb.core import events
from kin_nb.core.compat import event_names
from kin_nb.core.compat.tool_registry import ToolRegistry
from kin_nb.core.config import ConfigError, KinConfig, LLMNotConfigured, MissingAPIKeyError, ProviderConfig
from kin_nb.core.documents.session import Session
from kin_nb.core.tools.base import Tool
from tests.table import each_row

NAMES = {
    "config": ["LLMNotConfigured"],
    "wire": ["WireMessage", "to_wire", "from_wire"],
    "tools.base": ["Tool"],
    "compat.tool_registry": ["ToolRegistry"],
    "tools.discovery": ["discover_tools"],
    "documents.session": ["Session", "save_session", "load_session"],
    "compat.event_names": ["AgentStart", "ToolCall", "ToolResult", "LLMResponse", "ApprovalRequired", "Error"],
    "agent": ["Agent"],
}


@each_row(("module", "name"), [(m, n) for m, names in NAMES.items() for n in names])
def test_a_name_is_in_its_module(module, name):
    assert hasattr(importlib.import_module(f"kin_nb.core.{module}"), name)


@each_row(
    ("theirs", "ours"),
    [
        ("AgentStart", "TurnStartEvent"),
        ("ToolCall", "ToolCallEvent"),
        ("ToolResult", "ToolResultEvent"),
        ("LLMResponse", "StepReplyEvent"),
        ("ApprovalRequired", "ApprovalRequestEvent"),
        ("Error", "ErrorEvent"),
    ],
)
def test_an_event_of_seed_004_is_one_of_ours(theirs, ours):
    assert getattr(event_names, theirs) is getattr(events, ours)


def test_there_is_no_other_name_of_an_event():
    assert set(event_names.__all__) == set(NAMES["compat.event_names"])


@pytest.mark.parametrize("method", ["register", "get_tool", "get_schemas", "execute"])
def test_the_registry_has_its_method(method):
    assert callable(getattr(ToolRegistry, method))


def test_execute_is_async_where_the_seed_has_it_so():
    assert inspect.iscoroutinefunction(ToolRegistry.execute)
    assert inspect.iscoroutinefunction(Tool.execute)


async def test_a_session_has_its_attributes(agent):
    session = Session(agent)
    assert all(hasattr(session, name) for name in ("id", "config", "context", "tools", "created_at", "metadata"))
    assert callable(session.to_dict)
    assert callable(Session.from_dict)


def test_no_model_is_an_error_of_its_own():
    assert issubclass(MissingAPIKeyError, LLMNotConfigured)
    assert issubclass(LLMNotConfigured, ConfigError)


def test_a_setting_of_seed_001_exists():
    assert "max_steps_per_turn" in KinConfig.model_fields
    assert ProviderConfig(name="p", api_base="x", custom_headers={"a": "b"}).extra_headers == {"a": "b"}
