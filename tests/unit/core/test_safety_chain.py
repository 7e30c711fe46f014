"""Who may do what: one table over modes, tools and paths."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from kin_nb.core.modes import AgentMode, Policy
from kin_nb.core.safety.decision import ToolRequest
from kin_nb.core.safety.grants import Grants, scopes
from kin_nb.core.safety.policies import SafetyContext, decide
from kin_nb.core.tool_types import Accesses, ToolPermission
from kin_nb.core.workspace import Workspace


class Command(BaseModel):
    command: str


class Paths(BaseModel):
    path: str


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    (root / ".git" / "hooks").mkdir(parents=True)
    for name in ("a.py", ".env"):
        (root / name).write_text("")
    (tmp_path / "outside.txt").write_text("")
    (root / "link").symlink_to(tmp_path / "outside.txt")
    return root


def call(root: Path, what: str) -> ToolRequest:
    """`read PATH`, `write PATH`, `run COMMAND`, `prove COMMAND` (one that only reads), or `fetch URL`."""
    verb, _, rest = what.partition(" ")
    if verb in {"run", "prove"}:
        accesses = Accesses(everything=True) if verb == "run" else Accesses(reads=(".",))
        return ToolRequest("bash", Command(command=rest), "1", accesses, read_paths=(root,) if verb == "prove" else ())
    if verb == "fetch":
        return ToolRequest("web_fetch", Paths(path=rest), "1", Accesses(network=True))
    resolved = (Workspace(root).resolve(rest),)
    if verb == "read":
        return ToolRequest("read_file", Paths(path=rest), "1", Accesses(reads=(rest,)), read_paths=resolved)
    return ToolRequest("edit_file", Paths(path=rest), "1", Accesses(writes=(rest,)), write_paths=resolved)


def verdict(root: Path, what: str, mode: AgentMode, policy: Policy = Policy.ON_REQUEST, **context) -> str:
    return decide(call(root, what), SafetyContext(mode, mode.policy(policy), Workspace(root), **context)).verdict


def test_what_each_mode_lets_through(subtests, root):
    for what, default, plan, accept_edits, auto_approve in [
        ("read a.py", "allow", "allow", "allow", "allow"),
        ("read .env", "ask", "ask", "ask", "allow"),
        ("read ../outside.txt", "ask", "ask", "ask", "allow"),
        ("read link", "ask", "ask", "ask", "allow"),
        ("read ~/.ssh/id_rsa", "ask", "ask", "ask", "allow"),
        ("write a.py", "ask", "deny", "allow", "allow"),
        ("write new.py", "ask", "deny", "ask", "allow"),
        ("write .git/hooks/pre-commit", "ask", "deny", "ask", "allow"),
        ("write ../outside.txt", "ask", "deny", "ask", "allow"),
        ("write link", "ask", "deny", "ask", "allow"),
        ("run ls", "ask", "deny", "ask", "allow"),
        ("prove ls", "allow", "allow", "allow", "allow"),
    ]:
        with subtests.test(what=what, default=default, plan=plan, accept_edits=accept_edits, auto_approve=auto_approve):
            found = [verdict(root, what, mode) for mode in AgentMode]
            assert found == [default, plan, accept_edits, auto_approve]


LOW, COMMAND, EDIT, CREATE, HIGH, SECRET, NETWORK = (
    *("read a.py", "prove ls", "write a.py", "write new.py", "run make", "read .env", "fetch https://x.example"),
)
ALL = {LOW, COMMAND, EDIT, CREATE, HIGH, SECRET, NETWORK}
RUNS = {
    Policy.STRICT: {LOW},
    Policy.ON_REQUEST: {LOW, COMMAND},
    Policy.AUTO_EDIT: {LOW, COMMAND, EDIT},
    Policy.YOLO: ALL,
}
"""What runs unasked; everything else asks."""


def test_policy_by_mode_by_risk(subtests, root):
    for what in sorted(ALL):
        for policy in list(Policy):
            for mode in list(AgentMode):
                with subtests.test(what=what, policy=policy, mode=mode):
                    found = verdict(root, what, mode, policy)
                    if mode is AgentMode.PLAN and what in {EDIT, CREATE, HIGH}:
                        assert found == "deny"
                    else:
                        named = {AgentMode.ACCEPT_EDITS: Policy.AUTO_EDIT, AgentMode.AUTO_APPROVE: Policy.YOLO}.get(
                            mode, policy
                        )
                        unasked = what in RUNS[named]
                        expected = {"allow"} if unasked else {"ask"}
                        if mode is AgentMode.PLAN and what == NETWORK:
                            expected |= {"deny"}  # the plan guard's own business
                        assert found in expected


def test_strict_asks_for_a_command_that_only_reads_and_says_which_policy_asks(root):
    context = SafetyContext(AgentMode.DEFAULT, Policy.STRICT, Workspace(root))
    decision = decide(call(root, "prove ls"), context)
    assert (decision.verdict, decision.reason) == ("ask", "bash runs a command; policy strict asks first")


def test_what_a_person_said_holds_under_strict_too(root):
    grants = Grants()
    grants.add(scopes(call(root, "prove ls"))[0])
    assert verdict(root, "prove ls", AgentMode.DEFAULT, Policy.STRICT, grants=grants) == "allow"
    assert verdict(root, "run ls", AgentMode.DEFAULT, Policy.STRICT, rule=ToolPermission.ALWAYS) == "allow"


def test_what_the_configuration_forbids_never_runs(subtests, root):
    for mode in list(AgentMode):
        with subtests.test(mode=mode):
            assert verdict(root, "read a.py", mode, rule=ToolPermission.NEVER) == "deny"


def test_what_the_configuration_allows_runs_but_for_sensitive_paths(root):
    assert verdict(root, "run ls", AgentMode.DEFAULT, rule=ToolPermission.ALWAYS) == "allow"
    assert verdict(root, "write .git/hooks/pre-commit", AgentMode.DEFAULT, rule=ToolPermission.ALWAYS) == "ask"
    assert verdict(root, "write a.py", AgentMode.PLAN, rule=ToolPermission.ALWAYS) == "deny"


def test_a_session_grant_covers_its_scope_and_nothing_more(subtests, root):
    for granted, then, covered in [
        ("run python -m unittest -q", "run python -m unittest tests.test_stats", True),
        ("run python -m unittest", "run python -m unittest; rm -rf .", False),
        ("run python -m unittest", "run python -m unittest > out", False),
        ("run python -m unittest", "run python -m http.server", False),
        ("run git status", "run git push", False),
        ("run git status", "prove git status -s", True),
        ("run rm -rf build | cat", "run rm -rf build | cat", True),
        ("run rm -rf build | cat", "run rm -rf / | cat", False),
        ("write a.py", "write a.py", True),
        ("write a.py", "write ./sub/../a.py", True),
        ("write a.py", "write new.py", False),
        ("write a.py", "write .git/hooks/pre-commit", False),
        ("write a.py", "write ../outside.txt", False),
        ("write a.py", "run ls", False),
    ]:
        with subtests.test(granted=granted, then=then, covered=covered):
            grants = Grants()
            grants.add(scopes(call(root, granted))[0])
            assert (verdict(root, then, AgentMode.DEFAULT, grants=grants) == "allow") is covered


def test_every_decision_has_a_reason_and_says_who_decided(root):
    for what in ("read a.py", "run ls", "write .env"):
        decision = decide(call(root, what), SafetyContext(AgentMode.DEFAULT, Policy.ON_REQUEST, Workspace(root)))
        assert decision.reason
        assert decision.policy


def test_no_grant_no_rule_and_no_mode_but_yolo_covers_files_that_others_obey(subtests, root):
    for name in [
        "AGENTS.md",
        ".mcp.json",
        ".claude/settings.json",
        ".github/workflows/ci.yml",
        ".GitAttributes",
        "mise.toml",
    ]:
        with subtests.test(name=name):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("")
            edit = call(root, f"write {name}")
            allowed = {"grants": Grants(list(scopes(edit))), "rule": ToolPermission.ALWAYS}
            assert [verdict(root, f"write {name}", mode, **allowed) for mode in AgentMode] == [
                "ask",
                "deny",
                "ask",
                "allow",
            ]


def test_no_grant_covers_a_command_that_surely_writes_such_a_file(root):
    command = Command(command="echo x > AGENTS.md")
    accesses = Accesses(everything=True, writes=("AGENTS.md",))
    run = ToolRequest("bash", command, "1", accesses, write_paths=(root / "AGENTS.md",))
    grants = Grants(list(scopes(run)))
    found = decide(run, SafetyContext(AgentMode.DEFAULT, Policy.ON_REQUEST, Workspace(root), grants=grants))
    assert (found.verdict, found.reason) == ("ask", "AGENTS.md: coding agents obey it")


def test_reading_what_others_obey_is_free_and_reading_cluster_secrets_is_not(root):
    assert verdict(root, "read AGENTS.md", AgentMode.DEFAULT) == "allow"
    assert verdict(root, "read terraform.tfstate", AgentMode.DEFAULT) == "ask"


def test_in_the_home_folder_and_above_it_no_policy_but_yolo_lets_files_be_touched(subtests, root, monkeypatch):
    for above in [0, 1, 2]:
        for what in ["read a.py", "write a.py", "prove ls"]:
            with subtests.test(above=above, what=what), monkeypatch.context() as patch:
                home = root.joinpath(*["x"] * above)
                home.mkdir(exist_ok=True, parents=True)
                patch.setenv("HOME", str(home))
                denied = "deny" if what.startswith("write") else "ask"
                assert [verdict(root, what, mode) for mode in AgentMode] == ["ask", denied, "ask", "allow"]
                read = call(root, what)
                found = decide(read, SafetyContext(AgentMode.DEFAULT, Policy.ON_REQUEST, Workspace(root)))
                assert found.reason.endswith(
                    "the workspace is your home folder" if not above else "which holds your home folder"
                )


def test_reads_in_the_home_folder_can_be_granted_and_what_touches_no_file_is_free(root, monkeypatch):
    monkeypatch.setenv("HOME", str(root))
    read = call(root, "read a.py")
    assert verdict(root, "read a.py", AgentMode.DEFAULT, grants=Grants([scopes(read)[0]])) == "allow"
    assert verdict(root, "read .env", AgentMode.DEFAULT, grants=Grants([scopes(read)[0]])) == "ask"
    todo = ToolRequest("todo", Paths(path=""), "1", Accesses())
    assert decide(todo, SafetyContext(AgentMode.DEFAULT, Policy.ON_REQUEST, Workspace(root))).verdict == "allow"


def test_a_project_in_the_home_folder_is_an_ordinary_workspace(root, monkeypatch):
    monkeypatch.setenv("HOME", str(root.parent))
    assert verdict(root, "read a.py", AgentMode.DEFAULT) == "allow"
    assert Workspace(root).warning == ""


# While no snapshot for undo can be kept.


def test_without_undo_what_may_lose_content_asks_in_every_mode(subtests, root):
    for mode in [AgentMode.DEFAULT, AgentMode.ACCEPT_EDITS, AgentMode.AUTO_APPROVE]:
        for what, expected in [
            ("run make", "ask"),
            ("write a.py", "ask"),
            ("prove ls", "allow"),
            ("read a.py", "allow"),
        ]:
            with subtests.test(mode=mode, what=what, expected=expected):
                assert verdict(root, what, mode, without_undo="the disk is full") == expected


def test_without_undo_no_rule_and_no_grant_is_enough(root):
    grants = Grants()
    grants.add(scopes(call(root, "run make"))[0])
    context = SafetyContext(
        AgentMode.DEFAULT,
        Policy.YOLO,
        Workspace(root),
        grants=grants,
        rule=ToolPermission.ALWAYS,
        without_undo="the disk is full",
    )
    decision = decide(call(root, "run make"), context)
    assert (decision.verdict, decision.reason) == ("ask", "the disk is full")


def test_without_undo_plan_mode_denies_all_the_same(root):
    assert verdict(root, "run make", AgentMode.PLAN, without_undo="the disk is full") == "deny"
