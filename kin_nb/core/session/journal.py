"""SessionJournal: what an agent keeps of its session as a whole: its ids, its log, and what may be written at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kin_nb.core.config import KinConfig
from kin_nb.core.config.secrets import secret_values
from kin_nb.core.records import ClearRecord, CompactRecord, TurnRecord
from kin_nb.core.redaction import Redactor, secrets_redactor
from kin_nb.core.session.log import SessionLog, new_session_id, session_log
from kin_nb.core.session.metadata import config_snapshot, session_surroundings
from kin_nb.core.session.recorder import TurnRecorder

NOTE = "[note: not covered by undo"
_FREE_SPACE = "Free space there, or set KIN_HOME to a folder on another disk."


class SessionStorage:
    """Whether what a session writes is kept: its log, its whole outputs, the snapshots of files that undo needs.

    Each of them reports its failures, which become warnings at once; everything that depends on them asks here. Usable
    from any thread.
    """

    def __init__(self, log: Callable[[], SessionLog], warn: Callable[[str], None]) -> None:
        self._log, self._warn = log, warn
        self._history_failed = False
        self.unkept = ""
        """Why the last snapshot of the files was not kept, "" when it was."""

    def history_failed(self, why: str) -> None:
        """The file history could not be written or read. `why`: the StoreError's text."""
        self._history_failed = True
        self._warn(f"{why[:1].upper()}{why[1:]}: undo cannot restore what calls change now.\n{_FREE_SPACE}")

    @property
    def log_failure(self) -> str:
        """Why what happens now is not in the log, "" when it is."""
        return self._log().failure

    @property
    def failed(self) -> bool:
        """Whether anything of the session could not be written since it began or was resumed."""
        log = self._log()
        return self._history_failed or bool(log.failure) or log.lost_output

    @property
    def without_undo(self) -> str:
        """Why undo cannot restore what a call changes now, in a sentence; "" when it can."""
        if self.unkept:
            return f"undo cannot restore what this changes: {self.unkept}"
        if self.log_failure:
            return f"undo can restore what this changes only until this session is closed: {self.log_failure}"
        return ""

    def note(self, unkept: str) -> str:
        """What the result of a call begins with that undo does not cover; `unkept`: why its snapshot was not kept, or ""."""
        if unkept:
            return f"{NOTE}: {unkept}]"
        return f"{NOTE} once this session is closed: {self.log_failure}]" if self.log_failure else ""


class SessionJournal:
    """`session_id` changes when the conversation is cleared or compacted (seed 000); the log, its folder and the
    notebook keep `root_id`. `warnings` are the log's own and those of `storage`, for whoever tells the person.
    """

    def __init__(self, config: KinConfig, root: Path, session_id: str | None, log: SessionLog | None) -> None:
        self.root_id = self.session_id = session_id or new_session_id()
        self.warnings: list[str] = []
        self.log = log or session_log(self.root_id, config.session_logging, self.warnings.append)
        self.storage = SessionStorage(lambda: self.log, self.warn)
        self.header: dict[str, Any] = {}
        """What the log and the session notebook say about the session as a whole; empty until its first prompt."""
        self._root = root
        self._reported: set[str] = set()
        self._secrets: list[str] = []
        self._redactor = Redactor((), root)
        self._for_model = secrets_redactor(())
        self.learn_secrets(config)

    def warn(self, text: str) -> None:
        """Each text once: what cannot be written fails again and again."""
        text = self.without_secrets(text)
        if text not in self.warnings:
            self.warnings.append(text)

    def unreported(self, texts: Iterable[str]) -> list[str]:
        """Return those of `texts` that were not returned before: each is reported once in a session."""
        new = [text for text in dict.fromkeys(texts) if text not in self._reported]
        self._reported.update(new)
        return new

    def recorder(self, turn: TurnRecord) -> TurnRecorder:
        """Record a turn from now on, in this log and without secrets."""
        return TurnRecorder(self.log, self.redact, turn, self.without_secrets, holds_secret=self.holds_secret)

    def redact(self, text: str) -> str:
        """`text` without secrets and without paths of this machine: what may be recorded and shown."""
        return self._redactor.text(text)

    def without_secrets(self, text: str) -> str:
        """`text` as the model may have it: without secrets, paths as they are."""
        return self._for_model.text(text)

    def holds_secret(self, text: str) -> bool:
        """Whether a secret itself is in `text`: for what must stay verbatim or go as a whole."""
        return self._redactor.is_in_json(text)

    def learn_secrets(self, config: KinConfig) -> bool:
        """A key may have been set since the last turn. Returns whether there are others than before."""
        secrets = secret_values(config)
        if secrets == self._secrets:
            return False
        self._secrets, self._redactor = secrets, Redactor(secrets, self._root)
        self._for_model = secrets_redactor(secrets)
        return True

    def begin(self, header: dict[str, Any], config: KinConfig, system_prompt: str, *, auto_approve: bool) -> None:
        """Write the log's first line, once; later on, check that no other process continued the log.

        Everything that `kin-nb sessions show --json` says comes from the log alone. Raises SessionError; then nothing has
        happened.
        """
        if self.log.begun:
            self.log.check()
            return
        private = {
            **session_surroundings(self._root),
            "auto_approve": auto_approve,
            "system_prompt_text": self.redact(system_prompt),
            "config": config_snapshot(config),
        }
        self.log.append("session", **{**header, **private})
        if self.session_id != self.root_id:
            self._renamed("clear")

    def rename(self, why: str) -> None:
        """Take a new `session_id`, and note it in the log."""
        self.session_id = new_session_id()
        if self.log.begun:
            self._renamed(why)

    def between_turns(self, record: ClearRecord | CompactRecord) -> None:
        """Log what moves the conversation between turns; not before anything was asked, when there is nothing to move."""
        if self.log.begun:
            self.log.append(record.type, record=record.model_dump(mode="json"))

    def _renamed(self, why: str) -> None:
        self.log.append("renamed", session_id=self.session_id, why=why)
