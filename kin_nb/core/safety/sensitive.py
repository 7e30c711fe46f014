"""Which names are sensitive: files that hold secrets, and files that some program executes later."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import PurePath

_RUNS_LATER = "runs later, when other programs start"
_SECRET = "may hold secrets"  # noqa: S105  (a reason, not a secret)

_FOLDERS = {
    ".git": "git's own folder: its hooks and settings run later",
    ".hg": "Mercurial's own folder: its hooks run later",
    ".husky": "git hooks run later",
    ".githooks": "git hooks run later",
    ".kin-code": "kin_nb's own settings",
    ".ssh": _SECRET,
    ".gnupg": _SECRET,
    ".aws": _SECRET,
    ".azure": _SECRET,
    ".kube": _SECRET,
    ".docker": _SECRET,
    ".password-store": _SECRET,
    ".ipython": _RUNS_LATER,
    ".jupyter": _RUNS_LATER,
    ".vscode": "the editor runs tasks from here",
    ".idea": "the editor runs tasks from here",
}
_FOLDER_PAIRS = {
    (".config", "autostart"): _RUNS_LATER,
    (".config", "fish"): _RUNS_LATER,
    (".config", "gcloud"): _SECRET,
    (".config", "gh"): _SECRET,
    (".config", "git"): _RUNS_LATER,
    (".config", "systemd"): _RUNS_LATER,
    ("jupyter", "kernels"): _RUNS_LATER,
    ("library", "launchagents"): _RUNS_LATER,
}
_HARMLESS = (".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub")
_FILES = {
    _SECRET: (
        *(".env*", "*.env", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".pypirc", ".npmrc", ".yarnrc*", ".git-credentials"),
        *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx"),
        *("*.keystore", "credentials", "credentials.*", "secrets.*", "service-account*.json", ".vault-token", ".htpasswd"),
    ),
    _RUNS_LATER: (
        *(".bash*", ".zsh*", ".zlog*", ".profile", ".login", ".logout", ".cshrc", ".tcshrc", ".kshrc", ".mkshrc"),
        *(".xinitrc", ".xprofile", ".xsession*", ".inputrc", ".tmux.conf", ".screenrc", ".vimrc", ".exrc", ".emacs"),
        *("sitecustomize.py", "usercustomize.py", "*.pth", ".pythonrc*", ".pdbrc*", ".gdbinit", ".lldbinit", ".rprofile"),
        *("ipython_config.py", "ipython_kernel_config.py", "jupyter_*config.py", "jupyter_*config.json"),
        *(".gitconfig", ".gitmodules", ".hgrc", ".curlrc", ".wgetrc", "authorized_keys", "crontab"),
    ),
}


def sensitive_reason(path: PurePath) -> str | None:
    """Why this name is sensitive, or None. Looks at the name alone, in any case: file systems may ignore case."""
    parts = tuple(part.casefold() for part in path.parts)
    if parts[:1] == ("/",) and parts[1:2] in {("proc",), ("sys",), ("dev",)}:
        return "the system's own files"
    for part in parts:
        if part in _FOLDERS:
            return _FOLDERS[part]
    for pair in zip(parts, parts[1:], strict=False):
        if pair in _FOLDER_PAIRS:
            return _FOLDER_PAIRS[pair]
    name = parts[-1] if parts else ""
    if any(fnmatchcase(name, pattern) for pattern in _HARMLESS):
        return None
    for reason, patterns in _FILES.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return reason
    return None
