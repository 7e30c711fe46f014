"""The names of files that ask each time, whatever was granted: one table, to be read as a whole.

Three kinds. Secrets ask when they are read or written. So do files that run later and settings that may hold keys. Files that
only tell other programs what to do ask when they are written: reading them harms no one. Names are compared without case,
because file systems may ignore it, and wherever they are in a path. The user's page on this is docs/reference/safety.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePath
from typing import Literal, TypeAlias

Access: TypeAlias = Literal["read", "write", "create"]

_SECRET = "may hold secrets"  # noqa: S105  (a reason, not a secret)
_RUNS_LATER = "runs later, when other programs start"
_EDITOR = "the editor runs tasks from here"
_AGENTS = "coding agents obey it"
AGENTS_SETTINGS = "settings of coding agents: the commands and servers that they start"
_CI = "runs later, on the build server"
_CONTAINER = "commands in it run when the container is built or started"
_HOOKS = "git hooks run later"

# -- asked about when read, written or created ------------------------------------------------------------------------
_FOLDERS = {
    ".git": "git's own folder: its hooks and settings run later",
    ".hg": "Mercurial's own folder: its hooks run later",
    ".husky": _HOOKS,
    ".githooks": _HOOKS,
    ".kin-code": "kin_nb's own settings",
    ".ssh": _SECRET,
    ".gnupg": _SECRET,
    ".aws": _SECRET,
    ".azure": _SECRET,
    ".kube": _SECRET,
    ".password-store": _SECRET,
    ".ipython": _RUNS_LATER,
    ".jupyter": _RUNS_LATER,
    ".vscode": _EDITOR,
    ".idea": _EDITOR,
    ".claude": AGENTS_SETTINGS,
    ".codex": AGENTS_SETTINGS,
    ".cursor": AGENTS_SETTINGS,
    ".gemini": AGENTS_SETTINGS,
}
_FOLDER_PAIRS = {
    (".docker", "config.json"): _SECRET,
    (".config", "autostart"): _RUNS_LATER,
    (".config", "fish"): _RUNS_LATER,
    (".config", "gcloud"): _SECRET,
    (".config", "gh"): _SECRET,
    (".config", "git"): _RUNS_LATER,
    (".config", "systemd"): _RUNS_LATER,
    ("jupyter", "kernels"): _RUNS_LATER,
    ("library", "launchagents"): _RUNS_LATER,
}
_FILES = {
    _SECRET: (
        *(".env*", "*.env", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".pypirc", ".npmrc", ".yarnrc*", ".htpasswd"),
        *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx"),
        *("*.keystore", "credentials", "service-account*.json", ".vault-token", ".git-credentials"),
        *("credentials.json", "credentials.toml", "credentials.y*ml", "secrets.json", "secrets.toml", "secrets.y*ml"),
        *("*kubeconfig*", "*.tfstate", "*.tfstate.*"),
    ),
    _RUNS_LATER: (
        *(".bash*", ".zsh*", ".zlog*", ".profile", ".login", ".logout", ".cshrc", ".tcshrc", ".kshrc", ".mkshrc"),
        *(".xinitrc", ".xprofile", ".xsession*", ".inputrc", ".tmux.conf", ".screenrc", ".vimrc", ".exrc", ".emacs"),
        *("sitecustomize.py", "usercustomize.py", "*.pth", ".pythonrc*", ".pdbrc*", ".gdbinit", ".lldbinit"),
        *("ipython_config.py", "ipython_kernel_config.py", "jupyter_*config.py", "jupyter_*config.json", ".rprofile"),
        *(".gitconfig", ".gitmodules", ".hgrc", ".curlrc", ".wgetrc", "authorized_keys", "crontab"),
    ),
    AGENTS_SETTINGS: (".mcp.json",),
}
_HARMLESS = (
    *(".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub"),
    *("*kubeconfig*.py", "*kubeconfig*.go", "*kubeconfig*.md"),
)

# -- asked about when written or created ------------------------------------------------------------------------------
_WRITTEN_FOLDERS = {
    ".devcontainer": _CONTAINER,
    ".circleci": _CI,
    ".ipynb_checkpoints": "Jupyter puts notebooks back from here",
}
_WRITTEN_FOLDER_PAIRS = {
    (".github", "workflows"): _CI,
    (".github", "actions"): _CI,
    (".github", "copilot-instructions.md"): _AGENTS,
}
_WRITTEN_FILES = {
    _AGENTS: (
        *("agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md", ".cursorrules"),
        *(".windsurfrules", ".clinerules"),
    ),
    _HOOKS: (".pre-commit-config.y*ml", "lefthook.y*ml", ".lefthook.y*ml"),
    "programs that git starts may be named in it": (".gitattributes",),
    "tools and tasks that mise runs": ("mise.toml", "mise.*.toml", ".mise.toml", ".mise.*.toml"),
    _CONTAINER: (".devcontainer.json",),
    _CI: (".gitlab-ci.y*ml", ".travis.y*ml", "azure-pipelines.y*ml", "jenkinsfile"),
}

# -- asked about when created -----------------------------------------------------------------------------------------
_CREATED_FILES = {"pytest runs it before any test": ("conftest.py",)}

SECRET_NAMES = _FILES[_SECRET]
"""Globs of the names, in lower case, of files that hold secrets."""


@lru_cache(maxsize=4096)  # asked several times of each path that a call names
def sensitive_reason(path: PurePath, access: Access = "read") -> str | None:
    """Why this access to a file of this name is sensitive, or None. Looks at the name alone."""
    parts = tuple(part.casefold() for part in path.parts)
    if parts[:1] == ("/",) and parts[1:2] in {("proc",), ("sys",), ("dev",)} and parts[1:3] != ("dev", "shm"):
        return "the system's own files"
    found = _in_table(parts, _FOLDERS, _FOLDER_PAIRS, _FILES)
    if found is None and access != "read":
        found = _in_table(parts, _WRITTEN_FOLDERS, _WRITTEN_FOLDER_PAIRS, _WRITTEN_FILES)
    if found is None and access == "create":
        found = _in_table(parts, {}, {}, _CREATED_FILES)
    return found


def _in_table(
    parts: tuple[str, ...],
    folders: dict[str, str],
    pairs: dict[tuple[str, str], str],
    files: Mapping[str, tuple[str, ...]],
) -> str | None:
    for part in parts:
        if part in folders:
            return folders[part]
    for pair in pairwise(parts):
        if pair in pairs:
            return pairs[pair]
    name = parts[-1] if parts else ""
    if any(fnmatchcase(name, pattern) for pattern in _HARMLESS):
        return None
    for reason, patterns in files.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return reason
    return None
