"""Errors say what happened and what to do, on two lines, and hold no key."""

from __future__ import annotations

import ssl

import httpx
import pytest

from kin_nb.core.config import ModelConfig, ProviderConfig
from kin_nb.core.llm.backend.generic import GenericBackend
from kin_nb.core.llm.errors import (
    AuthenticationError,
    BackendError,
    BackendErrorBuilder,
    ContextTooLongError,
    RateLimitError,
    ServerUnreachableError,
    UnknownModelError,
)
from kin_nb.core.llm.retry import RetryPolicy
from kin_nb.core.messages import LLMMessage, Role
from kin_nb.core.urls import is_local, shown
from tests.model_server import ModelServer

KEY = "sk-0123456789abcdef"


async def failure(url: str, **provider: object) -> BackendError:
    backend = GenericBackend(ProviderConfig(name="acme", api_base=url, **provider), 5.0, retry=RetryPolicy(tries=1))
    async with backend:
        with pytest.raises(BackendError) as caught:
            await backend.complete(
                model=ModelConfig(name="devstrall", provider="acme"),
                messages=[LLMMessage(role=Role.user, content="go")],
                temperature=0.0,
            )
    assert len(str(caught.value).splitlines()) == 2
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return caught.value


CASES = [
    (401, {"message": "Unauthorized"}, AuthenticationError, False),
    (403, "Forbidden", AuthenticationError, False),
    (400, {"error": {"message": "API key not valid. Pass a valid one."}}, AuthenticationError, False),
    (429, {"message": "slow down"}, RateLimitError, True),
    (429, {"error": {"message": "quota", "code": "insufficient_quota"}}, RateLimitError, False),
    (402, {"error": "pay"}, RateLimitError, False),
    (404, {"detail": "Not Found"}, UnknownModelError, False),
    (400, {"message": "Invalid model: devstrall", "type": "invalid_model"}, UnknownModelError, False),
    (
        400,
        {"error": {"code": "context_length_exceeded", "message": "maximum context length is 8"}},
        ContextTooLongError,
        False,
    ),
    (400, {"error": {"type": "exceed_context_size_error", "message": "request exceeds"}}, ContextTooLongError, False),
    (422, {"message": "prompt is too long"}, ContextTooLongError, False),
    (413, "Payload too big", ContextTooLongError, False),
    (400, {"error": {"message": "temperature must be below 2"}}, BackendError, False),
    (422, {"detail": [{"msg": "extra fields"}]}, BackendError, False),
    (301, "", BackendError, False),
    (408, "", BackendError, True),
    (409, "", BackendError, True),
    (425, "", BackendError, True),
    (500, "Internal Server Error", BackendError, True),
    (529, {"error": {"message": "Overloaded"}}, BackendError, True),
]


async def test_each_refusal_has_its_class(subtests, model_server: ModelServer) -> None:
    for status, body, kind, retryable in CASES:
        with subtests.test(status=status, body=body, kind=kind, retryable=retryable):
            model_server.enqueue(status=status, body=body, headers={"x-request-id": "req-1"})
            error = await failure(model_server.url)
            assert type(error) is kind
            assert (error.status, error.retryable, error.request_id) == (status, retryable, "req-1")
            assert (error.provider, error.model) == ("acme", "devstrall")
            assert error.endpoint == f"{model_server.url}/chat/completions"
            assert "%kin model NAME" in error.todo


async def test_a_key_never_shows_even_across_the_cut(
    model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_KEY", KEY)
    for before in (0, 190, 365):
        text = "x" * before + f" {KEY} team-secret-token " + "y" * 900
        model_server.enqueue(status=500, body={"error": {"message": text}})
        error = await failure(
            model_server.url, api_key_env_var="ACME_KEY", extra_headers={"x-token": "Bearer team-secret-token"}
        )
        shown_texts = str(error) + error.body + repr(error)
        assert KEY[:6] not in shown_texts
        assert "team-secret" not in shown_texts
        assert len(error.body) <= 400


@pytest.mark.parametrize("key", ["sk-012345\n6789abc", "sk-schlüssel-012345"])
async def test_a_key_that_no_header_takes_is_an_error_without_the_key(
    model_server: ModelServer, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("ACME_KEY", key)
    error = await failure(model_server.url, api_key_env_var="ACME_KEY")
    assert isinstance(error, AuthenticationError)
    assert "ACME_KEY" in str(error)
    assert key[:8] not in str(error)


async def test_a_missing_key_and_a_wrong_key_read_differently(
    model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_server.enqueue(status=401, body={"message": "no"})
    assert (await failure(model_server.url, api_key_env_var="ACME_KEY")).todo.startswith("Set ACME_KEY, or")
    monkeypatch.setenv("ACME_KEY", KEY)
    model_server.enqueue(status=401, body={"message": "no"})
    assert (await failure(model_server.url, api_key_env_var="ACME_KEY")).todo.startswith("Check ACME_KEY, or")


async def test_a_trace_or_page_is_not_quoted(subtests, model_server: ModelServer) -> None:
    for body in ["Traceback (most recent call last):\n  File x", "<html><h1>502</h1></html>", "\x1b[31m\r\n\t", ""]:
        with subtests.test(body=body):
            model_server.enqueue(status=502, body=body)
            error = await failure(model_server.url)
            assert "Traceback" not in str(error)
            assert "<" not in str(error)
            assert "\x1b" not in str(error)


async def test_an_address_that_leads_nowhere(subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    for url, says in [
        ("http://name.invalid/v1", "Cannot reach acme at http://name.invalid/v1: its name does not resolve."),
        ("127.0.0.1:8080", "Cannot reach acme at"),
        ("http://user:hunter22@name.invalid/v1?key=hunter22", "Cannot reach acme at http://name.invalid/v1:"),
    ]:
        with subtests.test(url=url, says=says), monkeypatch.context() as patch:
            for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
                patch.delenv(name, raising=False)
            error = await failure(url)
            assert isinstance(error, ServerUnreachableError)
            assert error.what.startswith(says)
            assert "hunter22" not in str(error) + error.endpoint


async def test_a_proxy_that_cannot_be_used_is_named_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://user:hunter22@127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    error = await failure("https://name.invalid/v1")
    assert isinstance(error, ServerUnreachableError)
    assert "ALL_PROXY" in str(error)
    assert "hunter22" not in str(error)


def test_the_status_of_an_error_in_a_stream_counts() -> None:
    provider = ProviderConfig(name="acme", api_base="https://acme.example/v1")
    where = {"provider": provider, "endpoint": "https://acme.example/v1/chat/completions", "model": "m"}
    error = BackendErrorBuilder.build_stream_error(**where, error={"message": "slow down", "code": "429"})
    assert isinstance(error, RateLimitError)
    assert str(error).splitlines()[0] == "acme gets too many requests (429) at https://acme.example/v1: slow down."


def test_what_counts_as_this_machine(subtests) -> None:
    for url, local in [
        ("http://localhost:1/v1", True),
        ("http://LOCALHOST./v1", True),
        ("http://127.8.8.8/v1", True),
        ("http://[::1]:80/v1", True),
        ("http://0.0.0.0:80", True),
        ("http://localhost.example.com", False),
        ("http://10.0.0.1", False),
        ("http://[broken", False),
        ("", False),
    ]:
        with subtests.test(url=url, local=local):
            assert is_local(url) is local


def test_an_address_is_shown_without_secrets() -> None:
    assert shown("https://u:p@h:1/v1?k=s#f") == "https://h:1/v1"


@pytest.mark.parametrize("port", ["99999", "-1"])
async def test_a_port_that_is_none_is_reported(port: str) -> None:
    error = await failure(f"http://127.0.0.1:{port}/v1")
    assert f"{port} is not a valid port" in error.what
    assert "Correct api_base" in error.todo


@pytest.mark.parametrize("headers", [{"X-Team": "Jos\u00e9"}, {"X-\u00c4": "a"}])
async def test_a_header_that_is_not_ascii_is_reported_without_its_value(headers: dict[str, str]) -> None:
    error = await failure("http://127.0.0.1:9/v1", extra_headers=headers)
    assert "cannot be sent to acme: it is not ASCII" in error.what
    assert "Jos" not in str(error)
    assert "extra_headers" in error.todo


def test_a_certificate_that_is_not_trusted_names_the_variable_that_says_which_are(
    subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, advice in [
        ("SSL_CERT_FILE", "Check the certificates in SSL_CERT_FILE=/etc/own.pem, or choose another"),
        ("SSL_CERT_DIR", "Check the certificates in SSL_CERT_DIR=/etc/own.pem, or choose another"),
        ("UNRELATED", "Check the network (and any HTTPS_PROXY), or choose another"),
    ]:
        with subtests.test(variable=variable, advice=advice), monkeypatch.context() as patch:
            for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
                patch.delenv(name, raising=False)
            patch.setenv(variable, "/etc/own.pem")
            refused = ssl.SSLCertVerificationError("unable to get local issuer certificate")
            refused.verify_message = "unable to get local issuer certificate"
            error = httpx.ConnectError("failed")
            error.__cause__ = refused
            provider = ProviderConfig(name="acme", api_base="https://acme.example/v1")
            built = BackendErrorBuilder.build_request_error(provider=provider, endpoint="x", model="m", error=error)
            assert "its certificate is not trusted (unable to get local issuer certificate)" in built.what
            assert built.todo.startswith(advice)
            assert not built.retryable
