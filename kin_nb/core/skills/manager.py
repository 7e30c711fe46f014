"""SkillManager: find skills, and return their text for the model. Expand `/skill:NAME request` in a prompt."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kin_nb.core.config import KinConfig
from kin_nb.core.config.values import chosen
from kin_nb.core.paths import kin_home, shown
from kin_nb.core.skills.models import SkillError, SkillInfo, read_skill
from kin_nb.core.workspace import error_text

if TYPE_CHECKING:
    from kin_nb.core.skills.flows import Flow


FILE_NAME = "SKILL.md"
MOST_FILES = 50
MOST_CHARACTERS = 36_000
"""Most characters of a skill's body. The tool result may have 40,000; the rest is for the list of the skill's files."""


class SkillManager:
    """The skills and flows that are found when this is created.

    `available`: the skills, sorted by name. If two have the same name, the first of these is used: `skill_paths`, a
    trusted project's, the user's. `flows`: the flows, in the same way; only the user can start one, so the model does not
    see them. `warnings`: one line for each skill that cannot be used, with the reason.
    """

    def __init__(self, config: KinConfig, *, trusted: bool) -> None:
        self.warnings: list[str] = []
        self._may_use = config.is_as_trusted
        found: dict[str, SkillInfo] = {}
        for path in self._files(config, trusted=trusted):
            skill = self._read(path)
            if skill and chosen(skill.name, config.enabled_skills, config.disabled_skills):
                found.setdefault(skill.name, skill)
        self.available = {name: skill for name, skill in sorted(found.items()) if not skill.is_flow}
        self.flows = {name: skill for name, skill in sorted(found.items()) if skill.is_flow}

    def load(self, name: str) -> str:
        """Read the skill's file, and return where its files are, then its body. Raises SkillError, with similar names."""
        if name in self.flows:
            raise SkillError(f"{name} is a flow: only the user can start it, with /flow:{name}.")
        if name not in self.available:
            raise SkillError(f"Unknown skill {name[:64]!r}.{self._nearest(name)}")
        folder, path = self.available[name].skill_dir, self.available[name].skill_path
        _, body = read_skill(path, self._may_use)
        if len(body) > MOST_CHARACTERS:
            body = f"{body[:MOST_CHARACTERS]}\n[… the rest is in {folder / FILE_NAME} …]"
        about = [f"Paths in this skill are relative to {folder}", *_listing(folder)]
        return f'<skill name="{name}">\n' + "\n".join([*about, "", body]) + "\n</skill>"

    def flow(self, name: str) -> Flow:
        """Read the flow's file. Raises SkillError for an unknown name, and FlowError, with the line, for an invalid flow."""
        from kin_nb.core.skills.flows import read_flow  # noqa: PLC0415  (only where there are flows)

        if name in self.available:
            raise SkillError(f"{name} is a skill, not a flow: /skill:{name} loads it.")
        if name not in self.flows:
            near = get_close_matches(name, self.flows, 1)
            known = f"Did you mean {near[0]}?" if near else f"Flows: {', '.join(self.flows) or 'none'}."
            raise SkillError(f"Unknown flow {name[:64]!r}. {known}")
        return read_flow(self.flows[name].skill_path, self._may_use)

    def _nearest(self, name: str) -> str:
        if not self.available:
            return f" There are none. A skill is a folder with a {FILE_NAME} in {shown(kin_home() / 'skills')}."
        near = get_close_matches(name, self.available, 1)
        return f" Did you mean {near[0]}?" if near else f" Skills: {', '.join(self.available)}."

    def _files(self, config: KinConfig, *, trusted: bool) -> Iterator[Path]:
        workdir = config.effective_workdir
        asked_for = [workdir / os.path.expanduser(path) for path in config.skill_paths]  # noqa: PTH111  (never raises)
        of_project = [workdir / place / "skills" for place in (".kin-code", ".agents")] if trusted else []
        for folder in (*asked_for, *of_project, kin_home() / "skills"):
            try:
                found = sorted(path / FILE_NAME for path in folder.iterdir())
            except OSError as error:
                if folder in asked_for or not isinstance(error, FileNotFoundError):
                    self.warnings.append(f"{folder}: {error_text(error)}.")
                continue
            yield from (path for path in found if os.access(path, os.F_OK))

    def _read(self, path: Path) -> SkillInfo | None:
        try:
            skill, _ = read_skill(path, self._may_use)
            if skill.is_flow:
                from kin_nb.core.skills.flows import read_flow  # noqa: PLC0415  (as above)

                read_flow(path, self._may_use)
        except SkillError as error:
            self.warnings.append(str(error))
            return None
        if skill.name != path.parent.name:
            self.warnings.append(f'{path}: name: it says "{skill.name}", and its folder is "{path.parent.name}".')
        return skill


def _listing(folder: Path) -> list[str]:
    files = list(islice(_other_files(folder), MOST_FILES + 1))
    more = [f"  … and more than {MOST_FILES}"] if len(files) > MOST_FILES else []
    return ["Its other files:", *(f"  {path}" for path in files[:MOST_FILES]), *more] if files else []


def _other_files(folder: Path) -> Iterator[str]:
    """Yield the relative paths of the skill's other files, sorted, without hidden ones. Links to folders are not followed."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        for path in (Path(place, name).relative_to(folder) for name in sorted(names) if not name.startswith(".")):
            if path != Path(FILE_NAME):
                yield ascii(str(path))[1:-1] if not str(path).isprintable() else path.as_posix()


_COMMAND = re.compile(r"\s*/skill:(?P<name>\S*)(?P<rest>.*)", re.DOTALL)


def expand_skill(prompt: str, skills: SkillManager) -> str | None:
    """Return the skill's text, followed by the request; None when `prompt` is not `/skill:NAME`. Raises SkillError."""
    command = _COMMAND.fullmatch(prompt)
    if command is None:
        return None
    request = command["rest"].strip() or "Do what this skill describes."
    return f"{skills.load(command['name'])}\n\n{request}"
