"""A workspace with an environment of its own, and what the safety chain says of command lines there after some approvals."""

from __future__ import annotations

import sys
from pathlib import Path

from kin_nb.core.modes import AgentMode, Policy
from kin_nb.core.safety.decision import Decision, ToolRequest, Verdict
from kin_nb.core.safety.grants import Grants, scopes
from kin_nb.core.safety.policies import SafetyContext, decide
from kin_nb.core.tools.builtins.bash import Bash, BashArgs, BashConfig
from kin_nb.core.workspace import Workspace


def make_environment(folder: Path) -> None:
    """A virtual environment with pytest's files, as far as the safety chain looks at it."""
    python = Path(sys.executable).resolve()
    packages = folder / "lib" / "python3.12" / "site-packages"
    for each in (folder / "bin", packages / "_pytest", packages / "pytest"):
        each.mkdir(parents=True)
        (each / "__init__.py").write_text("")
    (folder / "pyvenv.cfg").write_text(f"home = {python.parent}\nversion = 3.12.1\n")
    (folder / "bin" / "python").symlink_to(python)
    (folder / "bin" / "python3").symlink_to("python")
    for name in ("pytest", "ruff"):
        script = folder / "bin" / name
        script.write_text(f"#!{folder}/bin/python\n")
        script.chmod(0o755)


def make_workspace(root: Path) -> Path:
    """`lnk` leads outside, `dirlnk` to a folder of the workspace; `fake` and `env` only look like environments."""
    outside = root.parent / "outside"
    for folder in (root / "tests", root / "sub", root / ".git", outside):
        folder.mkdir(parents=True)
    (root / "a.py").write_text("x = 1\n")
    (root / ".env").write_text("PASSWORD=x\n")
    (outside / "test_x.py").write_text("")
    (root / "lnk").symlink_to("../outside")
    (root / "dirlnk").symlink_to("sub")
    (root / "Makefile").write_text("test:\n\ttrue\n")
    make_environment(root / ".venv")
    for name, python, home in (("env", "/bin/sh", "/bin"), ("fake", sys.executable, str(Path(sys.executable).parent))):
        (root / name / "bin").mkdir(parents=True)
        (root / name / "bin" / "python").symlink_to(python)
        if name == "env":
            (root / name / "pyvenv.cfg").write_text(f"home = {home}\n")
    for python in (outside / "python3", root / "tools" / "python3"):
        python.parent.mkdir(exist_ok=True)
        python.write_text("#!/bin/sh\n")
        python.chmod(0o755)
    for program in ("pytest", "evil"):
        (root / program).write_text("#!/bin/sh\n")
        (root / program).chmod(0o755)
        (root / "sub" / program).write_text("#!/bin/sh\n")
    (root / "sub" / "pytest.py").write_text("")
    return root


class Session:
    """The tool, the approvals, and the chain's answers."""

    def __init__(self, root: Path, policy: Policy = Policy.ON_REQUEST, allowlist: tuple[str, ...] = ()) -> None:
        self.tool = Bash.from_config(BashConfig(workdir=root, allowlist=list(allowlist)))
        self.workspace, self.policy, self.grants = Workspace(root), policy, Grants()

    def request(self, command: str) -> ToolRequest:
        args = BashArgs(command=command)
        accesses = self.tool.accesses(args)
        reads, writes = (tuple(map(self.workspace.resolve, paths)) for paths in (accesses.reads, accesses.writes))
        return ToolRequest("bash", args, "1", accesses, reads, writes)

    def offered(self, command: str) -> list[str]:
        """The labels of the scopes, without the one for exactly this command."""
        return [grant.label for grant in scopes(self.request(command), self.workspace)][:-1]

    def approve(self, *commands: str) -> None:
        """Each for this session, with the first scope that is offered."""
        for command in commands:
            first = scopes(self.request(command), self.workspace)[0]
            assert first.label != "exactly this command", command
            self.grants.add(first)

    def decide(self, command: str) -> Decision:
        rule = self.tool.check_allowlist_denylist(BashArgs(command=command))
        context = SafetyContext(AgentMode.DEFAULT, self.policy, self.workspace, self.grants, rule)
        return decide(self.request(command), context)

    def runs(self, command: str) -> bool:
        return self.decide(command).verdict is Verdict.ALLOW
