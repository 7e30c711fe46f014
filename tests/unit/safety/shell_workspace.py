"""The workspace that the tables of shell commands are judged and run in."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
_GIT = {
    "GIT_AUTHOR_DATE": "2024-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2024-01-01T00:00:00Z",
    "GIT_CONFIG_NOSYSTEM": "1",
}


def rows(name: str) -> list[tuple[str, str, str]]:
    """(command, expected, why) of `shell_NAME.jsonl`."""
    lines = (HERE / f"shell_{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [(command, expected, why) for command, expected, why in map(json.loads, lines)]


def environment(home: Path) -> dict[str, str]:
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LC_ALL": "C.UTF-8"}


def make(parent: Path) -> Path:
    """A git repository with two commits and uncommitted changes, beside a home folder, below `parent`."""
    root, home = parent / "ws", parent / "home"
    shutil.copytree(_made_once() / "ws", root)
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("PRIVATE\n")
    (root / "to_home").symlink_to(home)
    os.mkfifo(root / "pipe")
    return root


@cache
def _made_once() -> Path:
    """The repository without what cannot be copied. Each of git's commands costs as much as a copy."""
    parent = Path(tempfile.mkdtemp(prefix="shell-"))
    atexit.register(shutil.rmtree, parent)
    root, home = parent / "ws", parent / "home"
    for folder in (root / "src", root / "tests", root / "odd", root / "search" / "deep", home):
        folder.mkdir(parents=True)
    files = {
        "README.md": "# A title\n\nfoo bar\nTODO: more\n",
        "src/app.py": "def main():\n    return 1\n",
        "src/lib.py": "import os\n\nVALUE = 2\n",
        "tests/test_app.py": "def test_main():\n    assert True\n",
        "package.json": '{"name": "x", "version": "1.0.0"}\n',
        "data.csv": "a,b\n1,2\n3,4\n",
        "search/deep/notes.txt": "needle\n",
        ".gitignore": "*.log\n",
    }
    for name, text in files.items():
        (root / name).write_text(text)
    for command in ("init -q -b main", "add .", "commit -qm first", "tag v1", "branch other"):
        _git(root, home, command)
    (root / "README.md").write_text(files["README.md"] + "changed\n")
    _git(root, home, "commit -qam second")
    (root / "src/app.py").write_text("def main():\n    return 3\n")
    (root / ".env").write_text("SECRET=abc\n")
    (root / "odd" / "-o").write_text("")
    return parent


def _git(root: Path, home: Path, command: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    env = environment(home) | _GIT
    subprocess.run(["git", *who, *command.split()], cwd=root, env=env, check=True, stdout=subprocess.DEVNULL)
