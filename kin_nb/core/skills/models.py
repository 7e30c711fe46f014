"""The values of a skill, and the reader of its SKILL.md: YAML between two lines of `---`, then Markdown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kin_nb.core.project_snapshot import MayUse, anything
from kin_nb.core.tool_types import ToolError
from kin_nb.core.workspace import read_bytes


class SkillError(ToolError):
    """A skill cannot be used. The text says which, why, and what to do."""


class SkillMetadata(BaseModel):
    """The frontmatter of a SKILL.md. Unknown keys are allowed. `allowed_tools` is only shown; it approves nothing."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    name: str = Field(max_length=64, pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    description: str = Field(min_length=1, max_length=1024)
    license: str | None = None
    compatibility: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    allowed_tools: list[str] = Field(default_factory=list, alias="allowed-tools")
    type: Literal["standard", "flow"] = "standard"
    """A flow has a diagram, and only the user can start it (seed 001)."""

    @property
    def is_flow(self) -> bool:
        return self.type == "flow"

    @field_validator("description")
    @classmethod
    def _not_blank(cls, description: str) -> str:
        if not description.strip():
            raise ValueError("it is empty")
        return description.strip()

    @field_validator("type", mode="before")
    @classmethod
    def _standard_else(cls, kind: Any) -> Any:
        """Treat the types of other programs as "standard"."""
        return "flow" if kind == "flow" else "standard"

    @field_validator("metadata", mode="before")
    @classmethod
    def _nothing_said(cls, metadata: Any) -> Any:
        return {} if metadata in (None, "") else metadata

    @field_validator("allowed_tools", mode="before")
    @classmethod
    def _one_line_or_a_list(cls, tools: Any) -> Any:
        """Split a text such as `Read, Bash(git add:*)` at spaces and commas outside of parentheses."""
        if tools is None:
            return []
        return re.findall(r"[^\s,(]+(?:\([^)]*\))?", tools) if isinstance(tools, str) else tools


class SkillInfo(SkillMetadata):
    """A skill that was found. `skill_path`: its SKILL.md, absolute."""

    skill_path: Path

    @property
    def skill_dir(self) -> Path:
        return self.skill_path.parent


LARGEST_SKILL = 256 * 1024
_LARGEST_FRONTMATTER = 16 * 1024
_PARTS = re.compile(r"---[ \t]*\n(?P<yaml>.*?\n)?---[ \t]*(?:\n(?P<body>.*))?", re.DOTALL)


def read_skill(path: Path, may_use: MayUse = anything) -> tuple[SkillInfo, str]:
    """Read a skill and its body. Raises SkillError with the file and, if known, the line; also if `may_use` refuses it."""
    skill, body, _ = read_parts(path, may_use)
    return skill, body


def read_parts(path: Path, may_use: MayUse = anything) -> tuple[SkillInfo, str, int]:
    """Read a skill, its body, and the line number where the body begins. Raises SkillError as `read_skill` does."""
    try:
        content = read_bytes(path.resolve(), LARGEST_SKILL, str(path))
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
    """Parse YAML with text as the only scalar type: `version: 1.10` and `name: on` are text. Tags create no objects."""
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
        raise SkillError(f"{path}: its frontmatter must be lines of `key: value`.")
    return values
