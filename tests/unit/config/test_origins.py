"""Where a setting came from, and the reports of `kin-nb config`."""

from __future__ import annotations

import tomllib

import pytest

from kin_nb.core.config import KinConfig
from kin_nb.core.config.origins import Origin, config_origins, config_report, origin_report
from kin_nb.core.config.trusted_folders import TrustedFolders

SECRETS = """\
[[providers]]
name = "p"
api_base = "http://user:hunter2hunter2@x/v1?key=in-the-query"
api_key_env_var = "P_API_KEY"
extra_headers = {X-Plain = "in-a-header"}

[[mcp_servers]]
name = "s"
command = "serve --token in-the-command --port 8080"
args = ["--api-key=in-an-argument", "--password", "in-the-next", "--verbose", "shown"]
env = {ANY = "in-the-env"}

[[mcp_servers]]
name = "h"
url = "http://x/?api_key=in-the-url&b=c"
headers = {Authorization = "in-the-headers"}

[tools.search]
api_key = "in-a-tool"
note = "ghp_a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4e5f6"
keyed = "the-key-itself"
"""


def origins(config: KinConfig) -> dict[str, tuple[object, str]]:
    return {origin.key: (origin.value, origin.source) for origin in config_origins(config)}


def test_each_value_names_the_layer_that_is_in_force(write, workspace, monkeypatch, tmp_path):
    write(
        "config.toml",
        'policy = "strict"\n[[models]]\nalias = "local"\ntemperature = 0.5\nmax_tokens = 5\n[tools."a.b"]\nx = 1\n',
    )
    write(
        workspace / ".kin-code" / "config.toml",
        '\n[[models]]\nalias = "ollama"\n[[models]]\nalias = "local"\ntemperature = 0.7\n',
    )
    TrustedFolders().trust(workspace)
    write("agents/a.toml", "\n\ncontext_warnings = true\n")
    monkeypatch.setenv("KIN_API_TIMEOUT", "9")
    secret = write(tmp_path / "secrets" / "KIN_INSTRUCTIONS", "be brief")
    monkeypatch.setenv("KIN_SECRETS_DIR", str(tmp_path / "secrets"))
    found = origins(KinConfig.load("a", active_model="local"))
    assert found["policy"] == ("strict", "~/.kin-code/config.toml:1")
    assert found["models.local.temperature"] == (0.7, f"{workspace}/.kin-code/config.toml:6")
    assert found["models.local.max_tokens"] == (5, "~/.kin-code/config.toml:5")
    assert found["models.local.provider"] == ("llamacpp", "default")
    assert found['tools."a.b".x'] == (1, "~/.kin-code/config.toml:7")
    assert found["context_warnings"] == (True, "~/.kin-code/agents/a.toml:3")
    assert found["api_timeout"] == (9.0, "KIN_API_TIMEOUT")
    assert found["instructions"] == ("be brief", str(secret))
    assert found["active_model"] == ("local", "given at run time")
    assert found["enabled_tools"] == ([], "default")


def test_a_configuration_made_by_hand_has_only_defaults():
    assert Origin("policy", "on-request", "default") in config_origins(KinConfig())


def test_the_report_has_aligned_columns_and_the_defaults_on_request(write):
    write("config.toml", 'policy = "strict"\nauto_compact_threshold = 5\n')
    config = KinConfig.load(instructions="x" * 100)
    assert origin_report(config) == (
        'policy                  "strict"                                                      ~/.kin-code/config.toml:1\n'
        f'instructions            "{"x" * 58}…  given at run time\n'
        "auto_compact_threshold  5                                                             ~/.kin-code/config.toml:2"
    )
    assert len(origin_report(config, all=True).splitlines()) == len(config_origins(config))
    assert origin_report(KinConfig.load()) != origin_report(KinConfig())
    assert origin_report(KinConfig()) == "Nothing is set: all settings have their defaults."


def test_the_settings_that_differ_are_toml_that_loads_to_the_same(write):
    text = (
        'policy = "strict"\napi_timeout = 720.0\nenabled_tools = ["a"]\n[project_context]\nmax_depth = 9\n'
        '[[models]]\nalias = "local"\ntemperature = 0.9\n[[models]]\nname = "new"\nprovider = "ollama"\nmax_tokens = 3\n'
        '[[mcp_servers]]\nname = "s"\ncommand = "x"\n[tools.bash]\npermission = "always"\nown = {a = [1]}\n'
    )
    write("config.toml", text)
    config = KinConfig.load()
    report = config_report(config)
    assert tomllib.loads(report) == {
        "policy": "strict",
        "enabled_tools": ["a"],
        "project_context": {"max_depth": 9},
        "models": [
            {"alias": "local", "temperature": 0.9},
            {"alias": "new", "name": "new", "provider": "ollama", "max_tokens": 3},
        ],
        "mcp_servers": [{"name": "s", "command": "x"}],
        "tools": {"bash": {"permission": "always", "own": {"a": [1]}}},
    }
    write("config.toml", report)
    assert KinConfig.load() == config


def test_without_settings_the_report_says_so():
    assert config_report(KinConfig.load()) == "# Nothing is set: all settings have their defaults.\n"


@pytest.mark.parametrize("report", [config_report, origin_report])
def test_no_report_shows_a_secret(write, monkeypatch, report):
    monkeypatch.setenv("P_API_KEY", "the-key-itself")
    write("config.toml", SECRETS)
    text = report(KinConfig.load())
    for secret in ("in-a", "in-the", "hunter2", "ghp_", "the-key-itself"):
        assert secret not in text
    for harmless in ("P_API_KEY", "X-Plain", "serve --token [secret] --port", "--api-key=[secret]", "ANY"):
        assert harmless in text


def test_values_given_to_a_server_by_name_are_hidden():
    from kin_nb.core.config.secrets import _without_flag_values

    words = ["-e", "GITHUB_TOKEN=abc", "--header", "Authorization: hunter", "-H", "'X-Api-Key:", "hunter'", "img"]
    assert _without_flag_values(words) == [
        *("-e", "GITHUB_TOKEN=[secret]", "--header", "Authorization:[secret]", "-H", "'X-Api-Key:", "[secret]", "img"),
    ]
