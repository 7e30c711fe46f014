"""KIN_* variables and secrets files as settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kin_nb.core.config import ConfigError, KinConfig


def test_every_field_has_a_variable(subtests, monkeypatch):
    for name, text, field, value in [
        ("KIN_API_TIMEOUT", "5", "api_timeout", 5.0),
        ("KIN_INCLUDE_MODEL_INFO", "false", "include_model_info", False),
        ("kin_auto_compact_threshold", "7", "auto_compact_threshold", 7),
        ("KIN_ENABLED_TOOLS", "grep, read_file,", "enabled_tools", ["grep", "read_file"]),
        ("KIN_ENABLED_TOOLS", '["a,b"]', "enabled_tools", ["a,b"]),
        ("KIN_SKILL_PATHS", "/a,/b", "skill_paths", [Path("/a"), Path("/b")]),
        ("KIN_POLICY", "", "policy", "on-request"),
    ]:
        with subtests.test(name=name, text=text, field=field, value=value), monkeypatch.context() as patch:
            patch.setenv(name, text)
            assert getattr(KinConfig.load(), field) == value


def test_tables_are_json_and_merge_like_any_layer(monkeypatch, write):
    write("config.toml", "[tools.bash]\na = 1\n")
    monkeypatch.setenv("KIN_TOOLS", '{"bash": {"b": 2}}')
    monkeypatch.setenv("KIN_MODELS", '[{"alias": "local", "temperature": 1}]')
    monkeypatch.setenv("KIN_PROJECT_CONTEXT", '{"max_depth": 1}')
    config = KinConfig.load(active_model="local")
    assert config.tools["bash"].model_extra == {"a": 1, "b": 2}
    assert config.get_active_model().temperature == 1
    assert config.project_context.max_depth == 1


def test_upper_case_wins_over_lower_case(monkeypatch):
    monkeypatch.setenv("kin_policy", "yolo")
    monkeypatch.setenv("KIN_POLICY", "strict")
    assert KinConfig.load().policy == "strict"


def test_a_wrong_variable_is_blamed_and_no_file(subtests, monkeypatch, write):
    for number, (name, text) in enumerate(
        [
            ("KIN_POLICY", "whatever"),
            ("KIN_API_TIMEOUT", "soon"),
            ("KIN_TOOLS", "{not json}"),
            ("KIN_TOOLS", "[" * 100_000),
            ("KIN_MODELS", '{"alias": "x"}'),
            ("KIN_MODELS", '[{"alias": "x"}, {"alias": "x"}]'),
            ("KIN_MODELS", "[5]"),
            ("KIN_WORKDIR", "~no-such-user/x"),
            ("KIN_WORKDIR", "x" * 100_000),
            ("KIN_TOOL_PATHS", "~no-such-user/x"),
            ("kin_active_model", "devstrall"),
        ]
    ):
        with subtests.test(number=number), monkeypatch.context() as patch:
            write("config.toml", 'policy = "strict"\napi_timeout = 5\nactive_model = "local"\n[tools.bash]\na = 1\n')
            patch.setenv(name, text)
            with pytest.raises(ConfigError) as error:
                KinConfig.load().effective_workdir.exists()
            assert str(error.value).startswith(f"{name}: ")
            assert len(str(error.value)) < 500


def test_the_value_of_a_wrong_variable_is_not_shown(monkeypatch):
    monkeypatch.setenv("KIN_PROVIDERS", '[{"name": "p", "api_base": ["sk-very-secret"]}]')
    with pytest.raises(ConfigError) as error:
        KinConfig.load()
    assert "providers.p.api_base" in str(error.value)
    assert "sk-very-secret" not in str(error.value)


def test_a_variable_that_is_nearly_a_setting_is_a_warning(monkeypatch):
    monkeypatch.setenv("KIN_ACTIV_MODEL", "local")
    for name in ("KIN_REPLAY", "KIN_REPLAY_SERVERS", "KIN_RECORDING", "KIN_APPROVAL", "KIN_SOMETHING_ELSE"):
        monkeypatch.setenv(name, "x")
    assert KinConfig.load().warnings == ("KIN_ACTIV_MODEL is not a setting. Did you mean KIN_ACTIVE_MODEL?",)


def test_a_secrets_folder_holds_settings_below_the_variables(monkeypatch, tmp_path, write):
    path = write(tmp_path / "secrets" / "KIN_POLICY", "strict\n")
    write(tmp_path / "secrets" / "unrelated", "x")
    monkeypatch.setenv("KIN_SECRETS_DIR", str(tmp_path / "secrets"))
    assert KinConfig.load().policy == "strict"
    path.write_text("no policy\n")
    with pytest.raises(ConfigError) as error:
        KinConfig.load()
    assert str(error.value).startswith(f"{path}: policy")
    monkeypatch.setenv("KIN_POLICY", "yolo")
    assert KinConfig.load().policy == "yolo"


def test_a_secrets_folder_that_is_none_or_holds_a_pipe_stops_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("KIN_SECRETS_DIR", str(tmp_path / "gone"))
    (warning,) = KinConfig.load().warnings
    assert warning.startswith("KIN_SECRETS_DIR: ")
    (tmp_path / "gone").mkdir()
    os.mkfifo(tmp_path / "gone" / "KIN_POLICY")
    assert KinConfig.load().warnings == ()
