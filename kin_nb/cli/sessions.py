"""`kin-nb sessions`: list and show the stored sessions."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from kin_nb.cli.console import DONE, fail, note

if TYPE_CHECKING:
    from kin_nb.core.config import KinConfig
    from kin_nb.core.session.store import SessionStore

_NO_SESSIONS = "No sessions {place}yet. `kin-nb run` starts one, and so does the first %%kin cell of a notebook."


def list_all(arguments: argparse.Namespace) -> int:
    from kin_nb.core.config import ConfigError, KinConfig  # noqa: PLC0415  (each command loads its own)
    from kin_nb.core.documents.report import sessions_report  # noqa: PLC0415
    from kin_nb.core.paths import real_path  # noqa: PLC0415

    workdir = arguments.workdir and real_path(arguments.workdir)
    try:
        found = session_store(KinConfig.load()).list(workdir)
    except ConfigError as error:
        return fail(str(error))
    if not found:
        print(_NO_SESSIONS.format(place=f"in {workdir} " if workdir else ""))
        return DONE
    print(sessions_report(found))
    note(
        "\nShow one: kin-nb sessions show ID. Continue it: kin-nb run --resume ID -p TEXT. "
        "Save it as a notebook: kin-nb save ID FILE."
    )
    return DONE


def show(arguments: argparse.Namespace) -> int:
    from kin_nb.core.config import ConfigError, KinConfig  # noqa: PLC0415
    from kin_nb.core.documents.document import session_document  # noqa: PLC0415
    from kin_nb.core.documents.report import session_report  # noqa: PLC0415
    from kin_nb.core.session.encryption import SessionKeys  # noqa: PLC0415
    from kin_nb.core.session.errors import SessionError  # noqa: PLC0415
    from kin_nb.core.session.store import full_output_of  # noqa: PLC0415

    try:
        config = KinConfig.load()
        keys = SessionKeys(config.session_logging)
        stored = session_store(config).find(arguments.session)
        if arguments.json:
            print(json.dumps(session_document(stored.folder, keys), indent=2))
        elif arguments.output:
            _print_output(full_output_of(stored, arguments.output, keys))
        else:
            print(session_report(stored))
    except (ConfigError, SessionError) as error:
        return fail(str(error))
    return DONE


def _print_output(text: str) -> None:
    """Print unchanged to a file or a pipe, and without control characters to a terminal."""
    from kin_nb.render.text import clean  # noqa: PLC0415

    print((clean(text) if sys.stdout.isatty() else text).removesuffix("\n"))


def session_store(config: KinConfig) -> SessionStore:
    """The folder of sessions that `config` names."""
    from kin_nb.core.session.store import SessionStore  # noqa: PLC0415

    return SessionStore.from_config(config.session_logging)
