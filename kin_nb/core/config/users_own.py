"""Settings that are the user's alone: no project may set them, however trusted it is."""

from __future__ import annotations

from collections.abc import Iterator

from kin_nb.core.config.layers import FileLayer
from kin_nb.core.config.toml_file import KeyPath

USERS_OWN: tuple[KeyPath, ...] = (
    ("audit",),
    ("session_logging", "encrypt"),
    ("session_logging", "key_file"),
    ("observability",),
    ("tools", "web_fetch", "allow_private"),
    ("tools", "web_fetch", "proxy"),
    ("tools", "web_search", "url"),
    ("tools", "web_search", "api_key_env"),
    ("tools", "web_search", "api_key_header"),
    ("tools", "web_search", "api_key_format"),
)


def drop_users_own(layer: FileLayer) -> list[str]:
    """Take them out of a project's layer; a warning for each. Any other layer stays as it is."""
    return list(_dropped(layer)) if layer.project is not None else []


def _dropped(layer: FileLayer) -> Iterator[str]:
    for path in USERS_OWN:
        if layer.has(path):
            yield f"{layer.place(path)}{'.'.join(path)} is the user's to set, and is ignored here; use config.toml."
            *tables, key = path
            values = layer.values
            for table in tables:
                values = values[table]
            del values[key]
