"""What an observer is, what it may know of a session, and how it names things."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kin_nb.core.events import BaseEvent
from kin_nb.core.paths import kin_home

if TYPE_CHECKING:
    from kin_nb.core.config import KinConfig
    from kin_nb.core.records import CompactRecord

OTHER = "other"
_NAME = re.compile(r"[A-Za-z0-9_.:/@+-]{1,100}")


class Observer(Protocol):
    def on_event(self, event: BaseEvent) -> None: ...

    def compacted(self, record: CompactRecord) -> None:
        """Take note of a compaction between turns, which no event reports."""

    def close(self) -> None:
        """Hand on what is left: the last call."""


class Observed(Protocol):
    """What observers may know of a session; an Agent is one. Asked anew each time: its id and its model change."""

    @property
    def session_id(self) -> str: ...

    @property
    def config(self) -> KinConfig: ...

    def redact(self, text: str) -> str: ...


def name_or_other(text: str) -> str:
    """`text` where it can be a name: models invent tools, and servers words, of any text."""
    return text if _NAME.fullmatch(text) else OTHER


def setting_path(path: str) -> Path:
    """Where a setting's path leads: `~` is the home folder, what is relative lies in ~/.kin-code."""
    return kin_home() / Path(path).expanduser()
