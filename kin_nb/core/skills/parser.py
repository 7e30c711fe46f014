"""Reading one SKILL.md: YAML between two lines of `---`, then Markdown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kin_nb.core.project_snapshot import MayUse, anything
from kin_nb.core.skills.models import SkillError, SkillInfo
from kin_nb.core.tool_types import ToolError
from kin_nb.core.workspace import read_bytes

LARGEST = 256 * 1024
_LARGEST_FRONTMATTER = 16 * 1024
_PARTS = re.compile(r"---[ \t]*\n(?P<yaml>.*?\n)?---[ \t]*(?:\n(?P<body>.*))?", re.DOTALL)


def read_skill(path: Path, may_use: MayUse = anything) -> tuple[SkillInfo, str]:
    """The skill and its body. Raises SkillError that names the file, and the line where that is known; also when `may_use`
    refuses what was read.
    """
    skill, body, _ = read_parts(path, may_use)
    return skill, body


def read_parts(path: Path, may_use: MayUse = anything) -> tuple[SkillInfo, str, int]:
    """The same, and the line that the body begins on. Raises SkillError likewise."""
    try:
        content = read_bytes(path.resolve(), LARGEST, str(path))
        if not may_use(path, content):
            raise SkillError(
                f"{path} has changed since its folder was trusted, and is not used. See `kin-nb trust --show`."
            )
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SkillError(f"{path}: it is not UTF-8.") from error
    except (ToolError, OSError, RuntimeError) as error:
        raise SkillError(str(error)) from error
    parts = _PARTS.fullmatch(text.replace("\r\n", "\n"))
    if parts is None:
        raise SkillError(f"{path}:1: it does not begin with frontmatter: a line ---, name and description, a line ---.")
    values = _yaml(path, parts["yaml"] or "")
    try:
        skill = SkillInfo.model_validate({**values, "skill_path": path})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise SkillError(f"{path}: {field}: {first['msg']}.") from error
    body = parts["body"] or ""
    before = parts[0][: len(parts[0]) - len(body.lstrip())]
    return skill, body.strip(), before.count("\n") + 1


def _yaml(path: Path, text: str) -> dict[str, Any]:
    """Every scalar stays text: `version: 1.10` is no number, `name: on` no truth. No tag makes an object."""
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415  (only where there are skills)

    if len(text) > _LARGEST_FRONTMATTER:
        raise SkillError(f"{path}: its frontmatter is longer than {_LARGEST_FRONTMATTER:,} characters.")
    try:
        values = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506  (the safest loader: text, lists and mappings only)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 2}" if error.problem_mark else ""
        raise SkillError(f"{path}{line}: its frontmatter is not valid YAML: {error.problem}.") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise SkillError(f"{path}: its frontmatter is not valid YAML.") from error
    if not isinstance(values, dict):
        raise SkillError(f"{path}: its frontmatter is no list of `key: value` lines.")
    return values
