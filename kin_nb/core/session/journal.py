"""SessionJournal: the ids, the log and the redaction of one session."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kin_nb.core.config import KinConfig
from kin_nb.core.config.secrets import secret_values
from kin_nb.core.records import ClearRecord, CompactRecord, TurnRecord, sha256
from kin_nb.core.redaction import Redactor, secrets_redactor
from kin_nb.core.session.log import SessionLog, new_session_id, session_log
from kin_nb.core.session.metadata import config_snapshot, session_metadata
from kin_nb.core.session.recorder import TurnRecorder

NOTE = "[note: not covered by undo"
_FREE_SPACE = "Free space there, or set KIN_HOME to a folder on another disk."


class SessionStorage:
    """Write failures of a session: of its log, its full outputs, and the file snapshots that undo needs.

    Each part reports its failures, which become warnings at once. Usable from any thread.
    """

    def __init__(self, log: Callable[[], SessionLog], warn: Callable[[str], None]) -> None:
        self._log, self._warn = log, warn
        self._history_failed = False
        self.unkept = ""
        """Why the last snapshot of the files was not kept, "" when it was."""

    def report_history_failure(self, why: str) -> None:
        """Warn that the file history cannot be written or read. `why`: the StoreError's text."""
        self._history_failed = True
        self._warn(f"{why[:1].upper()}{why[1:]}: undo cannot restore what calls change now.\n{_FREE_SPACE}")

    @property
    def log_failure(self) -> str:
        """Why the log is not written any longer, "" while it is."""
        return self._log().failure

    @property
    def failed(self) -> bool:
        """Whether any write failed since the session started or was resumed."""
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
        """Return the first line of a result whose call undo does not cover. `unkept`: why its snapshot was not kept, or ""."""
        if unkept:
            return f"{NOTE}: {unkept}]"
        return f"{NOTE} once this session is closed: {self.log_failure}]" if self.log_failure else ""


_HOME = re.compile(r"(?<![\w.~/-])~(?![\w.~-])")


class SessionJournal:
    """The session's log and what may be written to it.

    `session_id` changes when the conversation is cleared or compacted; the log, its folder and the notebook keep
    `root_id`. `warnings`: write failures that the user has not seen yet.
    """

    def __init__(self, config: KinConfig, root: Path, session_id: str | None, log: SessionLog | None) -> None:
        self.root_id = self.session_id = session_id or new_session_id()
        self.warnings: list[str] = []
        self.log = log or session_log(self.root_id, config.session_logging, self.warnings.append)
        self.storage = SessionStorage(lambda: self.log, self.warn)
        self.header: dict[str, Any] = {}
        """The session's metadata in the log and in the session notebook; empty until the first prompt."""
        self._root = root
        self._reported: set[str] = set()
        self._secrets: list[str] = []
        self._redactor = Redactor((), root)
        self._for_model = secrets_redactor(())
        self.learn_secrets(config)

    def warn(self, text: str) -> None:
        """Add a warning, unless it is there already: a failed write usually fails again."""
        text = self.without_secrets(text)
        if text not in self.warnings:
            self.warnings.append(text)

    def unreported(self, texts: Iterable[str]) -> list[str]:
        """Return those of `texts` that were not returned before: each is reported once in a session."""
        new = [text for text in dict.fromkeys(texts) if text not in self._reported]
        self._reported.update(new)
        return new

    def recorder(self, turn: TurnRecord) -> TurnRecorder:
        """Start the record of a turn in this log."""
        return TurnRecorder(self.log, self.redact, turn, self.without_secrets, holds_secret=self.holds_secret)

    def redact(self, text: str) -> str:
        """Remove secrets and paths of this machine, for records and display."""
        return self._redactor.text(text)

    def without_secrets(self, text: str) -> str:
        """Remove secrets only, for the model: it needs the paths."""
        return self._for_model.text(text)

    def holds_secret(self, text: str) -> bool:
        """Return whether `text` contains a secret: for data that is either kept verbatim or left out."""
        return self._redactor.is_in_json(text)

    def learn_secrets(self, config: KinConfig) -> bool:
        """Read the secrets of `config` again: a key may have been set since the last turn. Return whether they changed."""
        secrets = secret_values(config)
        if secrets == self._secrets:
            return False
        self._secrets, self._redactor = secrets, Redactor(secrets, self._root)
        self._for_model = secrets_redactor(secrets)
        return True

    def begin(self, header: dict[str, Any], config: KinConfig, system_prompt: str, *, auto_approve: bool) -> None:
        """Write the log's first line, once; later, check that no other process continued the log.

        The line has all metadata that `kin-nb sessions show --json` shows. Raises SessionError; then nothing was written.
        """
        if self.log.has_header:
            self.log.check()
            return
        private = {
            **session_metadata(self._root),
            "auto_approve": auto_approve,
            **self._prompt_fields(system_prompt),
            "config": config_snapshot(config),
        }
        self.log.append("session", **{**header, **private})
        if self.session_id != self.root_id:
            self._renamed("clear")

    def write_system_prompt(self, text: str) -> None:
        """Log another system prompt than that of the log's first line, if that was written."""
        if self.log.has_header:
            self.log.append("system_prompt", **self._prompt_fields(text))

    def stored_system_prompt(self, expand: Callable[[str], str]) -> str:
        """Return the session's system prompt as its model got it; "" when the log does not have it exactly.

        `expand` inserts this machine's paths.
        """
        text, sent = expand(str(self.header.get("system_prompt_text") or "")), self.header.get("system_prompt_sent")
        with_home = _HOME.sub(lambda _: str(Path.home()), text)  # a `~` may be one of the text's own
        return next((each for each in (text, with_home) if sha256(each) == sent), "")

    def _prompt_fields(self, text: str) -> dict[str, str]:
        return {"system_prompt_text": self.redact(text), "system_prompt_sent": sha256(text)}

    def rename(self, why: str) -> None:
        """Set a new `session_id` and log it."""
        self.session_id = new_session_id()
        if self.log.has_header:
            self._renamed(why)

    def append_move(self, record: ClearRecord | CompactRecord) -> None:
        """Log a clear or a compaction between turns. Before the first prompt there is nothing to log."""
        if self.log.has_header:
            self.log.append(record.type, record=record.model_dump(mode="json"))

    def _renamed(self, why: str) -> None:
        self.log.append("renamed", session_id=self.session_id, why=why)
