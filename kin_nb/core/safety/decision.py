"""The values of an approval: what is asked, what the chain answers, what a person answers."""

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
    """How much a call may do, whoever allows it: see `risk_of` (policies.py)."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Verdict(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True)
class Decision:
    """The chain's answer. `reason` is shown and logged, in words a user can act on; `policy` names who answered."""

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
    """What "approve for this session" covers: calls of `tool_name` that `pattern` describes (grants.py writes and reads it).

    `label` is the scope in words, as the button shows it: "commands that start with `pytest`". `may_last`: "always" may be
    offered for it, because a rule of the configuration can say the same. Neither makes it another grant.
    """

    tool_name: str
    pattern: str
    label: str = field(compare=False)
    may_last: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class ToolRequest:
    """A tool call as the chain sees it: paths already resolved, symlinks and all.

    `fingerprint`: of the tool's definition, where a server gives that: what was granted to one is not granted to another.
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
        """The command that it runs, also one that is proven to only read; None when it runs none."""
        command = getattr(self.args, "command", None)
        return command if isinstance(command, str) else None

    @property
    def resolved(self) -> dict[str, Path]:
        """Where each path, as the model wrote it, leads."""
        written = (*self.accesses.reads, *self.accesses.writes)
        return dict(zip(written, (*self.read_paths, *self.write_paths), strict=False))

    @property
    def may_change_anything(self) -> bool:
        """A command that is not proven to only read, and what else does not say what it writes."""
        return self.accesses.everything and not self.accesses.shared

    @property
    def may_lose_content(self) -> bool:
        """It may change anything, or names something that is there as what it writes: undo needs a snapshot of that."""
        return self.may_change_anything or any(map(os.path.lexists, self.write_paths))


@dataclass(frozen=True)
class ApprovalRequest:
    """What a person is asked. `scopes` are the grants on offer, first the one that "for this session" means; may be empty.

    `editable`: the argument that they may edit before they approve, a text; "" when there is none. `writes_outside`:
    of the workspace, by name or by where a link leads. `without_undo`: it is asked, whatever the mode allows, because undo
    cannot restore what the call changes. `ways_to_allow`: what would let the call run where nobody can be asked.
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
    """What the person answered. `message` is the note to the agent; `edited_args` replaces the call's arguments;
    `hunks`, instead, are the parts of the shown diff that are approved, counted from 0: None for all of it.

    `by`: person, headless (nobody could be asked), callback, or recorded. `grant`: which of the request's `scopes` the
    scope is about; "always" holds for a person's word only.
    """

    approved: bool
    message: str | None = None
    scope: Scope = "once"
    edited_args: dict[str, Any] | None = None
    by: str = "person"
    grant: int = 0
    hunks: tuple[int, ...] | None = None
