"""save_updates: what is written, what stays, and what is refused."""

from __future__ import annotations

import stat
import threading
import tomllib

import pytest

from kin_nb.core.config import ConfigError, KinConfig, ModelConfig
from kin_nb.core.paths import sole_writer

TEXT = """\
# my settings
active_model = "local"  # the small one

[tools.bash]  # careful
# why
allowlist = ["make"]

[[models]]
name = "m"       # mine
provider = "ollama"
"""


def test_only_what_was_asked_for_changes(write):
    path = write("config.toml", TEXT)
    KinConfig.save_updates(
        {
            "active_model": "m",
            "policy": "strict",
            "tools": {"bash": {"permission": "always"}},
            "models": [{"name": "m", "temperature": 1}],
        }
    )
    assert path.read_text() == (
        TEXT.replace('"local"', '"m"')
        .replace("one\n\n", 'one\npolicy = "strict"\n\n')
        .replace('["make"]\n', '["make"]\npermission = "always"\n')
        + "temperature = 1\n"
    )
    assert KinConfig.load().get_active_model().temperature == 1


def test_none_deletes(write):
    path = write("config.toml", TEXT)
    KinConfig.save_updates({"active_model": None, "policy": None, "tools": {"bash": {"allowlist": None}}})
    assert "local" not in path.read_text()
    assert "# my settings" in path.read_text()
    assert KinConfig.load().tools["bash"].allowlist == []


def test_new_entries_and_tables_are_added_to_whatever_is_there(subtests, write):
    for text in ["", "models = []\n", "models = [{name = 'm', provider = 'ollama'}]\n", TEXT, "[tools.bash]\nx = 1\n"]:
        with subtests.test(text=text):
            path = write("config.toml", text)
            model = ModelConfig(name="n", provider="ollama")
            KinConfig.save_updates(
                {"policy": "strict", "models": [model], "tools": {"bash": {"y": 2}, "grep": {"z": 3}}}
            )
            config = KinConfig.load()
            assert model in config.models
            assert config.policy == "strict"
            assert config.tools["bash"].model_extra["y"] == 2
            before, after = tomllib.loads(text), tomllib.loads(path.read_text())
            assert {
                key: value
                for key, value in before.get("tools", {}).get("bash", {}).items()
                if after["tools"]["bash"][key] != value
            } == {}


def test_the_first_update_makes_a_private_file(kin):
    KinConfig.save_updates({"active_model": "local"})
    path = kin / "config.toml"
    assert path.read_text() == 'active_model = "local"\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in kin.iterdir()] == ["config.toml"]


def test_what_would_not_load_is_not_written(subtests, write):
    for updates, said in [
        ({"active_model": "devstrall"}, "Unknown model"),
        ({"policy": "lax"}, "policy must be one of"),
        ({"api_timeout": "soon"}, "api_timeout"),
        ({"activ_model": "local"}, "Did you mean active_model?"),
        ({"tools": {"bash": {"x": object()}}}, "not saved"),
        ({"models": [{"temperature": 1}]}, "must be a table with the name of the model"),
    ]:
        with subtests.test(updates=updates, said=said):
            path = write("config.toml", TEXT)
            with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
                KinConfig.save_updates(updates)
            assert path.read_text() == TEXT


def test_a_wrong_file_can_be_fixed_but_a_broken_one_is_left_alone(write):
    path = write("config.toml", 'active_model = "gone"\n')
    KinConfig.save_updates({"active_model": "local"})
    assert KinConfig.load().active_model == "local"
    path.write_text("oops\n")
    with pytest.raises(ConfigError, match=r"config\.toml:1: not valid TOML"):
        KinConfig.save_updates({"active_model": "local"})
    assert path.read_text() == "oops\n"


def test_a_symlink_stays_one(write, tmp_path, kin):
    target = write(tmp_path / "dotfiles" / "kin.toml", TEXT)
    (kin / "config.toml").symlink_to(target)
    KinConfig.save_updates({"policy": "strict"})
    assert (kin / "config.toml").readlink() == target
    assert 'policy = "strict"' in target.read_text()


def test_a_projects_file_may_build_on_the_persons(write, workspace):
    write("config.toml", TEXT)
    write(workspace / ".kin-code" / "prompts" / "own.md", "Be brief.")
    path = workspace / ".kin-code" / "config.toml"
    KinConfig.save_updates({"active_model": "m", "system_prompt_id": "own"}, path)
    assert tomllib.loads(path.read_text()) == {"active_model": "m", "system_prompt_id": "own"}


def test_an_agents_words_about_itself_can_be_saved(write):
    path = write("agents/a.toml", "")
    KinConfig.save_updates({"display_name": "A", "policy": "strict"}, path)
    assert tomllib.loads(path.read_text()) == {"display_name": "A", "policy": "strict"}


def test_writers_at_the_same_time_keep_each_others_changes(kin):
    together = threading.Barrier(6)

    def save(number: int) -> None:
        together.wait()
        KinConfig.save_updates({"tools": {f"t{number}": {"x": number}}})

    threads = [threading.Thread(target=save, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(KinConfig.load().tools) == {f"t{number}" for number in range(6)}


def test_a_writer_that_never_finishes_is_an_error_and_no_hang(kin, monkeypatch):
    monkeypatch.setattr("kin_nb.core.paths.LOCK_SECONDS", 0.05)
    with sole_writer(kin / "config.toml"), pytest.raises(ConfigError, match="another program is writing here"):
        KinConfig.save_updates({"policy": "strict"})


def test_a_folder_that_cannot_be_written_is_one_error(kin):
    kin.rmdir()
    kin.write_text("a file")
    with pytest.raises(ConfigError, match="not saved: Not a directory"):
        KinConfig.save_updates({"policy": "strict"})


def test_a_layout_that_cannot_be_changed_faithfully_is_left_alone(write):
    text = "tools.bash.x = 1\n[[providers]]\nname = 'ollama'\n"
    path = write("config.toml", text)
    with pytest.raises(ConfigError, match="Edit it by hand"):
        KinConfig.save_updates({"policy": "strict", "tools": {"grep": {"z": 3}}})
    assert path.read_text() == text
