"""`kin-nb sessions`."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from kin_nb.cli.exits import DONE, fail

if TYPE_CHECKING:
    from kin_nb.core.session.store import SessionStore


def list_all(arguments: argparse.Namespace) -> int:
    from kin_nb.core.session.report import sessions_report  # noqa: PLC0415  (each command loads its own)

    print(sessions_report(_store().list(arguments.workdir and arguments.workdir.resolve())))
    return DONE


def show(arguments: argparse.Namespace) -> int:
    from kin_nb.core.session.document import session_document  # noqa: PLC0415
    from kin_nb.core.session.errors import SessionError  # noqa: PLC0415
    from kin_nb.core.session.report import session_report  # noqa: PLC0415

    try:
        stored = _store().find(arguments.session)
        print(json.dumps(session_document(stored.folder), indent=2) if arguments.json else session_report(stored))
    except SessionError as error:
        return fail(str(error))
    return DONE


def _store() -> SessionStore:
    from kin_nb.core.config import KinConfig  # noqa: PLC0415
    from kin_nb.core.session.log import sessions_root  # noqa: PLC0415
    from kin_nb.core.session.store import SessionStore  # noqa: PLC0415

    return SessionStore(sessions_root(KinConfig.load().session_logging.save_dir))
