"""Which layer wins, and how layers are merged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kin_nb.core.config import ConfigError, KinConfig, MissingAPIKeyError, ModelConfig
from kin_nb.core.config.trusted_folders import TrustedFolders
from kin_nb.core.modes import AgentMode


@pytest.fixture
def write(write, workspace):
    """Write a file; the workspace is trusted with what is written there."""

    def trusted(path: Path | str, text: str) -> Path:
        written = write(path, text)
        if written.is_relative_to(workspace):
            TrustedFolders().trust(workspace)
        return written

    return trusted


@pytest.fixture
def project(workspace, write):
    """The workspace, trusted, with settings of its own."""
    write(workspace / ".kin-code" / "config.toml", 'instructions = "project"\n')
    return workspace


def test_each_layer_beats_the_one_below(project, write, monkeypatch, tmp_path):
    assert KinConfig().instructions == ""
    write(project / ".kin-code" / "config.toml", "")
    write("config.toml", 'instructions = "user"\n')
    assert KinConfig.load().instructions == "user"
    write(project / ".kin-code" / "config.toml", 'instructions = "project"\n')
    assert KinConfig.load().instructions == "project"
    write("agents/short.toml", 'instructions = "agent"\n')
    assert KinConfig.load().instructions == "project"
    assert KinConfig.load("short").instructions == "agent"
    write(tmp_path / "secrets" / "KIN_INSTRUCTIONS", "secrets file\n")
    monkeypatch.setenv("KIN_SECRETS_DIR", str(tmp_path / "secrets"))
    assert KinConfig.load("short").instructions == "secrets file"
    monkeypatch.setenv("KIN_INSTRUCTIONS", "environment")
    assert KinConfig.load("short").instructions == "environment"
    assert KinConfig.load("short", instructions="run time").instructions == "run time"


def test_a_mode_is_given_as_run_time_settings(workspace, monkeypatch):
    monkeypatch.setenv("KIN_POLICY", "strict")
    assert KinConfig.load(workdir=workspace, **AgentMode.PLAN.config_overrides).policy == "strict"
    assert KinConfig.load(workdir=workspace, **AgentMode.AUTO_APPROVE.config_overrides).policy == "yolo"


def test_tables_are_merged_key_by_key_and_lists_replaced(project, write):
    write(
        "config.toml",
        "[tools.grep]\nallowlist = ['a', 'b']\n"
        "[tools.bash]\nallowlist = ['make']\ndefault_timeout = 5\n[project_context]\nmax_depth = 7\n",
    )
    write(
        project / ".kin-code" / "config.toml",
        "[tools.bash]\ndefault_timeout = 9\n[tools.grep]\npermission = 'always'\nallowlist = ['c']\n"
        "[project_context]\nmax_files = 3\n",
    )
    config = KinConfig.load(tools={"bash": {"denylist": ["rm"]}})
    assert config.tools["grep"].allowlist == ["c"]
    bash = config.tools["bash"]
    assert (bash.allowlist, bash.denylist, bash.model_extra) == (["make"], ["rm"], {"default_timeout": 9})
    assert config.tools["grep"].permission == "always"
    assert (config.project_context.max_depth, config.project_context.max_files) == (7, 3)


def test_an_entry_of_the_same_name_is_overlaid_field_by_field(project, write):
    write(
        "config.toml",
        "[[models]]\nalias = 'devstral-2'\ntemperature = 0.7\n[[providers]]\nname = 'mistral'\nextra_headers = {A = '1'}\n",
    )
    write(
        project / ".kin-code" / "config.toml",
        "[[models]]\nalias = 'devstral-2'\nmax_tokens = 9\n[[models]]\nname = 'own'\nprovider = 'mistral'\n",
    )
    write("agents/more.toml", "[[providers]]\nname = 'mistral'\nextra_headers = {B = '2'}\n")
    config = KinConfig.load("more")
    default = KinConfig().get_active_model()
    assert config.get_active_model() == default.model_copy(update={"temperature": 0.7, "max_tokens": 9})
    assert [model.alias for model in config.models][-1] == "own", "a project's come last"
    assert len(config.models) == len(KinConfig().models) + 1
    assert config.get_provider_for_model(config.get_active_model()).extra_headers == {"A": "1", "B": "2"}


def test_run_time_models_may_be_values_and_are_merged_as_well():
    config = KinConfig.load(models=[ModelConfig(name="m", provider="ollama", alias="local")], active_model="local")
    assert (config.get_active_model().name, config.get_active_model().provider) == ("m", "ollama")
    assert "devstral-2" in {model.alias for model in config.models}


def test_mcp_servers_are_merged_by_the_name_that_tools_will_have(write):
    write(
        "config.toml",
        "[[mcp_servers]]\nname = 'my git'\ncommand = 'git-mcp'\nenv = {A = '1'}\n[[mcp_servers]]\nname = 'web'\nurl = 'http://x/'\n",
    )
    write("agents/a.toml", "[[mcp_servers]]\nname = 'my_git'\nargs = ['-v']\nenv = {B = '2'}\n")
    git, web = KinConfig.load("a").mcp_servers
    assert (git.name, git.argv(), git.env) == ("my_git", ["git-mcp", "-v"], {"A": "1", "B": "2"})
    assert web.name == "web"


def test_a_server_that_becomes_a_program_keeps_nothing_of_the_address(write):
    write("config.toml", "[[mcp_servers]]\nname = 'x'\nurl = 'http://x/'\ntransport = 'http'\n")
    write("agents/a.toml", "[[mcp_servers]]\nname = 'x'\ncommand = 'x-mcp'\n")
    (server,) = KinConfig.load("a").mcp_servers
    assert (server.transport, server.argv()) == ("stdio", ["x-mcp"])


def test_relative_paths_are_relative_to_what_names_them(project, kin, home, write, monkeypatch):
    write("config.toml", "tool_paths = ['mine', '~/all', '/abs']\n")
    assert KinConfig.load().tool_paths == [kin / "mine", home / "all", Path("/abs")]
    write(project / ".kin-code" / "config.toml", "tool_paths = ['tools']\nskill_paths = ['skills']\n")
    config = KinConfig.load()
    assert (config.tool_paths, config.skill_paths) == ([project / "tools"], [project / "skills"])
    write("agents/a.toml", "skill_paths = ['../skills']\n")
    assert KinConfig.load("a").skill_paths == [kin / "agents" / ".." / "skills"]
    monkeypatch.setenv("KIN_TOOL_PATHS", "here,/there")
    assert KinConfig.load().tool_paths == [Path.cwd() / "here", Path("/there")]


def test_an_agent_file_is_found_with_either_dash_and_the_users_comes_first(project, write):
    write("agents/code_review.toml", 'instructions = "mine"\ndisplay_name = "Review"\nmode = "plan"\n')
    assert KinConfig.load("code-review").instructions == "mine"
    assert KinConfig.load("code-review").warnings == ()
    write(project / ".kin-code" / "agents" / "code_review.toml", 'instructions = "project"\n')
    assert KinConfig.load("code_review").instructions == "mine"


def test_an_agent_that_is_not_there_is_an_error_that_lists_those_that_are(subtests, write):
    for name in ["no-such", "../config", "", "plan"]:
        with subtests.test(name=name):
            write("agents/strict.toml", "")
            write("agents/plan.toml", "")
            with pytest.raises(ConfigError, match=r"^Unknown agent .*\.\nAgents: strict\.$"):
                KinConfig.load(name)


def test_the_key_is_checked_only_when_it_is_required(monkeypatch):
    KinConfig.load()
    with pytest.raises(MissingAPIKeyError):
        KinConfig.load(require_key=True)
    monkeypatch.setenv("MISTRAL_API_KEY", "k")
    KinConfig.load(require_key=True)


def test_where_a_value_came_from_does_not_make_configurations_differ(write):
    by_hand = KinConfig.load(policy="strict")
    write("config.toml", 'policy = "strict"\npolcy = 1\n')
    from_file = KinConfig.load()
    assert from_file.warnings
    assert from_file == by_hand
    assert from_file.model_dump() == by_hand.model_dump()


def test_an_ordinary_file_is_read_without_heavy_imports(kin, write):
    write(
        "config.toml",
        "active_model = 'mine'\n[[models]]\nname = 'm'\nprovider = 'ollama'\nalias = 'mine'\n[tools.bash]\nx = 1\n",
    )
    script = """
import sys
from kin_nb.core.config import KinConfig
KinConfig.load()
print([n for n in ("tomlkit", "dotenv", "keyring", "difflib") if n in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
