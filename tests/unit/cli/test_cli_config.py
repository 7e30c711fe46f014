"""`kin-nb config` and `kin-nb trust`."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from kin_nb.core.config.trusted_folders import PROJECT_FILES, TrustedFolders
from kin_nb.core.paths import kin_home
from tests.table import each_row

SECRETS = """
[[providers]]
name = "here"
api_base = "https://example.org/v1?token=hidden-in-the-address"
[providers.extra_headers]
X-Auth = "hidden-in-a-header"

[[mcp_servers]]
name = "tickets"
command = ["tickets", "--api-key", "hidden-in-the-command"]
env = { TICKETS_TOKEN = "hidden-in-the-environment" }
"""


def test_without_settings_all_are_the_defaults(kin, home):
    assert kin("config") == (0, "# Nothing is set: all settings have their defaults.\n", "")
    assert kin("config", "--origin") == (0, "Nothing is set: all settings have their defaults.\n", "")
    assert list(home.iterdir()) == []


def test_what_is_set_is_shown_as_settings_that_could_be_read_again(kin, settings):
    settings('policy = "strict"\ndisabled_tools = ["bash"]\n[tools.grep]\npermission = "always"')
    done = kin("config")
    assert tomllib.loads(done.stdout) == {
        "policy": "strict",
        "disabled_tools": ["bash"],
        "tools": {"grep": {"permission": "always"}},
    }
    assert not done.stdout.endswith("\n\n")


def test_origin_names_the_file_and_line_or_the_variable_in_columns(kin, settings, monkeypatch):
    settings('# mine\npolicy = "strict"\ninstructions = "Be brief."')
    monkeypatch.setenv("KIN_ACTIVE_MODEL", "local")
    first, second, third = kin("config", "--origin").stdout.splitlines()
    assert first.split() == ["active_model", '"local"', "KIN_ACTIVE_MODEL"]
    assert second.split() == ["policy", '"strict"', "~/.kin-code/config.toml:2"]
    assert third.endswith("~/.kin-code/config.toml:3")
    assert first.index("KIN_") == second.index("~/") == third.index("~/")


@pytest.mark.parametrize("words", [["--all"], ["--origin", "--all"]])
def test_all_shows_the_defaults_too(kin, settings, words):
    settings('policy = "strict"')
    lines = [line.split() for line in kin("config", *words).stdout.splitlines()]
    assert ["policy", '"strict"', "~/.kin-code/config.toml:1"] in lines
    assert ["active_model", '"devstral-2"', "default"] in lines
    assert all(line[-1] for line in lines)


def test_an_agents_settings_come_with_their_file(kin, home):
    path = home / ".kin-code" / "agents" / "reviewer.toml"
    path.parent.mkdir(parents=True)
    path.write_text('enabled_tools = ["grep"]\n')
    assert kin("config").stdout.startswith("# Nothing is set")
    (line,) = kin("config", "--agent", "reviewer", "--origin").stdout.splitlines()
    assert line.split() == ["enabled_tools", '["grep"]', "~/.kin-code/agents/reviewer.toml:1"]
    done = kin("config", "--agent", "no-such")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == 'Unknown agent "no-such".\nAgents: reviewer.\n'


@pytest.mark.parametrize("words", [[], ["--origin"], ["--all"]])
def test_secrets_are_shown_nowhere(kin, settings, home, words):
    settings(SECRETS)
    (home / ".kin-code" / ".env").touch(0o600)
    (home / ".kin-code" / ".env").write_text("MISTRAL_API_KEY=hidden-in-the-env-file\n")
    done = kin("config", *words)
    assert done.returncode == 0
    assert "tickets" in done.stdout
    assert "hidden" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "line"),
    [("a = 1\n[[models]\n", 2), ("policy = 'strict'\nmodels = 3\n", 2), ('policy = "lax"\n', 1), ("tools = 7\n", 1)],
)
@each_row("words", [["config"], ["config", "--origin"], ["run", "-p", "x"]])
def test_a_broken_file_is_named_with_its_line(kin, settings, text, line, words):
    path = settings("")
    path.write_text(text)
    done = kin(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{path}:{line}: ")
    assert "Traceback" not in done.stderr


def test_a_key_that_means_nothing_is_a_warning(kin, settings):
    settings("polcy = 1\n")
    done = kin("config")
    assert done.returncode == 0
    assert done.stderr.startswith("warning: ")
    assert "polcy" in done.stderr


# trust


def test_trust_says_what_counts_before_it_does(kin, project, monkeypatch):
    """Seen from the moment of the decision: what was printed until then."""
    printed: list[str] = []
    trust = TrustedFolders.trust

    def trusting(folders: TrustedFolders, path: Path, seen: object = None) -> Path:
        printed.append(sys.stdout.getvalue())
        return trust(folders, path, seen)

    monkeypatch.setattr(TrustedFolders, "trust", trusting)
    done = kin("trust")
    assert done.returncode == 0
    (before,) = printed
    assert before.splitlines() == [
        f"What is read from {project} if you trust it:",
        "  AGENTS.md              instructions to the model",
        "  .kin-code/config.toml  settings: models, tools, MCP servers",
        "  .kin-code/tools        Python files that kin_nb runs",
    ]
    assert done.stdout == f"{before}{project} is now trusted, as it is. To undo this: kin-nb trust --no .\n"


def test_trust_names_the_servers_whose_code_is_not_compared(kin, project):
    settings = project / ".kin-code" / "config.toml"
    settings.write_text('[[mcp_servers]]\nname = "git"\ncommand = "uvx mcp-server-git"\n')
    said = "What these MCP servers run is not compared, their command lines name no file of this folder: git."
    assert said in kin("trust", "--show").stdout.splitlines()
    assert said in kin("trust").stdout.splitlines()
    assert said in kin("trust", "--show").stdout.splitlines()
    settings.write_text(settings.read_text() + "dmail = true\n")
    assert said in kin("trust", "--show").stdout.splitlines()


def test_to_trust_what_is_trusted_already_says_that_nothing_was_changed(kin, project):
    kin("trust")
    before = {path: path.read_bytes() for path in kin_home().rglob("*") if path.is_file()}
    done = kin("trust")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == (
        f"{project} is already trusted as it is; nothing was changed. To undo this: kin-nb trust --no ."
    )
    assert "is now trusted" not in done.stdout
    assert {path: path.read_bytes() for path in kin_home().rglob("*") if path.is_file()} == before


def test_what_is_read_of_a_trusted_folder_is_shown_as_such(kin, project):
    kin("trust")
    assert kin("trust", "--show").stdout.splitlines()[0] == f"{project} is trusted. What is read from it:"


def test_a_code_in_place_of_a_folder_is_explained(kin, project):
    done = kin("trust", "0123abcd")
    assert done.returncode == 1
    assert done.stderr == (
        f"{project / '0123abcd'} cannot be trusted: this folder does not exist.\nCodes are for `%kin trust` in a notebook. "
        "Here: kin-nb trust DIR, which shows the changes and asks.\n"
    )
    assert "Codes" not in kin("trust", "nowhere").stderr


def test_every_kind_of_file_that_trust_is_needed_for_is_explained(kin, workspace):
    for name in PROJECT_FILES:
        (workspace / name).mkdir(parents=True)
    listed = [line.split(maxsplit=1) for line in kin("trust").stdout.splitlines() if line.startswith("  ")]
    assert [line[0] for line in listed] == list(PROJECT_FILES)
    assert all(len(line) == 2 for line in listed)


def test_trust_and_its_opposite_decide_whether_the_project_is_read(kin, project):
    assert "nothing was read of its AGENTS.md" in kin("config").stderr
    assert kin("trust", project).returncode == 0
    done = kin("config")
    assert done.stderr == ""
    assert 'instructions = "Speak like the project."' in done.stdout
    done = kin("trust", "--no")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{project} is not trusted. Its settings, tools and instructions are not used.\n"
    assert kin("config") == (0, "# Nothing is set: all settings have their defaults.\n", ""), "and not mentioned again"


def test_what_a_project_brings_later_is_shown_and_asked_about(kin, project, monkeypatch):
    assert kin("trust").returncode == 0
    (project / ".kin-code" / "config.toml").write_text('instructions = "Speak like a stranger."\n')
    (project / ".kin-code" / "tools" / "evil.py").write_text("import os  # \x1b[2K\n")
    done = kin("config")
    assert "instructions" not in done.stdout
    summary = "changed .kin-code/config.toml (instructions); added .kin-code/tools/evil.py"
    assert summary in done.stderr
    shown = kin("trust", "--show")
    assert shown.returncode == 0
    assert "\x1b" not in shown.stdout
    for line in (
        f"{project} has changed since you trusted it: {summary}",
        '-instructions = "Speak like the project."',
        '+instructions = "Speak like a stranger."',
        "+++ now/.kin-code/tools/evil.py",
        "+import os  # \\x1b[2K",
    ):
        assert line in shown.stdout.splitlines()
    assert "instructions" not in kin("config").stdout, "showing decides nothing"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, code in (("", 1), ("n", 1), ("y", 0)):
        monkeypatch.setattr("builtins.input", lambda _, answer=answer: answer)
        done = kin("trust")
        assert (done.returncode, "+import os" in done.stdout) == (code, True)
        assert ("instructions" in kin("config").stdout) is (answer == "y")


def test_what_changes_while_the_person_reads_is_not_trusted(kin, project, monkeypatch):
    kin("trust")
    tool = project / ".kin-code" / "tools" / "shout.py"
    tool.write_text("first = 1\n")

    def read_for_a_while(_: str) -> str:
        tool.write_text("second = 2\n")
        return "y"

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", read_for_a_while)
    assert kin("trust").returncode == 0
    assert "changed .kin-code/tools/shout.py" in kin("config").stderr


def test_a_folder_with_nothing_in_it_may_be_trusted_ahead(kin, workspace, tmp_path):
    done = kin("trust", workspace, cwd=tmp_path)
    assert done.stdout.splitlines()[0] == f"{workspace} holds nothing yet that needs trust."
    assert done.returncode == 0


@pytest.mark.parametrize("folder", ["/", "~", "..", "nowhere", "a.py", "~no-such-user/x"])
def test_what_is_too_broad_or_no_folder_is_refused(kin, home, workspace, folder):
    (home / "AGENTS.md").parent.mkdir(exist_ok=True)
    (home / "AGENTS.md").write_text("Mine.\n")
    done = kin("trust", str(home) if folder == "~" else folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert not (home / ".kin-code" / "trusted_folders.toml").exists()
