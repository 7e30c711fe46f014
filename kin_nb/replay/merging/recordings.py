"""Two recordings that went on from one, joined (docs/merging.md): the union of their records by id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kin_nb.core.records import SessionRecord
from kin_nb.replay.book import in_order
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.in_notebook import differing_field
from kin_nb.replay.recording import Recording, SessionMeta, label

How = Literal["same", "a", "b", "fork"]


@dataclass(frozen=True)
class Merged:
    """`how`: both have the same records; only one side went on; or both did. `head`: what the conversation ends with now.

    Of two that are equally late that is A's here, and in a notebook that of the upper cell.
    """

    recording: Recording
    how: How
    head: SessionRecord | None


def merge_recordings(base: Recording, a: Recording, b: Recording) -> Merged:
    """All records of A and B: those that both added to BASE are two branches of the conversation, which goes on from the last.

    A record that one side took out since BASE is out. Raises ReplayError, naming turn and field, where one id has two records.
    """
    _check_agree("A", a, "BASE", base)
    _check_agree("B", b, "BASE", base)
    _check_agree("B", b, "A", a)
    ours, theirs, was = ({record.id for record in each.records} for each in (a, b, base))
    removed = was - (ours & theirs)
    records = in_order(record for record in (*a.records, *b.records) if record.id not in removed)
    new_a, new_b = ours - was - theirs, theirs - was - ours
    how: How = "fork" if new_a and new_b else "a" if new_a else "b" if new_b else "same"
    others = tuple(dict.fromkeys((*a.others, *b.others)))
    beside = {**b.beside, **a.beside}
    head = max((each for each in records if each.id not in beside), key=lambda record: record.seq, default=None)
    return Merged(Recording(_meta(base, a, b), records, others, beside=beside), how, head)


def _check_agree(side: str, ours: Recording, other: str, theirs: Recording) -> None:
    known = {record.id: record for record in theirs.records}
    for record in ours.records:
        before = known.get(record.id, record)
        if _content(before) != _content(record):
            raise ReplayError(
                f"{label(record)} of {side} is not what {other} has under its id: field {differing_field(before, record)} differs "
                "(redacted, saved without results, or edited). Name notebooks that were saved alike."
            )


def _content(record: SessionRecord) -> SessionRecord:
    """Which cell asked is the notebook's business: saving may have given it another text."""
    return record.model_copy(update={"cell_id": None, "key": ""})


def _meta(base: Recording, a: Recording, b: Recording) -> SessionMeta:
    """A's, but for what only B changed."""
    names = [name for name in SessionMeta.model_fields if getattr(a.meta, name) == getattr(base.meta, name)]
    return a.meta.model_copy(update={name: getattr(b.meta, name) for name in names})
