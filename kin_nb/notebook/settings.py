"""What a session asks of the notebook that it is in: `c.KinMagics` as it is now, and its other sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kin_nb.notebook.queued import Queued
    from kin_nb.notebook.session import KinSession
    from kin_nb.notebook.since_written import SinceWritten


class Settings(Protocol):
    """`rerun`: a Rerun's value. `max_price`: USD that all sessions together may cost."""

    mode: str | None
    model: str | None
    rerun: str
    max_price: float | None
    since_written: SinceWritten
    queued: Queued

    def beside(self, name: str) -> KinSession: ...

    def begin_again(self, session: KinSession) -> None: ...

    def spent_besides(self, session: KinSession) -> float: ...
