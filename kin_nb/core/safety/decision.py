"""The values of an approval: the request, the decision of the chain, the answer of the user."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from kin_nb.core.tool_types import Accesses, Preview

Scope = Literal["once", "session", "always"]


class Risk(StrEnum):
    """How much a call may change, whether allowed or not: see `risk_of` (policies.py)."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Verdict(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True)
class Decision:
    """The chain's answer. `reason` is shown and logged: one line that a user can act on. `policy`: the class name of the policy."""

    verdict: Verdict
    reason: str
    policy: str = ""

    @classmethod
    def allow(cls, reason: str) -> Decision:
        return cls(Verdict.ALLOW, reason)

    @classmethod
    def ask(cls, reason: str) -> Decision:
        return cls(Verdict.ASK, reason)

    @classmethod
    def deny(cls, reason: str) -> Decision:
        return cls(Verdict.DENY, reason)


@dataclass(frozen=True)
class Grant:
    """What "approve for this session" covers: calls of `tool_name` that `pattern` describes (written and read by grants.py).

    `label`: the scope as the button shows it, "tests: pytest in this project"; `label_always`: as the button for "always" shows
    it, where that is another one. `may_last`: a rule of the configuration can express it, so "always" may be offered. `parts`:
    the grants that it consists of, for a line of several commands. `environments`: (name, state) of the project's environments
    when it was offered. `environment`: of these the one that the command names by its path; the grant covers it while its state
    is the same. Grants are equal when tool and pattern are.
    """

    tool_name: str
    pattern: str
    label: str = field(compare=False)
    may_last: bool = field(default=False, compare=False)
    label_always: str = field(default="", compare=False)
    parts: tuple[Grant, ...] = field(default=(), compare=False)
    environments: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    environment: str = field(default="", compare=False)

    @property
    def each(self) -> tuple[Grant, ...]:
        """The grants that it consists of: its parts, or itself."""
        return self.parts or (self,)


@dataclass(frozen=True)
class ToolRequest:
    """A tool call as the chain sees it, with all paths and symbolic links resolved.

    `fingerprint`: of the tool's definition when it comes from a server, so that a grant does not cover a changed definition.
    """

    tool_name: str
    args: BaseModel
    tool_call_id: str
    accesses: Accesses
    read_paths: tuple[Path, ...] = ()
    write_paths: tuple[Path, ...] = ()
    fingerprint: str = ""

    @property
    def command(self) -> str | None:
        """The shell command of the call, read-only or not; None when the call runs none."""
        command = getattr(self.args, "command", None)
        return command if isinstance(command, str) else None

    @property
    def resolved(self) -> dict[str, Path]:
        """Each path as the model wrote it -> the resolved path."""
        written = (*self.accesses.reads, *self.accesses.writes)
        return dict(zip(written, (*self.read_paths, *self.write_paths), strict=False))

    @property
    def may_change_anything(self) -> bool:
        """Whether it does not declare what it writes, such as a command that is not proven read-only."""
        return self.accesses.everything and not self.accesses.shared

    @property
    def may_lose_content(self) -> bool:
        """Whether undo needs a snapshot: the call may change anything, or writes a path that exists."""
        return self.may_change_anything or any(map(os.path.lexists, self.write_paths))


@dataclass(frozen=True)
class ApprovalRequest:
    """The question to the user. `scopes`: the grants on offer, first the one for "for this session"; may be empty.

    `editable`: the text argument that the user may edit before approving, or "". `writes_outside`: it writes outside the workspace,
    by its path or through a link. `without_undo`: it asks in every mode, because undo cannot restore what the call changes.
    `ways_to_allow`: settings that allow the call where no one can approve it.
    """

    tool_name: str
    args: BaseModel
    tool_call_id: str
    reason: str
    preview: Preview
    scopes: tuple[Grant, ...] = ()
    risk: Risk = Risk.HIGH
    editable: str = ""
    writes_outside: bool = False
    without_undo: bool = False
    ways_to_allow: tuple[str, ...] = ()


@dataclass(frozen=True)
class ApprovalDecision:
    """The answer. `message`: a note to the model. `edited_args`: replaces the call's arguments. `hunks`: the approved parts of the
    shown diff, counted from 0; None for the whole diff.

    `by`: person, headless (no one can approve), callback, or recorded. `grant`: the index in the request's `scopes` that `scope`
    refers to. "always" is kept only when `by` is person.
    """

    approved: bool
    message: str | None = None
    scope: Scope = "once"
    edited_args: dict[str, Any] | None = None
    by: str = "person"
    grant: int = 0
    hunks: tuple[int, ...] | None = None
