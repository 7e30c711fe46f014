"""A recording: the records of a notebook as values, and the hashes that vouch for them (docs/reference/format.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, field_validator

from kin_nb import __version__
from kin_nb.core.records import Moved, Record, RecordedStep, SessionRecord, TurnRecord, canonical_json, sha256
from kin_nb.core.workspace_commit import LONGEST_BRANCH, is_ref

FORMAT = 2
SESSION_ID = r"^[A-Za-z0-9-]{1,64}$"
_BRANCH = r"^(?![-./])(?!.*(?:\.\.|//|/\.|@\{))[^\x00-\x20~^:?*\[\\\x7f]*$"
"""For other programs: `is_ref` says more."""
_SHA_OR_NONE = r"^([0-9a-f]{64})?$"


class WorkspaceMeta(Record):
    """Where the session worked: `path` relative to the notebook ("" when unknown), `commit` and `branch` of git then.

    `branch` is "" for a detached HEAD, None when unknown.
    """

    path: str = Field(default="", max_length=4096)
    commit: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    branch: Annotated[str, Field(max_length=LONGEST_BRANCH, json_schema_extra={"pattern": _BRANCH})] | None = None

    @field_validator("branch")
    @classmethod
    def _is_branch(cls, branch: str | None) -> str | None:
        if branch and not is_ref(f"refs/heads/{branch}"):
            raise ValueError("it is not the name of a branch")
        return branch

    @classmethod
    def from_place(cls, place: Mapping[str, Any], folder: Path) -> WorkspaceMeta:
        """From a header, or core's `workspace_location`, for a notebook in `folder`. Older logs name no branch."""
        path = os.path.relpath(place["workspace"], folder)
        return cls(path=path, commit=place["commit"], branch=place.get("branch"))


class SessionMeta(Record):
    """What is true of the whole session. Hashes are sha256 hex digests, "" when unknown."""

    format: int = FORMAT
    session: str = Field(pattern=SESSION_ID)
    kin_nb: str = Field(default="", max_length=64)
    model: str = Field(default="", max_length=256)
    workspace: WorkspaceMeta = WorkspaceMeta()
    system_prompt_sha: str = Field(default="", pattern=_SHA_OR_NONE)
    tools_sha: str = Field(default="", pattern=_SHA_OR_NONE)

    @classmethod
    def from_header(cls, header: Mapping[str, Any], folder: Path) -> SessionMeta:
        """From a session's header (`Agent.header`, the log's first line), for a notebook in `folder`.

        Raises LookupError, TypeError or ValueError for what is no such header.
        """
        return cls(
            session=header["session"],
            kin_nb=__version__,
            model=header["model"],
            workspace=WorkspaceMeta.from_place(header, folder),
            system_prompt_sha=header["system_prompt"],
            tools_sha=header["tools"],
        )

    @classmethod
    def without_agent(cls, session: str, place: Mapping[str, Any], folder: Path) -> SessionMeta:
        """Of a session that no model was asked in yet; `place` as in `WorkspaceMeta.of_place`."""
        return cls(session=session, kin_nb=__version__, workspace=WorkspaceMeta.from_place(place, folder))


@dataclass(frozen=True)
class Recording:
    """The records of a notebook, in the order of their `seq`. Equal recordings are equal, wherever they were read from.

    `unknown_records` holds records of types that a later kin_nb wrote, each as canonical JSON: kept, named, never played.
    `saved_shas`: the short hash of each record that was saved, by its id; None: of those that are here. A cell may have been
    deleted since, or pasted. `session_names`: by the id of a record, the name of the session that it is of, if that is not the
    notebook's own. Raises ValueError for two records with one id, or a record without one.
    """

    meta: SessionMeta
    records: tuple[SessionRecord, ...] = ()
    unknown_records: tuple[str, ...] = ()
    saved_shas: Mapping[str, str] | None = None
    session_names: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ids = {record.id for record in self.records}
        if len(ids) < len(self.records) or "" in ids:
            raise ValueError("each record needs an id of its own")

    @property
    def session(self) -> str:
        """The id of the session that the notebook is of."""
        return self.meta.session

    @cached_property
    def turns(self) -> tuple[TurnRecord, ...]:
        return tuple(record for record in self.records if isinstance(record, TurnRecord))

    @cached_property
    def moves(self) -> tuple[Moved, ...]:
        """What moved the conversation between its turns."""
        return tuple(record for record in self.records if not isinstance(record, TurnRecord))

    @cached_property
    def shas(self) -> Mapping[str, str]:
        """By the id of each record, the first SHORT digits of its hash; those of a later version that have no id by that."""
        known = {record.id: record_sha(record)[:SHORT_SHA] for record in self.records}
        return known | {
            unknown_record_id(other): unknown_record_sha(other)[:SHORT_SHA]
            for other in map(json.loads, self.unknown_records)
        }

    @cached_property
    def digest(self) -> str:
        """Of what was saved: deleting a cell, or pasting one, does not change it."""
        return digest_of(self.meta, self.shas if self.saved_shas is None else self.saved_shas)

    @property
    def name(self) -> str:
        """SESSION@DIGEST12, as a `%kin replay` cell writes it."""
        return f"{self.session}@{self.digest[:12]}"

    @property
    def unknown_types(self) -> tuple[str, ...]:
        """The types of the records that this version cannot play, sorted, each once."""
        return tuple(sorted({str(json.loads(text).get("type")) for text in self.unknown_records}))


def fallback_session_id(records: Iterable[SessionRecord]) -> str:
    """An id for the session of records that do not say which it is: always the same for the same records."""
    first = min(records, key=lambda record: (record.seq, record.id))
    return str(UUID(sha256(["session", first.id])[:32]))


def record_label(record: SessionRecord) -> str:
    """What a person calls it: `turn 3`, or what it did."""
    return f"turn {record.turn}" if isinstance(record, TurnRecord) else record.type


SHORT_SHA = 16
"""Hex digits of a hash that are stored where the full hash of the whole is stored too: they only locate a change."""


def digest_of(meta: SessionMeta, shas: Mapping[str, str]) -> str:
    """sha256 over the session's own fields, and the short hashes of its records by their ids. No cell's text goes into it."""
    fields = {**meta.model_dump(exclude_defaults=True), "format": meta.format}
    return sha256({"meta": fields, "records": dict(shas)})


def record_sha(record: SessionRecord) -> str:
    """sha256 of a record, defaults left out, so that a later field keeps old hashes; of a turn with its steps' hashes."""
    if isinstance(record, TurnRecord):
        return turn_sha(record)
    return unknown_record_sha(move_fields(record))


def step_sha(step: RecordedStep) -> str:
    """sha256 of the step with every text in full."""
    return sha256(step.model_dump(exclude_defaults=True))


def turn_sha(turn: TurnRecord) -> str:
    """sha256 of the turn with each step replaced by its hash."""
    fields = turn.model_dump(exclude={"steps"}, exclude_defaults=True)
    return sha256({**fields, "type": turn.type, "steps": [step_sha(step) for step in turn.steps]})


def move_fields(record: Moved) -> dict[str, Any]:
    """Return the stored fields without the hash."""
    fields: dict[str, Any] = json.loads(canonical_json(record.model_dump(exclude_defaults=True)))
    return {**fields, "type": record.type}


def unknown_record_sha(record: dict[str, Any]) -> str:
    """sha256 of a record of any other type, `sha` left out."""
    return sha256(normalize_numbers({key: value for key, value in record.items() if key != "sha"}))


def unknown_record_id(record: dict[str, Any]) -> str:
    """Of a record of a type that this version does not know: its own, or the first digits of its hash."""
    named = record.get("id")
    return named if isinstance(named, str) and named else unknown_record_sha(record)[:SHORT_SHA]


def normalize_numbers(value: Any) -> Any:
    """`value` with 1.0 as 1: front ends written in JavaScript write either."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: normalize_numbers(item) for key, item in value.items()}
    return [normalize_numbers(item) for item in value] if isinstance(value, list) else value
