"""Settings as they may be shown: without keys, headers' values and the like."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kin_nb.core.config.kin_config import KinConfig
from kin_nb.core.config.secrets import secret_values
from kin_nb.core.config.toml_file import KeyPath
from kin_nb.core.redaction import SECRET, Redactor, is_secret_name

_HIDDEN_TABLES = {"extra_headers", "headers", "env"}
_QUERY_VALUE = re.compile(r"([?&][^=&#\s]*=)[^&#\s]+")
_NAMED = re.compile(r"""(["']?)([A-Za-z][\w-]*)([=:])(.+)""", re.DOTALL)
_FLAG = re.compile(r"(--?)([A-Za-z][\w-]*)(=?)(.*)", re.DOTALL)


def masker(config: KinConfig) -> Callable[[KeyPath, Any], Any]:
    """(path, value) -> what may be shown of it."""
    root = Path("/")  # no place: paths stay as they are
    redact = Redactor(secret_values(config), root, root).text

    def text(value: str) -> str:
        return redact(_QUERY_VALUE.sub(rf"\1{SECRET}", value))

    def mask(path: KeyPath, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: mask((*path, key), item) for key, item in value.items()}
        if isinstance(value, list):
            words = _without_flag_values(value) if path[0] == "mcp_servers" else value
            return [mask(path, word) for word in words]
        if not isinstance(value, str) or not value:
            return value
        hidden = len(path) > 3 and path[2] in _HIDDEN_TABLES  # noqa: PLR2004  ((providers, NAME, extra_headers, header))
        if hidden or (path[0] == "tools" and is_secret_name(path[-1])):
            return SECRET
        if path[0] == "mcp_servers":
            value = " ".join(_without_flag_values(value.split(" ")))
        return text(value)

    return mask


def _without_flag_values(words: list[Any]) -> list[Any]:
    """`--token x`, `--token=x`, `TOKEN=x` and `X-Api-Key: x` of a command line keep the name."""
    shown: list[Any] = []
    hide_next = False
    for word in words:
        flag = _FLAG.fullmatch(word) if isinstance(word, str) else None
        secret = flag is not None and is_secret_name(flag[2])
        named = _NAMED.fullmatch(word) if isinstance(word, str) and flag is None else None
        if hide_next and flag is None:
            shown.append(SECRET)
        elif named is not None and (is_secret_name(named[2]) or named[2].lower() == "authorization"):
            shown.append(f"{named[1]}{named[2]}{named[3]}{SECRET}")
        elif flag is not None and secret and flag[3]:
            shown.append(f"{flag[1]}{flag[2]}={SECRET}")
        else:
            shown.append(word)
        header = isinstance(word, str) and word.strip("'\"").endswith(":")
        hide_next = (flag is not None and secret and not flag[3]) or (header and _names_a_secret(word))
    return shown


def _names_a_secret(word: str) -> bool:
    """`'X-Api-Key:` before its value, in a line that was split at blanks."""
    name = word.strip("'\":")
    return is_secret_name(name) or name.lower() == "authorization"
