"""Secrets: out of children's environments, out of texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from kin_nb.core.config import KinConfig, ProviderConfig
from kin_nb.core.config.secrets import key_names, secret_values
from kin_nb.core.environment import child_environment
from kin_nb.core.redaction import Redactor, is_secret_name

WORKSPACE = Path("/home/ada/projects/engine")
HOME = Path("/home/ada")
KEY = "hunter2-hunter2"


@pytest.fixture
def redact():
    return Redactor([KEY, "short"], WORKSPACE, HOME).text


NAMES_OF_SECRETS = [
    *(
        "MISTRAL_API_KEY",
        "GITHUB_TOKEN",
        "githubToken",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "DB_PASSWORD",
    ),
    *(
        "PGPASSWORD",
        "DB_PASS",
        "MYSQL_PWD",
        "SSHPASS",
        "NPM_AUTH",
        "GITHUB_PAT",
        "SENTRY_DSN",
        "JUPYTER_TOKEN",
        "SSH_KEY",
    ),
    *("CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS", "my-api-key", "SLACK_WEBHOOK_URL", "OPENAI_APIKEY"),
    *("OPENAI_KEY_2", "KEY_OPENAI", "MY_KEY1"),
]


def test_a_name_tells_a_secret(subtests):
    for name in NAMES_OF_SECRETS:
        with subtests.test(name=name):
            assert is_secret_name(name)


def test_a_harmless_name_is_left_alone(subtests):
    for name in [
        *(
            "PATH",
            "PWD",
            "OLDPWD",
            "HOME",
            "SSH_AUTH_SOCK",
            "SSH_ASKPASS",
            "TOKENIZERS_PARALLELISM",
            "KEYBOARD",
            "MONKEY",
        ),
        *("COMPASS_DIR", "AUTHOR", "GIT_AUTHOR_NAME", "VIRTUAL_ENV", "JPY_SESSION_NAME", "KEYTIMEOUT", "PATTERN"),
        "PRIMARY_KEY_COLUMN",
    ]:
        with subtests.test(name=name):
            assert not is_secret_name(name)


def test_children_get_no_secret_but_those_that_are_kept():
    base = {
        "PATH": "/bin",
        "API_KEY": "x",
        "DEPLOY_TOKEN": "y",
        "DATABASE_URL": "postgres://u:pw@db/x",
        "HTTPS_PROXY": "http://u:pw@proxy:3128",
        "SITE": "https://example.org/a:b@c",
    }
    assert set(child_environment(base, keep=["DEPLOY_TOKEN"])) == {"PATH", "DEPLOY_TOKEN", "HTTPS_PROXY", "SITE"}


def test_children_get_nothing_that_shells_run_at_their_start():
    hooks = {"BASH_ENV": "a.sh", "ENV": "b.sh", "BASH_FUNC_ls%%": "() { id; }", "SHELLOPTS": "xtrace", "PS4": "$(id)"}
    base = {**hooks, "PATH": "/bin", "ENVIRONMENT": "test", "CONDA_DEFAULT_ENV": "base"}
    assert set(child_environment(base)) == {"PATH", "ENVIRONMENT", "CONDA_DEFAULT_ENV"}
    assert set(child_environment(base, keep=["BASH_ENV"])) - set(child_environment(base)) == {"BASH_ENV"}


def test_the_values_to_hide_are_the_providers_keys_and_the_environments_secrets():
    config = KinConfig(
        providers=[
            ProviderConfig(
                name="p",
                api_base="http://x",
                api_key_env_var="ODDLY_NAMED",
                extra_headers={"X-Api-Key": "header-value-1"},
            )
        ]
    )
    environment = {"ODDLY_NAMED": "provider-key-1", "A_TOKEN": "token-value-1", "B_TOKEN": "tiny", "HOME": "/home/ada"}
    assert set(secret_values(config, environment)) == {"provider-key-1", "token-value-1", "header-value-1"}


def test_the_variables_that_hold_keys_are_known_by_the_configuration(monkeypatch):
    monkeypatch.setenv("ODD_SERVER", "server-key-1")
    config = KinConfig(
        providers=[ProviderConfig(name="p", api_base="http://x", api_key_env_var="ODD")],
        mcp_servers=[{"name": "s", "url": "http://y", "api_key_env": "ODD_SERVER", "headers": {"Authorization": "x"}}],
    )
    assert key_names(config) == ["ODD", "ODD_SERVER"]
    assert child_environment({"ODD": "a", "ODD_SERVER": "b", "C": "c"}, ["ODD"], also=key_names(config)) == {
        "ODD": "a",
        "C": "c",
    }
    assert "server-key-1" in secret_values(config, {})


def test_secret_values_vanish_also_escaped(redact):
    text = Redactor(['pass"word/ä1'], WORKSPACE, HOME).text
    assert (
        text('{"a": "pass\\"word/\\u00e41"} pass"word/ä1 pass%22word/%C3%A41') == '{"a": "[secret]"} [secret] [secret]'
    )
    assert redact(f"key={KEY};") == "key=[secret];"
    assert redact("short stays") == "short stays"


def test_the_known_shapes_of_keys_vanish(subtests, redact):
    for secret in [
        "sk-proj-abcDEF0123456789abcdef",
        "ghp_" + "a1" * 18,
        "github_pat_" + "a1" * 20,
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA\n" * 9 + "-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\\n" + "MIIEpAIBAAKCAQEA\\n" * 9 + "-----END PRIVATE KEY-----",
    ]:
        with subtests.test(secret=secret):
            assert redact(f'before "{secret}" after') == 'before "[secret]" after'


def test_what_stands_around_a_secret_stays(redact):
    assert redact("Authorization: Bearer abcdef0123456789xyz\n") == "Authorization: Bearer [secret]\n"
    assert redact("postgres://ada:pw@db/x") == "postgres://ada:[secret]@db/x"


def test_ordinary_text_stays(subtests, redact):
    for text in [
        '<div class="sk-estimator-doc-link fitted">',
        'if "-----BEGIN RSA PRIVATE KEY-----" in text:\n    return True\n',
        "the bearer of this certificate",
        'f"http://{user}:{password}@{host}"',
        "a task-force of twenty-four people1234567890",
        "https://example.org:8080/a@b",
    ]:
        with subtests.test(text=text):
            assert redact(text) == text


def test_paths_are_replaced_at_their_boundaries_longest_first(subtests, redact):
    for text, redacted in [
        ("/home/ada/projects/engine/src/x.py:3", "{workspace}/src/x.py:3"),
        ("in /home/ada/projects/engine.", "in {workspace}."),
        ("/home/ada/.bashrc and /home/ada", "~/.bashrc and ~"),
        ("file:///home/ada/projects/engine/x", "file://{workspace}/x"),
        ("gcc -I/home/ada/projects/engine/include", "gcc -I{workspace}/include"),
        ("PYTHONPATH=/home/ada:/home/ada/projects/engine", "PYTHONPATH=~:{workspace}"),
        ("/home/adam /home/ada-2 /mnt/home/ada /home/ada.old", "/home/adam /home/ada-2 /mnt/home/ada /home/ada.old"),
        ("/home/ada/projects/engine2/x", "~/projects/engine2/x"),
    ]:
        with subtests.test(text=text, redacted=redacted):
            assert redact(text) == redacted


def test_both_spellings_of_a_linked_workspace_are_replaced(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    redact = Redactor([], tmp_path / "link", HOME).text
    assert redact(f"{tmp_path}/link/a {tmp_path}/real/a") == "{workspace}/a {workspace}/a"


def test_the_root_of_the_file_system_is_no_place():
    assert Redactor([], Path("/"), Path("/")).text("/usr/bin a/b") == "/usr/bin a/b"


def test_redacting_twice_changes_nothing_more():
    redact = Redactor([KEY, "workspace", "[secret]"], WORKSPACE, HOME).text
    text = f"{KEY}{KEY} x /home/ada/home/ada /home/ada/projects/engine/home/ada postgres://a:b@c Bearer abcdef0123456789xyz"
    once = redact(text)
    assert KEY not in once
    assert redact(once) == once


def test_a_secret_after_100_kb_of_hostile_text_is_removed(subtests):
    for number, text in enumerate(
        [
            "sk-" * 33_000,
            "eyJ" * 33_000,
            "bearer " * 14_000,
            "://a:" * 20_000,
            "-----BEGIN PRIVATE KEY-----" * 4_000,
            "/home/ada/projects/engine/x.py: ok\n" * 3_000,
            "a" * 100_000,
            "secret-val" * 10_000,
            "lue-7" * 20_000,
        ]
    ):
        with subtests.test(number=number):
            redact = Redactor([f"secret-value-{n}" for n in range(30)], WORKSPACE, HOME).text
            assert "secret-value-7" not in redact(f"{text}\nsecret-value-7\n")


def test_the_names_of_gits_settings_are_no_secrets():
    """Without them git refuses to run at all."""
    given = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.quotePath", "GIT_CONFIG_VALUE_0": "false"}
    assert child_environment(given) == given


def test_the_users_folder_reads_the_same_wherever_KIN_HOME_puts_it(tmp_path, monkeypatch):  # noqa: N802
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "moved"))
    redact = Redactor([], WORKSPACE).text
    assert redact(f"{tmp_path}/moved/memory/x.md {tmp_path}/moved-on") == f"~/.kin-code/memory/x.md {tmp_path}/moved-on"
    assert redact(f"{Path.home()}/.kin-code/memory/x.md") == "~/.kin-code/memory/x.md"
