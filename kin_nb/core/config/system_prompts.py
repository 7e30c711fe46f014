"""The base prompts: what comes with kin_nb, and the person's own (seeds 000 and 003).

The first are in the folder `prompts` next to this file. core.system_prompt puts a whole prompt together.
"""

from __future__ import annotations

import os
import re
from enum import StrEnum
from pathlib import Path

from kin_nb.core.config.errors import ConfigError
from kin_nb.core.paths import kin_home, shown
from kin_nb.core.project_snapshot import MayUse, anything
from kin_nb.core.tool_types import ToolError
from kin_nb.core.workspace import read_bytes

LARGEST = 256 * 1024
"""Bytes of a prompt of the person's own."""
_ID = re.compile(r"[^./\\\x00][^/\\\x00]*")


class SystemPrompt(StrEnum):
    """The base prompts that come with kin_nb. "cli" is another name of the default one."""

    DEFAULT = "default"

    @classmethod
    def _missing_(cls, value: object) -> SystemPrompt | None:
        return cls.DEFAULT if value == "cli" else None

    @property
    def path(self) -> Path:
        return Path(__file__).parent / "prompts" / f"{self.value}.md"

    def read(self) -> str:
        return self.path.read_text(encoding="utf-8").strip()


def load_prompt(prompt_id: str, workdir: Path, *, trusted: bool, may_use: MayUse = anything) -> str:
    """A built-in prompt, else `prompt_id`.md of the project when it is trusted, else of the person.

    Raises ConfigError when there is none of that name, it can't be read, is no text, or `may_use` refuses it.
    """
    try:
        return SystemPrompt(prompt_id).read()
    except ValueError:
        pass
    folders = _folders(workdir, trusted=trusted)
    if _ID.fullmatch(prompt_id):
        for path in (folder / f"{prompt_id}.md" for folder in folders):
            if os.access(path, os.F_OK):  # no error for a name that is too long
                return _read(prompt_id, path, may_use)
    known = {p.value for p in SystemPrompt} | {path.stem for folder in folders for path in folder.glob("*.md")}
    raise ConfigError(
        f'system_prompt_id = "{prompt_id}" names no prompt. Known: {", ".join(sorted(known))}. '
        f"A prompt of your own is a file {shown(kin_home() / 'prompts')}/NAME.md."
    )


def _folders(workdir: Path, *, trusted: bool) -> list[Path]:
    return [*([workdir / ".kin-code" / "prompts"] if trusted else []), kin_home() / "prompts"]


def _read(prompt_id: str, path: Path, may_use: MayUse) -> str:
    try:
        content = read_bytes(path.resolve(), LARGEST, str(path))
        if may_use(path, content):
            return content.decode("utf-8-sig").strip()
        what = f"{path} has changed since its folder was trusted. See `kin-nb trust --show`."
    except UnicodeDecodeError:
        what = f"{path} is not UTF-8."
    except (ToolError, OSError) as error:
        what = str(error)
    raise ConfigError(f'system_prompt_id = "{prompt_id}" cannot be used: {what}')
