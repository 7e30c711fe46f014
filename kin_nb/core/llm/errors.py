"""Errors of model servers: one class for each kind of remedy.

`str(error)` is two lines: what happened and where, then what to do. It never contains a key or a stack trace. The first part of the
module turns the answers of servers and the errors of httpx into one line of text.
"""

from __future__ import annotations

import json
import math
import os
import re
import socket
import ssl
import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from kin_nb.core.bounded_json import read_json
from kin_nb.core.config import ProviderConfig
from kin_nb.core.text import first_line
from kin_nb.core.urls import is_local, shown

if TYPE_CHECKING:
    import httpx


MAX_RETRY_AFTER = 1e9  # seconds
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
"""The HTTP status of each error type in an Anthropic stream."""


def retry_after_seconds(value: str | None, now: float) -> float | None:
    """Parse Retry-After, a number or an HTTP date (RFC 9110, 10.2.3), as seconds from `now`; None if it is neither.

    At most MAX_RETRY_AFTER.
    """
    value = (value or "").strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        return min(float(value), MAX_RETRY_AFTER)
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now
    return min(max(0.0, seconds), MAX_RETRY_AFTER)


def certificates() -> tuple[str, str]:
    """Return (variable, path) of the certificates that the environment sets for httpx; both "" if none are set."""
    name = next((name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)), "")
    return name, os.environ.get(name, "")


def certificates_problem(error: OSError) -> str:
    """Describe why the certificates that the environment sets could not be loaded; `error`: the error of loading them."""
    variable, path = certificates()
    why = "it contains no certificate" if isinstance(error, ssl.SSLError) else error.strerror or type(error).__name__
    return f"{variable or 'the default'} names {path or 'certificates'}, which cannot be used ({why})"


def duration(seconds: float) -> str:
    """Format seconds, rounded up: "0.5 s", "30 s", "5 min", "24 h", "3 days"."""
    if 0 < seconds < 1:
        return f"{math.ceil(seconds * 10) / 10:g} s"
    for size, name, most in ((1, "s", 120), (60, "min", 120), (3600, "h", 48)):
        count = math.ceil(seconds / size)
        if count <= most:
            return f"{count} {name}"
    return f"{math.ceil(seconds / 86_400):,} days"


def sanitize(text: str, provider: ProviderConfig) -> str:
    """Remove keys, control characters and line breaks. Call it before the text is shortened: a partial key is not found."""
    for secret in " ".join([provider.api_key or "", *provider.extra_headers.values()]).split():
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "[key]")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def extract_message(body: str) -> str:
    """Return the server's message: known fields of a JSON answer, else the first line, unless it is HTML or a stack trace."""
    try:
        found: Any = read_json(body)
    except ValueError:
        found = body
    while isinstance(found, dict):
        found = next((found[k] for k in ("error", "message", "detail", "msg") if found.get(k)), "")
    if isinstance(found, list):
        found = json.dumps(found)
    line = first_line(str(found))
    return "" if line.startswith(("<", "Traceback")) else line


def status_in(error: Any) -> int | None:
    """Return the HTTP status inside an error object of a 200 answer; None if it has none."""
    if not isinstance(error, dict):
        return None
    for key in ("status", "code", "http_code"):
        if _HTTP_ERROR.fullmatch(code := str(error.get(key))):
            return int(code)
    return _STATUSES.get(str(error.get("type"))) or status_in(error.get("error"))


def root_cause(error: BaseException) -> BaseException:
    """Return the innermost cause: httpx and anyio wrap the error of the operating system four times."""
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


OTHER_MODEL = "choose another model (%kin model NAME, --model NAME)."
BODY_EXCERPT = 400  # characters
_MESSAGE = 200  # characters of the server's message on the first line

_RETRYABLE = frozenset({408, 409, 425, 429})  # and every 5xx
_CONTEXT = re.compile(
    r"context.?(length|window|size|limit)|exceed_context|(prompt|input|context)( is)? too long|maximum context"
    r"|too many tokens|reduce the length"
)
_QUOTA = re.compile(r"insufficient_quota|insufficient balance|credit balance|out of credits|billing_hard_limit")
_KEY = re.compile(r"(invalid|incorrect) api key|api key not valid|invalid_api_key")
_MODEL = re.compile(r"model_not_found|(unknown|invalid|no such)[ _]model|model\b.{0,80}(not found|not exist)")


def is_retryable(status: int) -> bool:
    """Whether a request that was answered with this HTTP status may succeed later."""
    return status in _RETRYABLE or status >= 500  # noqa: PLR2004  (server errors)


class BackendError(Exception):
    """A request to a model server failed.

    `status`: the HTTP status, None without an answer. `body`: at most 400 characters of the answer. `retryable`: the same request
    may succeed later. `retry_after`: the header of the server, unparsed (RFC 9110, 10.2.3).
    """

    def __init__(
        self,
        what: str,
        todo: str,
        *,
        provider: str = "",
        endpoint: str = "",
        model: str = "",
        status: int | None = None,
        request_id: str | None = None,
        body: str = "",
        retryable: bool = False,
        retry_after: str | None = None,
    ) -> None:
        super().__init__(f"{what}\n{todo}")
        self.what, self.todo = what, todo
        self.provider, self.endpoint, self.model = provider, endpoint, model
        self.status, self.request_id, self.body = status, request_id, body
        self.retryable, self.retry_after = retryable, retry_after


class AuthenticationError(BackendError):
    """The key is missing or not accepted (401, 403)."""


class RateLimitError(BackendError):
    """Too many requests (429), or a quota that is used up (402, not retryable)."""


class UnknownModelError(BackendError):
    """The server does not know the model, or has no API at this path (404)."""


class ContextTooLongError(BackendError):
    """The conversation does not fit the context window: compact it."""


class ServerUnreachableError(BackendError):
    """The connection failed, or broke before the answer started."""


class IncompleteReplyError(BackendError):
    """The reply ended without a finish reason. It is not complete, so none of its tool calls may run."""


class RefusedError(BackendError):
    """The model declined to answer, without any text."""


class Where(TypedDict):
    """The request that an error belongs to. `endpoint`: the whole URL. `model`: the name that was sent."""

    provider: ProviderConfig
    endpoint: str
    model: str


class BackendErrorBuilder:
    """Convert errors of httpx and of the server to BackendErrors (seed 000)."""

    @staticmethod
    def build_http_error(
        *, provider: ProviderConfig, endpoint: str, model: str, response: httpx.Response, body: str = ""
    ) -> BackendError:
        """Convert an answer whose status is not 2xx. `body`: its text, or the start of it."""
        return _refusal(
            Where(provider=provider, endpoint=endpoint, model=model),
            status=response.status_code,
            said=extract_message(body) or response.reason_phrase,
            body=body,
            headers=response.headers,
        )

    @staticmethod
    def build_stream_error(*, provider: ProviderConfig, endpoint: str, model: str, error: Any) -> BackendError:
        """Convert an error object inside a 200 answer. Its `code` is taken as the status if it looks like one."""
        where = Where(provider=provider, endpoint=endpoint, model=model)
        body = error if isinstance(error, str) else json.dumps(error)
        return _refusal(
            where, status=status_in(error), said=extract_message(body) or "an error without a message", body=body
        )

    @staticmethod
    def build_request_error(*, provider: ProviderConfig, endpoint: str, model: str, error: Exception) -> BackendError:
        """Convert httpx's error of a request without an answer, or with one that broke off."""
        import httpx  # noqa: PLC0415  (loaded already: `error` is one of its errors)

        where = Where(provider=provider, endpoint=endpoint, model=model)
        if isinstance(error, httpx.ReadTimeout):
            return idle_error(where, error.request.extensions["timeout"]["read"])
        reason = sanitize(reason_of(error), provider)
        todo = f"Check the network (and any HTTPS_PROXY), or {OTHER_MODEL}"
        if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
            todo = f"Correct api_base of provider {provider.name} in config.toml, or {OTHER_MODEL}"
        elif isinstance(error, httpx.LocalProtocolError):
            todo = f"Check the key and extra_headers of provider {provider.name}, or {OTHER_MODEL}"
        elif isinstance(root_cause(error), ssl.SSLCertVerificationError) and certificates()[0]:
            todo = f"Check the certificates in {'='.join(certificates())}, or {OTHER_MODEL}"
        elif is_local(provider.api_base):
            todo = f"Start it, or {OTHER_MODEL}"
        transient = isinstance(error, httpx.NetworkError | httpx.TimeoutException | httpx.RemoteProtocolError)
        return _make(
            ServerUnreachableError,
            f"Cannot reach {_name(provider)} at {shown(provider.api_base)}: {reason}.",
            todo,
            where,
            retryable=transient and not isinstance(root_cause(error), ssl.SSLCertVerificationError),
        )


E = TypeVar("E", bound=BackendError)


def incomplete_error(where: Where, how: str) -> IncompleteReplyError:
    """Make the error of a reply that broke off. `how`: what happened, in a few words, e.g. "the connection closed"."""
    what = f"{_name(where['provider'])}: the reply ended early ({sanitize(how, where['provider'])})."
    todo = f"Ask again, or {OTHER_MODEL}"
    return _make(IncompleteReplyError, what, todo, where, retryable=True)


def refused_error(where: Where) -> RefusedError:
    what = f"{where['model']} declined to answer ({_name(where['provider'])}: because of the content)."
    return _make(RefusedError, what, f"Rephrase the prompt, or {OTHER_MODEL}", where)


def idle_error(where: Where, seconds: float) -> IncompleteReplyError:
    """Make the error of a reply that stopped. Not retryable: after such a wait the user should decide."""
    name = _name(where["provider"])
    what = f"{name}: the reply ended early (nothing came for {seconds:g} s from {shown(where['endpoint'])})."
    todo = f"Ask again, raise api_timeout in config.toml, or {OTHER_MODEL}"
    return _make(IncompleteReplyError, what, todo, where)


def unusable_key_error(where: Where) -> AuthenticationError:
    variable = where["provider"].api_key_env_var
    what = f"The key in {variable} cannot be sent to {where['provider'].name}: it has characters that a header must not contain."
    return _make(AuthenticationError, what, f"Copy the key into {variable} again, or {OTHER_MODEL}", where)


def unusable_header_error(where: Where, header: str) -> BackendError:
    name = where["provider"].name
    what = f"The header {header!a} cannot be sent to {name}: it is not ASCII."
    return _make(BackendError, what, f"Check extra_headers of provider {name}, or {OTHER_MODEL}", where)


def no_api_error(where: Where) -> UnknownModelError:
    what = f"{shown(where['endpoint'])} answered with a web page, so it is not a model server."
    todo = f"Correct api_base of provider {where['provider'].name} in config.toml, or {OTHER_MODEL}"
    return _make(UnknownModelError, what, todo, where)


def proxy_error(where: Where, error: Exception) -> ServerUnreachableError:
    """Make the error of a proxy variable that httpx cannot use. It may contain a password, so it is not shown."""
    why = "SOCKS needs `pip install httpx[socks]`" if isinstance(error, ImportError) else "its address is invalid"
    what = f"Cannot reach {where['provider'].name}: the proxy set in the environment cannot be used ({why})."
    return _make(ServerUnreachableError, what, f"Correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, or {OTHER_MODEL}", where)


def certificates_error(where: Where, error: OSError) -> ServerUnreachableError:
    """Make the error of a file of certificates that cannot be used."""
    what = f"Cannot reach {where['provider'].name}: {certificates_problem(error)}."
    return _make(ServerUnreachableError, what, f"Correct {certificates()[0]}, or unset it, or {OTHER_MODEL}", where)


def _refusal(
    where: Where, *, status: int | None, said: str, body: str, headers: Mapping[str, str] | None = None
) -> BackendError:
    provider, headers = where["provider"], headers or {}
    kind, saw, todo, retryable = _classify(where, status, body.lower())
    said = sanitize(said, provider)[:_MESSAGE].rstrip(".")
    asked = retry_after_seconds(headers.get("retry-after"), time.time()) if retryable else None
    wait = f": the server asks for {duration(asked)}" if asked else ""
    todo = f"Ask again after that time, or {OTHER_MODEL}" if asked else todo
    code = f" ({status}{wait})" if status else ""
    return _make(
        kind,
        f"{saw}{code} at {shown(provider.api_base)}: {said or 'no reason given'}.",
        todo,
        where,
        status=status,
        request_id=headers.get("x-request-id") or headers.get("request-id") or headers.get("mistral-correlation-id"),
        body=sanitize(body, provider)[:BODY_EXCERPT],
        retryable=retryable,
        retry_after=headers.get("retry-after"),
    )


def _classify(where: Where, status: int | None, text: str) -> tuple[type[BackendError], str, str, bool]:
    """Return (class, what happened, what to do, whether to retry). The first rule that matches wins."""
    provider, name = where["provider"], _name(where["provider"])
    if status in {401, 403} or (status in {None, 400} and _KEY.search(text)):
        variable = provider.api_key_env_var or f"api_key_env_var of provider {provider.name} in config.toml"
        verb = f"Check {variable}" if provider.api_key else f"Set {variable}"
        saw = f"{name} refused the key" if provider.api_key else f"{name} needs a key"
        return AuthenticationError, saw, f"{verb}, or {OTHER_MODEL}", False
    if status == 402 or _QUOTA.search(text):  # noqa: PLR2004  (Payment Required)
        todo = f"Check the plan and billing at {provider.name}, or {OTHER_MODEL}"
        return RateLimitError, f"The quota at {name} is used up", todo, False
    if status == 429:  # noqa: PLR2004  (Too Many Requests, RFC 6585)
        todo = f"Wait a moment and ask again, or {OTHER_MODEL}"
        return RateLimitError, f"{name} gets too many requests", todo, True
    if status == 413 or (status in {None, 400, 422, 500} and _CONTEXT.search(text)):  # noqa: PLR2004  (Content Too Large)
        todo = f"Start a new conversation (%kin clear), or {OTHER_MODEL}"
        return ContextTooLongError, f"The conversation no longer fits {where['model']}: {name} refused it", todo, False
    if status == 404 or (status in {None, 400, 422} and _MODEL.search(text)):  # noqa: PLR2004  (Not Found)
        todo = f"Correct [[models]] or api_base in config.toml, or {OTHER_MODEL}"
        return UnknownModelError, f'{name} does not know the model "{where["model"]}"', todo, False
    retryable = status is not None and is_retryable(status)
    todo = f"Ask again in a moment, or {OTHER_MODEL}" if retryable else f"Fix the problem named above, or {OTHER_MODEL}"
    return BackendError, f"{name} answered with an error", todo, retryable


def _make(kind: type[E], what: str, todo: str, where: Where, **more: Any) -> E:
    return kind(
        what,
        todo,
        provider=where["provider"].name,
        endpoint=shown(where["endpoint"]),
        model=where["model"],
        **more,
    )


def _name(provider: ProviderConfig) -> str:
    return "local server" if is_local(provider.api_base) else provider.name
