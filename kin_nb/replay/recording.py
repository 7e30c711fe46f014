"""A recording: one session's turns and undos as values, and the hashes that vouch for them (docs/session-notebook.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field

from kin_nb import __version__
from kin_nb.core.session.records import Record, RecordedStep, TurnRecord, UndoRecord, canonical_json, sha256
from kin_nb.replay.standing import standing_turns

FORMAT = 1
SESSION_ID = r"^[A-Za-z0-9-]{1,64}$"
_SHA_OR_NONE = r"^([0-9a-f]{64})?$"


class WorkspaceMeta(Record):
    """Where the session worked: `path` relative to the notebook ("" when unknown), `commit` the git commit then."""

    path: str = Field(default="", max_length=4096)
    commit: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")


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
    def of_session(cls, header: Mapping[str, Any], folder: Path) -> SessionMeta:
        """From a session's header (`Agent.header`, the log's first line), for a notebook in `folder`.

        Raises LookupError, TypeError or ValueError for what is no such header.
        """
        return cls(
            session=header["session"],
            kin_nb=__version__,
            model=header["model"],
            workspace=WorkspaceMeta(path=os.path.relpath(header["workspace"], folder), commit=header["commit"]),
            system_prompt_sha=header["system_prompt"],
            tools_sha=header["tools"],
        )


@dataclass(frozen=True)
class Recording:
    """A session's turns in turn order. Equal recordings are equal, wherever they were read from.

    `others` holds records of types that a later kin_nb wrote, each as canonical JSON: kept, named, never played.
    `undos`: every undo and redo, oldest first. Raises ValueError when `session` is not the meta's, when two turns have
    one number, when one goes on from itself or a later one, or when an undo stands where it cannot have been.
    """

    session: str
    turns: tuple[TurnRecord, ...]
    meta: SessionMeta
    others: tuple[str, ...] = ()
    undos: tuple[UndoRecord, ...] = ()

    def __post_init__(self) -> None:
        numbers = [turn.turn for turn in self.turns]
        if self.session != self.meta.session:
            raise ValueError(f"session {self.session} is not the meta's {self.meta.session}")
        if sorted(set(numbers)) != numbers:
            raise ValueError(f"turn numbers must rise: {numbers}")
        if any(turn.origin is not None and turn.origin.turn >= turn.turn for turn in self.turns):
            raise ValueError("a turn goes on from itself, or from a later one")
        places = [undo.at for undo in self.undos]
        if sorted(places) != places or any(not 1 <= at <= len(numbers) for at in places):
            raise ValueError(f"undos come after turn {', '.join(map(str, places))} of {len(numbers)}")

    @cached_property
    def digest(self) -> str:
        """sha256 over format, session, meta and the records' hashes in turn order. No cell's text goes into it."""
        return sha256(
            {
                "meta": {**self.meta.model_dump(exclude_defaults=True), "format": self.meta.format},
                "turns": [turn_sha(turn) for turn in self.turns],
                "others": sorted(
                    [other_sha(json.loads(text)) for text in self.others]
                    + [undo_sha(number, undo) for number, undo in enumerate(self.undos, 1)]
                ),
            }
        )

    @cached_property
    def asked_by(self) -> Mapping[str, Sequence[int]]:
        """A cell's key -> the positions of the turns that such a cell asked, rising."""
        found: dict[str, list[int]] = {}
        for position, turn in enumerate(self.turns):
            found.setdefault(turn.key, []).append(position)
        return found

    @cached_property
    def standing(self) -> frozenset[int]:
        """The positions of the turns that count at its end: those that were not taken back."""
        numbers = {turn.turn for turn in standing_turns(self.turns, self.undos)}
        return frozenset(position for position, turn in enumerate(self.turns) if turn.turn in numbers)

    @property
    def name(self) -> str:
        """SESSION@DIGEST12, as a `%kin replay` cell writes it."""
        return f"{self.session}@{self.digest[:12]}"

    @property
    def other_types(self) -> tuple[str, ...]:
        """The types of the records that this version cannot play, sorted, each once."""
        return tuple(sorted({str(json.loads(text).get("type")) for text in self.others}))


SHORT = 16
"""Hex digits of a step's hash that are stored: they only tell which step was changed, the turn's hash holds it in full."""


def step_sha(step: RecordedStep) -> str:
    """sha256 of the step with every text in full. Defaults are left out, so that a later field keeps old hashes."""
    return sha256(step.model_dump(exclude_defaults=True))


def turn_sha(turn: TurnRecord) -> str:
    """sha256 of the turn with each step replaced by its hash."""
    fields = turn.model_dump(exclude={"steps"}, exclude_defaults=True)
    return sha256({**fields, "type": turn.type, "steps": [step_sha(step) for step in turn.steps]})


def undo_json(number: int, undo: UndoRecord) -> dict[str, Any]:
    """An undo's record as it is stored. `n`: its number in the session, from 1, since two may be equal in all else."""
    fields: dict[str, Any] = json.loads(canonical_json(undo.model_dump(exclude_defaults=True)))
    return {"type": undo.type, "n": number, **fields}


def undo_sha(number: int, undo: UndoRecord) -> str:
    """As of any record that is no turn: versions that know no undos check it too."""
    return other_sha(undo_json(number, undo))


def other_sha(record: dict[str, Any]) -> str:
    """sha256 of a record of any other type, `sha` left out."""
    return sha256(whole_numbers({key: value for key, value in record.items() if key != "sha"}))


def whole_numbers(value: Any) -> Any:
    """`value` with 1.0 as 1: front ends written in JavaScript write either."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: whole_numbers(item) for key, item in value.items()}
    return [whole_numbers(item) for item in value] if isinstance(value, list) else value
