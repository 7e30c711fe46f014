"""LoopDetector: says when the model goes in circles (seed 004). The thresholds are in loops/loop.py.

A call that is made again and has another result is polling, never a loop. Nor is a test run between edits, whatever it
says: edits are different calls.
"""

from __future__ import annotations

from collections.abc import Iterable

from kin_nb.core.context.loops import wording
from kin_nb.core.context.loops.call import Call
from kin_nb.core.context.loops.chanting import Chanting
from kin_nb.core.context.loops.counting import Counting
from kin_nb.core.context.loops.loop import NEAR, NOTHING_NEW, REPLY, SAME, Escalation, Loop, LoopAction, LoopKind
from kin_nb.core.context.loops.near import alike_by
from kin_nb.core.context.loops.repeats import Repeats
from kin_nb.core.context.loops.similarity import ShingleSimilarity, Similarity

_REMEMBERED = 100
"""Calls whose repetition is recognised, in whatever order."""
_WORDS = 200
"""Characters of a reply; a shorter one ("Now the next file.") may well come again and again."""


class LoopDetector:
    """One conversation's. Bounded: the last calls with their results, a hundred keys, two thousand characters of a reply.

    `similarity` judges near repeats; by default a local measure.
    """

    def __init__(self, similarity: Similarity | None = None) -> None:
        self._same = Repeats(lambda before, now: before.key == now.key, SAME)
        self._near = Repeats(alike_by(similarity or ShingleSimilarity()), NEAR, NEAR)
        self._counting = Counting()
        self._stale, self._said_again = Escalation(NOTHING_NEW), Escalation(REPLY)
        self._text = Chanting()
        self.forget()

    def forget(self) -> None:
        """Nothing was seen yet. After the person spoke, an undo, a D-Mail, a compaction: to repeat may be right then."""
        self._same.forget()
        self._near.forget()
        self._counting.forget()
        self._stale.reset()
        self._said_again.reset()
        self._text.reset()
        self._keys: dict[bytes, str] = {}
        self._old_calls = self._replies = 0
        self._reply = ""

    def forget_results(self, call_ids: Iterable[str]) -> None:
        """The model does not see these any more: to make such a call again brings it something. A run of calls goes on."""
        gone = set(call_ids)
        self._keys = {key: call_id for key, call_id in self._keys.items() if call_id not in gone}

    def go_on(self) -> None:
        """The person was asked, and wants it: asked again after as many more repeats, and no reminder until then."""
        for each in (self._same, self._near, self._stale, self._said_again):
            each.go_on()

    def observe(self, name: str, arguments: str, result: str, *, ok: bool, call_id: str = "") -> Loop | None:
        """After each call, in call order. `arguments`: JSON text; `ok`: it did not fail (a command: it left with 0)."""
        call = Call(name, arguments, result, ok=ok)
        call.counts = self._counting.goes_on(call)
        same, near, stale = self._same.add(call), self._near.add(call), self._nothing_new(call, call_id)
        if same is not None:
            what = wording.same(same.period, same.count, self._same.last[-same.period :])
            return _loop("exact" if same.period == 1 else "cycle", same.count, same.action, what)
        if self._same.lasts:  # spoken of at its own thresholds, not at those of what it is as well
            return None
        if near is not None:
            what = wording.near(near.period, near.count, self._near.last[-near.period :])
            return _loop("near", near.count, near.action, what)
        if stale is not None:
            return _loop("cycle", self._old_calls, stale, wording.nothing_new(self._old_calls, call))
        return None

    def observe_text(self, delta: str) -> Loop | None:
        """While a reply streams, its reasoning too: endless text is stopped."""
        chant = self._text.feed(delta)
        return _loop("text", chant.count, "stop", wording.chant(chant)) if chant else None

    def observe_reply(self, content: str) -> Loop | None:
        """When a reply has ended, be it calls alone: the same long words before every step are a loop too."""
        self._text.reset()
        words = " ".join(content.split())
        if not words:
            return None
        self._replies = self._replies + 1 if words == self._reply else 1
        self._reply = words if len(words) >= _WORDS else ""
        if self._replies == 1:
            self._said_again.reset()
            return None
        action = self._said_again.at(self._replies)
        return _loop("text", self._replies, action, wording.reply(self._replies, content)) if action else None

    def _nothing_new(self, call: Call, call_id: str) -> LoopAction | None:
        """Whether it is time to say that call after call has been made before: cycles too long or uneven for Repeats."""
        known = call.key in self._keys
        self._keys.pop(call.key, None)
        self._keys[call.key] = call_id
        if len(self._keys) > _REMEMBERED:
            del self._keys[next(iter(self._keys))]
        self._old_calls = self._old_calls + 1 if known else 0
        if not known:
            self._stale.reset()
            return None
        return self._stale.at(self._old_calls)


def _loop(kind: LoopKind, count: int, action: LoopAction, what: str) -> Loop:
    return Loop(kind, count, action, wording.message(action, what))
