"""Reading the configuration, and saying what is wrong with it in one line that names the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from kin_nb.core.config import ConfigError, KinConfig, MissingAPIKeyError
from kin_nb.core.config.loading import config_path, explain

GOOD = """\
active_model = "mine"
policy = "strict"

[[providers]]
name = "here"
api_base = "http://127.0.0.1:9/v1"

[[models]]
name = "some-model"
provider = "here"
alias = "mine"

[tools.bash]
default_timeout = 5
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("KIN_HOME", str(tmp_path_factory.mktemp("kin-home")))


def write(text: str) -> Path:
    path = config_path()
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_without_a_file_the_defaults_hold():
    config = KinConfig.load()
    assert config.get_active_model().provider == "mistral"
    assert {"devstral-2", "local", "ollama"} <= {model.alias for model in config.models}


def test_a_files_own_entries_come_before_the_built_in_ones():
    write(GOOD)
    config = KinConfig.load()
    assert config.get_active_model().name == "some-model"
    assert config.get_provider_for_model(config.get_active_model()).api_base == "http://127.0.0.1:9/v1"
    assert "local" in {model.alias for model in config.models}
    assert config.tools["bash"].model_extra == {"default_timeout": 5}


def test_environment_beats_the_file_and_arguments_beat_both(monkeypatch):
    write(GOOD)
    monkeypatch.setenv("KIN_ACTIVE_MODEL", "local")
    assert KinConfig.load().active_model == "local"
    assert KinConfig.load(active_model="ollama").active_model == "ollama"
    assert KinConfig.load(active_model=None).active_model == "local"


def test_what_is_wrong_is_reported_with_file_and_line(subtests):
    for text, line, said in [
        ('active_model = "devstrall"\n', 1, 'Unknown model "devstrall". Did you mean devstral-2'),
        ("\n\nactive_model = \n", 3, "not valid TOML"),
        ('policy = "whatever"\n', 1, "policy must be one of strict, on-request"),
        ('api_timeout = "soon"\n', 1, "api_timeout"),
        ('[session_logging]\nsave_dir = "~no-such-user/x"\n', 2, "~no-such-user/x: this user does not exist"),
        (GOOD + '[[models]]\nname = "b"\nprovider = "here"\nalias = "mine"\n', 11, "is used for two models"),
    ]:
        with subtests.test(text=text, line=line, said=said):
            path = write(text)
            with pytest.raises(ConfigError) as error:
                KinConfig.load()
            assert str(error.value).startswith(f"{path}:{line}: ")
            assert said in str(error.value)
            assert str(error.value).count("\n") <= 1


def test_a_model_at_an_unknown_provider_is_named():
    write('active_model = "m"\n[[models]]\nname = "m"\nprovider = "nowhere"\n')
    with pytest.raises(ConfigError, match="nowhere"):
        KinConfig.load()


def test_a_missing_key_comes_with_three_ways_on(monkeypatch):
    with pytest.raises(MissingAPIKeyError) as error:
        KinConfig.load().check_api_key()
    text = explain(error.value)
    for way in ("MISTRAL_API_KEY", "config.toml", "llama.cpp", "Ollama", "kin-nb demo"):
        assert way in text
    monkeypatch.setenv("MISTRAL_API_KEY", "k")
    KinConfig.load().check_api_key()


def test_a_wrong_name_from_the_command_line_is_not_blamed_on_the_file():
    write(GOOD)
    with pytest.raises(ConfigError) as error:
        KinConfig.load(active_model="nope")
    assert str(error.value).startswith('Unknown model "nope".\nModels: mine')
