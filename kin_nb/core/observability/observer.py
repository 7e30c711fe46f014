"""The interfaces of observers and of the session that they observe, and rules for names."""

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
        """Process a compaction between turns, which has no event."""

    def close(self) -> None:
        """Write or send everything that is left. This is the last call."""


class Observed(Protocol):
    """The part of a session (an Agent) that observers may use. Read the values each time: id and model may change."""

    @property
    def session_id(self) -> str: ...

    @property
    def config(self) -> KinConfig: ...

    def redact(self, text: str) -> str: ...


def name_or_other(text: str) -> str:
    """Return `text` if it can be a name, else "other": models and servers may send any text as a name."""
    return text if _NAME.fullmatch(text) else OTHER


def setting_path(path: str) -> Path:
    """Resolve the path in a setting: `~` is the home folder, and a relative path is in ~/.kin-code."""
    return kin_home() / Path(path).expanduser()
