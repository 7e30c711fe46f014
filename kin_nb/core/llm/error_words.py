"""What a server, a connection or httpx says, as words for a person: no key, no trace, one line."""

from __future__ import annotations

import json
import math
import os
import re
import socket
import ssl
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from kin_nb.core.bounded_json import read_json
from kin_nb.core.config import ProviderConfig

LONGEST_ASKED = 1e9  # seconds
_SHORTEST_SECRET = 8  # characters: shorter header values are words like "true"
_HTTP_ERROR = re.compile("[45][0-9]{2}")
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""What Anthropic calls its statuses inside a stream."""


def retry_after_seconds(value: str | None, now: float) -> float | None:
    """Retry-After as seconds from `now`, from a number or an HTTP date (RFC 9110, 10.2.3); None when it is neither.

    At most LONGEST_ASKED, whatever the server says.
    """
    value = (value or "").strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        return min(float(value), LONGEST_ASKED)
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now
    return min(max(0.0, seconds), LONGEST_ASKED)


def certificates() -> tuple[str, str]:
    """(the variable that names the certificates that httpx trusts, the path), both "" when none does."""
    name = next((name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)), "")
    return name, os.environ.get(name, "")


def certificates_problem(error: OSError) -> str:
    """What is wrong with the trusted certificates that the environment names: `error` came when they were loaded."""
    variable, path = certificates()
    why = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror or type(error).__name__
    return f"{variable or 'the default'} names {path or 'certificates'}, which cannot be used ({why})"


def duration(seconds: float) -> str:
    """Rounded up: "30 s", "5 min", "24 h", "3 days"."""
    for size, name, most in ((1, "s", 120), (60, "min", 120), (3600, "h", 48)):
        count = math.ceil(seconds / size)
        if count <= most:
            return f"{count} {name}"
    return f"{math.ceil(seconds / 86_400):,} days"


def clean(text: str, provider: ProviderConfig) -> str:
    """Without keys (whole, so before any cut), control characters and line breaks."""
    for secret in " ".join([provider.api_key or "", *provider.extra_headers.values()]).split():
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "[key]")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def words(body: str) -> str:
    """The server's own message: the known fields of a JSON answer, else its first line unless it is HTML or a trace."""
    try:
        found: Any = read_json(body)
    except ValueError:
        found = body
    while isinstance(found, dict):
        found = next((found[k] for k in ("error", "message", "detail", "msg") if found.get(k)), "")
    if isinstance(found, list):
        found = json.dumps(found)
    line = str(found).strip().partition("\n")[0]
    return "" if line.startswith(("<", "Traceback")) else line


def status_in(error: Any) -> int | None:
    """The HTTP status that an error inside a 200 answer speaks of, None when it names none."""
    if not isinstance(error, dict):
        return None
    for key in ("status", "code", "http_code"):
        if _HTTP_ERROR.fullmatch(code := str(error.get(key))):
            return int(code)
    return _STATUSES.get(str(error.get("type"))) or status_in(error.get("error"))


def root_cause(error: BaseException) -> BaseException:
    """The innermost cause: httpx and anyio wrap the operating system's error four times."""
    while True:
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        elif inner := error.__cause__ or error.__context__:
            error = inner
        else:
            return error


def reason_of(error: BaseException) -> str:
    root = root_cause(error)
    if isinstance(root, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({root.verify_message})"
    if isinstance(root, socket.gaierror):
        return "its name does not resolve"
    if isinstance(root, ConnectionRefusedError):
        return "connection refused"
    if isinstance(root, ConnectionResetError):
        return "the connection was reset"
    if isinstance(root, TimeoutError) or type(error).__name__.endswith("Timeout"):
        return "no connection in time"
    text = str(root) or str(error) or type(error).__name__
    return text.rstrip(".")
