"""agents/NAME.toml as a mode."""

from __future__ import annotations

import pytest

from kin_nb.core.config import ConfigError, KinConfig
from kin_nb.core.config.custom_modes import CustomMode, list_modes, load_mode
from kin_nb.core.modes import AgentMode, ModeSafety, Policy
from kin_nb.core.paths import kin_home


def write(name: str, text: str, folder=None):
    folder = folder / ".kin-code" if folder else kin_home()
    path = folder / "agents" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


REVIEW = """\
display_name = "Reviewer"
description = "Says what is wrong"
safety = "safe"
mode = "plan"
enabled_tools = ["grep"]
tool_paths = ["tools"]
workdir = "/"

[[models]]
alias = "local"
temperature = 0.9
"""


def test_a_custom_mode_is_a_base_with_settings(workspace):
    path = write("code_review", REVIEW)
    mode = load_mode("Code-Review", workspace, trusted=False)
    assert mode == CustomMode(
        name="code_review",
        base=AgentMode.PLAN,
        display_name="Reviewer",
        description="Says what is wrong",
        safety=ModeSafety.SAFE,
        overrides={
            "enabled_tools": ["grep"],
            "tool_paths": [str(path.parent / "tools")],
            "models": [{"alias": "local", "temperature": 0.9}],
        },
    )
    by_name, by_mode = KinConfig.load("code_review"), KinConfig.load(**mode.config_overrides)
    assert by_name == by_mode
    assert by_mode.enabled_tools == ["grep"]


def test_a_mode_is_never_shown_safer_than_it_is(subtests, workspace):
    for text, policy, safety in [
        ("", Policy.STRICT, ModeSafety.NEUTRAL),
        ('safety = "destructive"', Policy.STRICT, ModeSafety.DESTRUCTIVE),
        ('mode = "accept-edits"', Policy.AUTO_EDIT, ModeSafety.DESTRUCTIVE),
        ('mode = "auto_approve"\nsafety = "safe"', Policy.YOLO, ModeSafety.YOLO),
        ('mode = "auto_approve"\npolicy = "on-request"', Policy.ON_REQUEST, ModeSafety.NEUTRAL),
        ('safety = "safe"\npolicy = "yolo"', Policy.YOLO, ModeSafety.YOLO),
        ('mode = "plan"\npolicy = "yolo"', Policy.YOLO, ModeSafety.YOLO),
        ('safety = "safe"\npolicy = "auto-edit"', Policy.AUTO_EDIT, ModeSafety.DESTRUCTIVE),
        ('safety = "safe"\n[tools.bash]\npermission = "always"', Policy.STRICT, ModeSafety.NEUTRAL),
        ('safety = "safe"\n[tools.bash]\nallowlist = ["rm"]', Policy.STRICT, ModeSafety.NEUTRAL),
        ('safety = "safe"\n[tools.bash]\npermission = "never"', Policy.STRICT, ModeSafety.SAFE),
    ]:
        with subtests.test(text=text, policy=policy, safety=safety):
            write("m", text)
            mode = load_mode("m", workspace, trusted=False)
            assert (mode.policy(Policy.STRICT), mode.safety) == (policy, safety)
            assert mode.auto_approve == (policy is Policy.YOLO)


def test_a_built_in_name_wins(workspace):
    write("plan", 'policy = "yolo"\n')
    write("accept-edits", 'policy = "yolo"\n')
    assert load_mode("plan", workspace, trusted=True) is AgentMode.PLAN
    assert list_modes(workspace, trusted=True) == list(AgentMode)


def test_a_projects_mode_exists_only_when_it_is_trusted_and_never_in_place_of_the_users(workspace):
    write("shared", 'display_name = "mine"\n')
    write("shared", 'display_name = "theirs"\n', workspace)
    write("only_theirs", "", workspace)
    assert load_mode("shared", workspace, trusted=False).display_name == "mine"
    assert load_mode("shared", workspace, trusted=True).display_name == "mine"
    with pytest.raises(ValueError, match=r"Modes: default, plan, accept-edits, auto-approve, shared\."):
        load_mode("only_theirs", workspace, trusted=False)
    assert load_mode("only_theirs", workspace, trusted=True).display_name == "Only theirs"


def test_a_name_that_is_no_name_finds_no_file(subtests, workspace):
    for name in ["", "../config", "/etc/passwd", "x\0y"]:
        with subtests.test(name=name):
            (kin_home() / "config.toml").write_text("")
            with pytest.raises(ValueError, match="Unknown mode"):
                load_mode(name, workspace, trusted=True)


def test_a_file_that_is_no_mode_is_named_and_hides_no_other(subtests, workspace):
    for text, line, said in [
        ('\nmode = "fast"\n', 2, 'mode = "fast" must be one of: default, plan, accept_edits, auto_approve'),
        ('safety = "very"\n', 1, "safety"),
        ('policy = "auto_edit"\n', 1, "must be one of: strict, on-request, auto-edit, yolo"),
        ("mode = 5\n", 1, "mode"),
        ("description = 5\n", 1, "description must be text"),
        ("\n\noops\n", 3, "not valid TOML"),
    ]:
        with subtests.test(text=text, line=line, said=said):
            path = write("bad", text)
            write("good", "")
            with pytest.raises(ConfigError) as error:
                load_mode("bad", workspace, trusted=False)
            assert str(error.value).startswith(f"{path}:{line}: ")
            assert said in str(error.value)
            heard: list[str] = []
            assert [mode.shown for mode in list_modes(workspace, trusted=False, warn=heard.append)][4:] == ["good"]
            assert heard == [str(error.value)]
