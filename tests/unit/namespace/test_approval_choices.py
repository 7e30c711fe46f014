"""The scopes on the buttons of an approval card."""

from __future__ import annotations

from kin_nb.core.safety.decision import ApprovalRequest, ToolRequest
from kin_nb.core.safety.grants import scopes
from kin_nb.core.tool_types import Preview
from kin_nb.core.tools.builtins.bash import Bash, BashArgs, BashConfig
from kin_nb.core.workspace import Workspace
from kin_nb.notebook.approval.widget import choices


def test_a_button_for_always_says_that_it_holds_in_every_project(tmp_path):
    args = BashArgs(command="git add -A && python -m pytest -q 2>&1 | tail")
    tool = Bash.from_config(BashConfig(workdir=tmp_path))
    call = ToolRequest("bash", args, "1", tool.accesses(args))
    request = ApprovalRequest("bash", args, "1", "", Preview("", ""), scopes(call, Workspace(tmp_path)))
    assert [(choice.key, choice.covers) for choice in choices(request)] == [
        ("s", "commands that start with `git add`; tests: pytest in this project"),
        ("s2", "exactly this command"),
        ("a", "commands that start with `git add`; tests: pytest in every project"),
    ]
