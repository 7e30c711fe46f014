"""Seed 003 is drawn, not written as code: its names, by hand, and where each is with us (`vibe.` read as `kin_nb.`)."""

from __future__ import annotations

import importlib
import inspect

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import Backend, KinConfig
from kin_nb.core.llm.backend.generic import BACKEND_FACTORY, GenericBackend, MistralBackend
from kin_nb.core.middleware import MiddlewarePipeline
from kin_nb.core.modes import AgentMode, ModeSafety
from kin_nb.core.tools.base import BaseTool, BaseToolConfig, ToolPermission
from kin_nb.core.tools.manager import ToolManager
from tests.table import each_row

NAMES = {
    "agent": ["Agent"],
    "config": [
        *(
            "KinConfig",
            "ProviderConfig",
            "ModelConfig",
            "PricingInfo",
            "Backend",
            "MCPHttp",
            "MCPStreamableHttp",
            "MCPStdio",
        ),
        *("MissingAPIKeyError", "ProjectContextConfig", "SessionLoggingConfig"),
    ],
    "types": [
        *("LLMMessage", "AgentStats", "BaseEvent", "AssistantEvent", "ToolCallEvent", "ToolResultEvent", "Role"),
        *(
            "CompactStartEvent",
            "CompactEndEvent",
            "ToolCall",
            "FunctionCall",
            "Content",
            "AvailableTool",
            "StrToolChoice",
        ),
    ],
    "middleware": [
        *(
            "ConversationContext",
            "MiddlewareResult",
            "MiddlewareAction",
            "MiddlewarePipeline",
            "ConversationMiddleware",
        ),
        *("TurnLimitMiddleware", "PriceLimitMiddleware", "AutoCompactMiddleware", "ContextWarningMiddleware"),
        *("PlanModeMiddleware", "ResetReason"),
    ],
    "modes": ["AgentMode", "ModeSafety"],
    "system_prompt": ["build_system_prompt"],
    "documents.document": ["InteractionLogger"],
    "output_formatters": ["OutputFormatter"],
    "programmatic": ["run_programmatic"],
    "config.trusted_folders": ["TrustedFolders"],
    "paths": ["kin_home"],
    "llm.types": ["BackendLike"],
    "tools.resolve": [
        *(
            "APIToolFormatHandler",
            "ParsedToolCall",
            "ParsedMessage",
            "ResolvedToolCall",
            "FailedToolCall",
            "ResolvedMessage",
        ),
    ],
    "llm.errors": ["BackendError", "BackendErrorBuilder"],
    "llm.backend.generic": [
        *("GenericBackend", "register_adapter", "BACKEND_ADAPTERS", "APIAdapter", "OpenAIAdapter"),
        *("BACKEND_FACTORY", "MistralBackend"),
    ],
    "tools.base": ["BaseTool", "BaseToolConfig", "BaseToolState", "ToolPermission", "ToolError", "ToolDecision"],
    "tools.manager": ["ToolManager"],
    "tools.mcp": ["MCPServers"],
    "tools.builtins.bash": ["Bash"],
    "tools.builtins.read_file": ["ReadFile"],
    "tools.builtins.write_file": ["WriteFile"],
    "tools.builtins.search_replace": ["SearchReplace"],
    "tools.builtins.grep": ["Grep"],
    "tools.builtins.todo": ["Todo"],
    "autocompletion.completers": ["Completer", "PathCompleter", "CommandCompleter", "fuzzy_match"],
    "autocompletion.path_prompt": ["path_mentions"],
    "autocompletion.file_indexer": ["FileIndexer"],
    "ignore_rules": ["IgnoreRules"],
    "config.values": ["SystemPrompt", "load_prompt"],
}

METHODS = {
    Agent: [
        *(
            "act",
            "add_message",
            "set_approval_callback",
            "switch_mode",
            "reload_with_initial_messages",
            "clear_history",
        ),
        "compact",
    ],
    ToolManager: ["available_tools", "get", "get_tool_config", "reset_all"],
    BaseTool: [
        *("invoke", "get_name", "get_parameters", "get_tool_prompt", "from_config", "check_allowlist_denylist", "run"),
    ],
    MiddlewarePipeline: ["add", "clear", "reset", "run_before_turn", "run_after_turn"],
    KinConfig: ["load", "save_updates", "get_active_model", "get_provider_for_model"],
    GenericBackend: ["complete", "complete_streaming", "count_tokens", "__aenter__", "__aexit__"],
    MistralBackend: ["complete", "complete_streaming", "count_tokens"],
}


@each_row(("module", "name"), [(m, n) for m, names in NAMES.items() for n in names])
def test_a_name_is_in_its_module(module, name):
    assert hasattr(importlib.import_module(f"kin_nb.core.{module}"), name)


@each_row(("cls", "method"), [(c, m) for c, methods in METHODS.items() for m in methods])
def test_a_class_has_its_method(cls, method):
    assert callable(getattr(cls, method))


def test_the_core_exports_run_programmatic():
    import kin_nb.core

    assert kin_nb.core.run_programmatic.__module__ == "kin_nb.core.programmatic"


@each_row(
    "attribute",
    [
        *(
            "config",
            "messages",
            "stats",
            "session_id",
            "tool_manager",
            "format_handler",
            "backend",
            "middleware_pipeline",
        ),
        *("interaction_logger", "approval_callback"),
    ],
)
async def test_an_agent_has_its_attribute(config, attribute):
    agent = Agent(config)
    assert hasattr(agent, attribute)
    await agent.aclose()


def test_act_yields_events():
    assert inspect.isasyncgenfunction(Agent.act)
    assert "AsyncGenerator[BaseEvent" in str(inspect.signature(Agent.act).return_annotation)


def test_the_factory_has_both_backends():
    assert {Backend.GENERIC: GenericBackend, Backend.MISTRAL: MistralBackend} == BACKEND_FACTORY


@pytest.mark.parametrize(
    ("mode", "safety", "auto_approve"),
    [
        (AgentMode.DEFAULT, ModeSafety.NEUTRAL, False),
        (AgentMode.PLAN, ModeSafety.SAFE, False),
        (AgentMode.ACCEPT_EDITS, ModeSafety.DESTRUCTIVE, False),
        (AgentMode.AUTO_APPROVE, ModeSafety.YOLO, True),
    ],
)
def test_a_mode_has_its_safety(mode, safety, auto_approve):
    assert (mode.safety, mode.auto_approve) == (safety, auto_approve)


def test_a_tool_asks_by_default():
    config = BaseToolConfig()
    assert (config.permission, config.workdir, config.allowlist, config.denylist) == (ToolPermission.ASK, None, [], [])


@each_row(
    "setting",
    [
        *(
            "active_model",
            "api_timeout",
            "auto_compact_threshold",
            "context_warnings",
            "system_prompt_id",
            "instructions",
        ),
        *("include_commit_signature", "include_model_info", "include_project_context", "include_prompt_detail"),
        *("providers", "models", "tools", "tool_paths", "enabled_tools", "disabled_tools", "mcp_servers", "workdir"),
        *("session_logging", "project_context"),
    ],
)
def test_a_setting_exists(setting):
    assert setting in KinConfig.model_fields


def test_the_configuration_knows_its_workdir_and_its_prompt(config, workspace):
    assert config.effective_workdir == workspace.resolve()
    assert config.system_prompt.startswith("You are Kin")
