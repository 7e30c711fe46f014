"""Errors of settings name the file and the line."""

from __future__ import annotations

import os

import pytest

from kin_nb.core.config import ConfigError, KinConfig
from kin_nb.core.config.layers import Layer
from kin_nb.core.config.loading import build
from kin_nb.core.config.trusted_folders import TrustedFolders

SERVERS = '[[mcp_servers]]\nname = "a b"\nurl = "http://x/"\n'


def complaint() -> str:
    with pytest.raises(ConfigError) as error:
        KinConfig.load()
    said = str(error.value)
    assert said.count("\n") <= 1
    return said


WRONG_SETTINGS = [
    (
        '\n[[models]]\nalias = "local"\ntemperature = "hot"\n',
        4,
        "models.local.temperature: Input should be a valid number",
    ),
    ('\n[[models]]\nname = "m"\n', 2, "models.m.provider: Field required"),
    ('[[models]]\nalias = "local"\n[[models]]\nalias = "ollama"\nmax_tokens = -1\n', 5, "models.ollama.max_tokens"),
    ('models = [{alias = "local", input_price = -1}]\n', 1, "models.local.input_price"),
    ('[[models]]\nalias = "local"\nthinking = "hard"\n', 3, "models.local.thinking: Input should be 'off'"),
    ('[[models]]\nalias = "local"\nprovider = "nowhere"\n', 3, 'uses the unknown provider "nowhere"'),
    ("[[models]]\ntemperature = 1\n", 1, "entry 1 must be a table with the name of the model"),
    ("[models.local]\ntemperature = 1\n", 1, "must be a list of tables, each written as [[models]]"),
    (
        '[[providers]]\nname = "p"\n\n[[providers]]\nname = "p"\n',
        2,
        '"p" is used for two providers (again on line 5)',
    ),
    (
        SERVERS + '[[mcp_servers]]\nname = "a_b"\ncommand = "x"\n',
        2,
        '"a_b" is used for two MCP servers (again on line 5)',
    ),
    ('[[mcp_servers]]\nname = "x"\ncommand = "say \'hi"\n', 3, "no closing quotation"),
    ('[[mcp_servers]]\nname = "x"\ncommand = ""\n', 3, "the command is empty"),
    ('[[mcp_servers]]\nname = "x"\ncommand = 5\n', 3, "mcp_servers.x.command"),
    ('[[mcp_servers]]\nname = "?!"\nurl = "http://x/"\n', 2, "must contain a letter or digit"),
    (SERVERS + "tool_timeout_sec = 0\n", 4, "mcp_servers.a_b.tool_timeout_sec"),
    (SERVERS + 'transport = "pigeon"\n', 1, "pigeon"),
    ("auto_compact_threshold = -1\n", 1, "auto_compact_threshold"),
    ("api_timeout = inf\n", 1, "api_timeout"),
    ("[project_context]\nmax_files = -1\n", 2, "project_context.max_files"),
    ("[tools.bash]\n\npermission = 'sometimes'\n", 3, "tools.bash.permission"),
    ("tools.bash.allowlist = 'ls'\n", 1, "tools.bash.allowlist"),
    ("tools = 5\n", 1, "tools: Input should be a valid dictionary"),
    ("enabled_tools = ['a', 5]\n", 1, "enabled_tools.1"),
    ("workdir = 5\n", 1, "workdir"),
    ("tool_paths = ['~no-such-user']\n", 1, "invalid path"),
    ("\n[[models]]\nalias = 'local'\nalias = 'x'\n", 4, "not valid TOML"),
    ('system_prompt_id = "no-such-prompt"\n', 1, "Unknown prompt: system_prompt_id"),
]


def test_a_wrong_setting(subtests, write):
    for text, line, said in WRONG_SETTINGS:
        with subtests.test(text=text, line=line, said=said):
            path = write("config.toml", text)
            complained = complaint()
            assert complained.startswith(f"{path}:{line}: ")
            assert said in complained


def test_the_layer_that_is_wrong_is_named(write, workspace):
    user = write("config.toml", '[[models]]\nalias = "local"\ntemperature = 0.1\n')
    project = write(workspace / ".kin-code" / "config.toml", '\n[[models]]\nalias = "local"\ntemperature = -1\n')
    TrustedFolders().trust(workspace)
    assert complaint().startswith(f"{project}:4: ")
    project.write_text("prune_at = 5\n")
    TrustedFolders().trust(workspace)
    user.write_text("\nprune_at = -1\n")
    KinConfig.load()
    project.unlink()
    TrustedFolders().trust(workspace)
    assert complaint().startswith(f"{user}:2: ")


def test_a_value_is_not_shown_not_even_in_the_traceback(write):
    write("config.toml", '[[providers]]\nname = "p"\napi_base = "http://x"\nextra_headers = {A = ["sk-very-secret"]}\n')
    with pytest.raises(ConfigError) as error:
        KinConfig.load()
    assert "sk-very-secret" not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


@pytest.mark.parametrize("make", ["folder", "pipe", "latin-1", "huge", "deep", "unreadable"])
def test_a_file_that_cannot_be_a_configuration_is_one_error(kin, make):
    path = kin / "config.toml"
    match make:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "latin-1":
            path.write_bytes(b'instructions = "\xe4"\n')
        case "huge":
            path.write_bytes(b"#" * 2_000_000)
        case "deep":
            path.write_text("a = " + "[" * 100_000)
        case "unreadable":
            path.symlink_to(path)
    assert complaint().startswith(f"{path}")


def test_a_byte_order_mark_and_windows_line_ends_are_fine(kin):
    (kin / "config.toml").write_bytes(b'\xef\xbb\xbfpolicy = "strict"\r\n\r\npolcy = 1\r\n')
    config = KinConfig.load()
    assert config.policy == "strict"
    assert config.warnings[0].startswith(f"{kin}/config.toml:3: ")


def test_an_unknown_key_is_a_warning(subtests, write):
    for text, line, said in [
        ('\nactiv_model = "x"\n', 2, "activ_model is not a setting. Did you mean active_model?"),
        ("zzz = 1\n", 1, "zzz is not a setting. It is ignored."),
        (
            '[[models]]\nalias = "local"\n"tempera ture" = 1\n',
            3,
            "models.local.tempera ture is not a setting. Did you mean temperature?",
        ),
        ("[project_context]\nmax_file = 1\n", 2, "Did you mean max_files?"),
        (SERVERS + "header = {}\n", 4, "Did you mean headers?"),
        ('model = "opus"\n', 1, "model is not a setting. Did you mean active_model?"),
        ('approval_policy = "never"\n', 1, "approval_policy is not a setting. Did you mean policy?"),
        ("bypass_tool_permissions = true\n", 1, "bypass_tool_permissions is not a setting"),
    ]:
        with subtests.test(text=text, line=line, said=said):
            path = write("config.toml", text)
            (warning,) = KinConfig.load().warnings
            assert warning.startswith(f"{path}:{line}: ")
            assert said in warning


def test_settings_of_the_terminal_program_and_of_tools_are_nobodys_mistake(write):
    write(
        "config.toml",
        'vim_keybindings = true\ntextual_theme = "x"\nenable_telemetry = true\n[tools.own]\nanything = 1\n',
    )
    write("agents/a.toml", 'display_name = "A"\ndescription = "d"\nsafety = "safe"\nmode = "plan"\n')
    assert KinConfig.load("a").warnings == ()


def test_a_mistaken_argument_is_a_warning():
    (warning,) = KinConfig.load(activ_model="local").warnings
    assert warning == "activ_model is not a setting. Did you mean active_model?"


def test_a_configuration_that_is_built_upon_says_each_warning_once(write):
    write("config.toml", "zzz = 1\n")
    config = KinConfig.load()
    again = build(KinConfig, (*config.layers.layers, Layer({"policy": "strict"})), config.warnings)
    assert (again.policy, again.warnings) == ("strict", config.warnings)
