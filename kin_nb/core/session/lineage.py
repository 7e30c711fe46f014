"""Which record comes after which: ids, parents and the order in which records were made."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence

from kin_nb.core.session.records import END, NEAREST, Place, Ref, TurnRecord, UndoRecord, sha256


def new_id() -> str:
    """For a record that begins now: 16 hex digits."""
    return secrets.token_hex(8)


def derived_id(session: str, kind: str, number: int) -> str:
    """The id of a record that has none: the same for everybody who reads that session."""
    return sha256([session, kind, number])[:16]


def highest_seq(records: Iterable[TurnRecord | UndoRecord]) -> int:
    return max((record.seq for record in records), default=0)


def lineage(ref: Ref | None, turns: Sequence[TurnRecord]) -> tuple[str, ...]:
    """The ids of the NEAREST turns that lead to `ref`, which is in one of `turns`: its own first."""
    if ref is None:
        return ()
    turn = next((each for each in reversed(turns) if each.id == ref.id), None)
    return (ref.id, *(turn.ancestors if turn is not None else ()))[:NEAREST]


def ref_to(place: Place | None, turns: Sequence[TurnRecord]) -> Ref | None:
    """`place`, which is one of `turns`, by the id of its turn. Before a prompt is where that goes on from."""
    turn = next((each for each in reversed(turns) if each.turn == place.turn), None) if place is not None else None
    if place is None or turn is None:
        return None
    return turn.parent if place.step == 0 else Ref(id=turn.id, step=place.step)


def with_ids(turns: Iterable[TurnRecord], session: str = "") -> list[TurnRecord]:
    """`turns` of one session, oldest first: those that were recorded without an id get one, which `session` decides, if named."""
    found: list[TurnRecord] = []
    for each in turns:
        turn = each
        if not turn.id:
            last = Place(turn=found[-1].turn, step=END) if found else None
            parent = None if turn.fresh else ref_to(turn.origin or last, found)
            turn = turn.model_copy(
                update={
                    "id": derived_id(session, turn.type, turn.turn) if session else new_id(),
                    "parent": parent,
                    "seq": highest_seq(found[-1:]) + 1,
                    "ancestors": lineage(parent, found),
                }
            )
        found.append(turn)
    return found
