"""SessionJournal: what an agent keeps of its session as a whole: its ids, its log, and what may be written at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kin_nb.core.config import KinConfig
from kin_nb.core.safety.secrets import Redactor, secret_values, secrets_redactor
from kin_nb.core.session.config_snapshot import config_snapshot
from kin_nb.core.session.log import SessionLog, new_session_id, session_log
from kin_nb.core.session.surroundings import session_surroundings


class SessionJournal:
    """`session_id` changes when the conversation is cleared or compacted (seed 000); the log, its folder and the
    notebook keep `root_id`. `warnings` are the log's own, for whoever tells the person.
    """

    def __init__(self, config: KinConfig, root: Path, session_id: str | None, log: SessionLog | None) -> None:
        self.root_id = self.session_id = session_id or new_session_id()
        self.warnings: list[str] = []
        self.log = log or session_log(self.root_id, config.session_logging, self.warnings.append)
        self._root = root
        self._secrets: list[str] = []
        self._redactor = Redactor((), root)
        self._for_model = secrets_redactor(())
        self.learn_secrets(config)

    def redact(self, text: str) -> str:
        """`text` without secrets and without paths of this machine: what may be recorded and shown."""
        return self._redactor.text(text)

    def without_secrets(self, text: str) -> str:
        """`text` as the model may have it: without secrets, paths as they are."""
        return self._for_model.text(text)

    def holds_secret(self, text: str) -> bool:
        """Whether a secret itself is in `text`: for what must stay verbatim or go as a whole."""
        return self._redactor.has_value(text)

    def learn_secrets(self, config: KinConfig) -> None:
        """A key may have been set since the last turn."""
        secrets = secret_values(config)
        if secrets != self._secrets:
            self._secrets, self._redactor = secrets, Redactor(secrets, self._root)
            self._for_model = secrets_redactor(secrets)

    def begin(
        self, header: Callable[[], dict[str, Any]], config: KinConfig, system_prompt: str, *, auto_approve: bool
    ) -> None:
        """The log's first line, once; later on, a check that nobody else went on with it.

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
        self.log.append("session", **{**header(), **private})
        if self.session_id != self.root_id:
            self._renamed("clear")

    def rename(self, why: str, **facts: Any) -> None:
        """A new `session_id`, in the log with what a resume must know that no turn holds yet."""
        self.session_id = new_session_id()
        if self.log.begun:
            self._renamed(why, **facts)

    def _renamed(self, why: str, **facts: Any) -> None:
        self.log.append("renamed", session_id=self.session_id, why=why, **facts)
