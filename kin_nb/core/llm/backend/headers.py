"""The headers of a request: whose count when several name one."""

from __future__ import annotations

from kin_nb import __version__
from kin_nb.core.config import Backend
from kin_nb.core.llm.errors import Where, unusable_header_error, unusable_key_error

_LISTED = "anthropic-beta"
_WITH_KEY = ("authorization", "x-api-key")


def get_user_agent(backend: Backend) -> str:
    """What we call ourselves (seed 000): the same to every kind of server."""
    del backend
    return f"kin_nb/{__version__}"


def request_headers(adapters: dict[str, str], extra: dict[str, str], where: Where) -> dict[str, str]:
    """Names in lower case. Later ones win: ours, the adapter's, the provider's, the call's; `anthropic-beta` is a list.

    Raises AuthenticationError for a key that no header may hold, BackendError for another such header.
    """
    provider = where["provider"]
    merged = {"user-agent": get_user_agent(provider.backend)}
    for headers in (adapters, provider.extra_headers, extra):
        for name, value in headers.items():
            key = name.lower()
            merged[key] = f"{merged[key]},{value}" if key == _LISTED and key in merged else value
    for name in _WITH_KEY:
        value = merged.get(name, "")
        if not (value.isascii() and value.isprintable()):
            raise unusable_key_error(where)
    for name, value in merged.items():
        if not (name.isascii() and value.isascii()):
            raise unusable_header_error(where, name)
    return merged
