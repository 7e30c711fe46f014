"""Where a key is found, and how one is kept."""

from __future__ import annotations

import os
import stat
import sys

import pytest

from kin_nb.core.config import ConfigError, KinConfig, MissingAPIKeyError, ProviderConfig
from kin_nb.core.config.keys import env_file_warnings, env_path, find_key, known_keys, save_key
from kin_nb.core.config.loading import explain


@pytest.fixture
def env_file(kin):
    """Write `~/.kin-code/.env`, readable by its owner only."""

    def write(text: str, mode: int = 0o600):
        path = kin / ".env"
        path.write_text(text)
        path.chmod(mode)
        return path

    return write


@pytest.fixture
def keyring(tmp_path, monkeypatch):
    """A package of that name, with one key in it; the list of what it was asked."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "keyring.py").write_text(
        "asked = []\n"
        "def get_password(service, name):\n"
        "    asked.append((service, name))\n"
        "    if name == 'LOCKED':\n        raise RuntimeError('no desktop')\n"
        "    return {'RING_KEY': 'from-the-ring'}.get(name)\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.delitem(sys.modules, "keyring", raising=False)
    yield lambda: sys.modules["keyring"].asked
    sys.modules.pop("keyring", None)


def test_each_place_is_asked_after_the_one_before(env_file, write, tmp_path, monkeypatch, keyring):
    assert find_key("RING_KEY") == "from-the-ring"
    write(tmp_path / "secrets" / "RING_KEY", "from-a-secrets-file\n")
    monkeypatch.setenv("KIN_SECRETS_DIR", str(tmp_path / "secrets"))
    assert find_key("RING_KEY") == "from-a-secrets-file"
    env_file("RING_KEY=from-dotenv\n")
    assert find_key("RING_KEY") == "from-dotenv"
    monkeypatch.setenv("RING_KEY", "from-the-environment")
    assert find_key("RING_KEY") == "from-the-environment"


def test_a_key_in_the_env_file_is_seen_at_once_and_exported_to_no_one(env_file):
    assert find_key("A_KEY") is None
    env_file("A_KEY=one\n")
    assert find_key("A_KEY") == "one"
    path = env_file("A_KEY=three\n")
    assert find_key("A_KEY") == "three"
    path.unlink()
    assert find_key("A_KEY") is None
    assert "A_KEY" not in os.environ


def test_the_env_file_is_written_as_people_write_them(env_file):
    env_file("# keys\nexport A='it''s'\nA = \"q\\\"q\" # c\nB='a${HOME}b'\nC=plain # c\n\nnot a line = 'x\nD=\n")
    assert {name: find_key(name) for name in "ABCD"} == {"A": 'q"q', "B": "a${HOME}b", "C": "plain", "D": None}
    assert [warning.rsplit(".env", 1)[1] for warning in env_file_warnings()] == [
        ":2: invalid line; write NAME=value.",
        ":7: invalid line; write NAME=value.",
    ]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_an_env_file_that_others_may_read_or_change_is_not_used(env_file, mode):
    path = env_file("MISTRAL_API_KEY=k\n", mode)
    assert find_key("MISTRAL_API_KEY") is None
    (warning,) = KinConfig.load().warnings
    assert warning.startswith(f"{path}: not read: other users may")
    assert warning.endswith("chmod 600 ~/.kin-code/.env")
    with pytest.raises(MissingAPIKeyError) as error:
        KinConfig.load().check_api_key()
    assert "chmod 600" in explain(error.value)
    path.chmod(0o600)
    assert find_key("MISTRAL_API_KEY") == "k"


def test_a_pipe_is_no_env_file(kin):
    os.mkfifo(kin / ".env", 0o600)
    assert find_key("A_KEY") is None
    assert env_file_warnings() == (f"{kin}/.env: cannot be read: it is not a regular file.",)


def test_a_name_that_is_none_reads_no_file(subtests, tmp_path, monkeypatch, write):
    for name in ["", "../x", "A B", "x/y"]:
        with subtests.test(name=name), monkeypatch.context() as patch:
            write(tmp_path / "x", "secret")
            (tmp_path / "secrets").mkdir(exist_ok=True)
            patch.setenv("KIN_SECRETS_DIR", str(tmp_path / "secrets"))
            assert find_key(name) is None


def test_the_keyring_is_asked_once_and_its_errors_are_silence(keyring):
    for _ in range(3):
        assert (find_key("RING_KEY"), find_key("NO_KEY"), find_key("LOCKED")) == ("from-the-ring", None, None)
    assert keyring() == [("kin-code", "RING_KEY"), ("kin-code", "NO_KEY"), ("kin-code", "LOCKED")]


def test_without_the_keyring_package_there_is_no_key():
    assert "keyring" not in sys.modules
    assert find_key("RING_KEY") is None


def test_records_can_be_kept_free_of_every_key_that_is_not_in_the_environment(
    env_file, write, tmp_path, monkeypatch, keyring
):
    env_file("A=dotenv-key\n")
    write(tmp_path / "secrets" / "db_password", "secrets-file-key\n")
    write(tmp_path / "secrets" / "KIN_POLICY", "on-request\n")
    monkeypatch.setenv("KIN_SECRETS_DIR", str(tmp_path / "secrets"))
    assert known_keys() == ["dotenv-key", "secrets-file-key"]
    find_key("RING_KEY")
    assert known_keys() == ["dotenv-key", "secrets-file-key", "from-the-ring"]


def test_a_saved_key_is_private_found_at_once_and_leaves_the_rest_alone(env_file):
    path = env_file("# mine\nexport A=old\nB=keep # this", mode=0o644)
    assert save_key("A", " it's \\new\\ \n") == path
    assert path.read_text() == "# mine\nB=keep # this\nA='it\\'s \\\\new\\\\'\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (find_key("A"), find_key("B")) == ("it's \\new\\", "keep")


def test_the_first_saved_key_makes_a_private_folder(kin):
    kin.rmdir()
    save_key("A", "k")
    assert stat.S_IMODE(kin.stat().st_mode) == 0o700
    assert [entry.name for entry in kin.iterdir()] == [".env"]


def test_what_is_no_key_is_not_saved_and_not_shown(subtests):
    for variable, value in [("A B", "k"), ("", "k"), ("A", ""), ("A", " \n"), ("A", "a\nB=c"), ("A", "a\0")]:
        with subtests.test(variable=variable, value=value):
            with pytest.raises(ConfigError) as error:
                save_key(variable, value)
            assert not env_path().exists()
            assert "B=c" not in str(error.value)


def test_a_saved_key_replaces_the_one_that_the_keyring_gave(keyring):
    provider = ProviderConfig(name="p", api_base="http://x", api_key_env_var="RING_KEY")
    assert provider.api_key == "from-the-ring"
    save_key("RING_KEY", "newer")
    assert provider.api_key == "newer"
    assert "from-the-ring" not in known_keys()
