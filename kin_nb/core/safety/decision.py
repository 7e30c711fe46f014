"""The values of an approval: what is asked, what the chain answers, what a person answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from kin_nb.core.tools.base import Accesses, Preview

Scope = Literal["once", "session", "always"]


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
    """What "approve for this session" covers: calls of `tool_name` whose subject starts with `pattern`.

    `label` is the scope in words, as the button shows it: "commands that start with `pytest`".
    """

    tool_name: str
    pattern: str
    label: str


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


@dataclass(frozen=True)
class ApprovalRequest:
    """What a person is asked. `scopes` are the grants on offer, narrowest first; may be empty."""

    tool_name: str
    args: BaseModel
    tool_call_id: str
    reason: str
    preview: Preview
    scopes: tuple[Grant, ...] = ()


@dataclass(frozen=True)
class ApprovalDecision:
    """What the person answered. `message` is the note to the agent; `edited_args` replaces the call's arguments.

    `by`: person, policy (nobody could be asked), callback, or recorded.
    """

    approved: bool
    message: str | None = None
    scope: Scope = "once"
    edited_args: dict[str, Any] | None = None
    by: str = "person"
