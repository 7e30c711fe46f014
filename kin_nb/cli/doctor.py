"""`kin-nb doctor`: check the installation and suggest fixes. It changes nothing.

The network is used for one request: to the active model's server, without a key. `--offline` skips it.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from kin_nb.cli import doctor_checks
from kin_nb.cli.console import DONE, FAILED
from kin_nb.cli.doctor_checks import CheckResult

if TYPE_CHECKING:
    import httpx

    from kin_nb.core.config import KinConfig, ProviderConfig

SECONDS = 3.0
"""Timeout of the request to the model server."""
_LARGE = 1_000_000_000
_SERVER_ERRORS = 500
_ORIGIN_HINT = "`kin-nb config --origin` shows where each setting comes from."

Check = Callable[[], Iterable[CheckResult]]


def examine(arguments: argparse.Namespace) -> int:
    """Run all checks and print their results; 1 if one failed."""
    results = []
    for result in _results(offline=arguments.offline):
        results.append(result)
        if not arguments.json:
            print(result.line(), flush=True)
    failed = any(result.status == "fail" for result in results)
    if arguments.json:
        print(json.dumps({"ok": not failed, "findings": [vars(result) for result in results]}, indent=2))
    return FAILED if failed else DONE


def _results(*, offline: bool) -> Iterator[CheckResult]:
    yield from _run("packages", doctor_checks.packages)
    yield from _run("front ends", doctor_checks.front_ends)
    yield from _run("Kin kernel", doctor_checks.kernels)
    yield from _run("programs", doctor_checks.programs)
    yield from _run("home", _home)
    loaded: list[KinConfig] = []
    yield from _run("settings", lambda: _settings(loaded))
    for config in loaded:
        yield from _run("sandbox", lambda: _sandbox(config))  # noqa: B023  (run at once)
        yield from _run("model", lambda: _model(config, offline=offline))  # noqa: B023
        yield from _run("sessions", lambda: _sessions(config))  # noqa: B023


def _run(what: str, check: Check) -> Iterator[CheckResult]:
    """Run one check; a check that raises is reported as failed."""
    try:
        yield from check()
    except Exception as error:  # noqa: BLE001  (the command must work where nothing else does)
        yield CheckResult("fail", what, f"could not be checked ({type(error).__name__})", "Please report this.")


def _home() -> Iterator[CheckResult]:
    from kin_nb.core.paths import kin_home, shown  # noqa: PLC0415  (each command loads its own)

    home = kin_home()
    there = next(folder for folder in (home, *home.absolute().parents) if folder.exists())
    advice = f"Change its owner: chown -R $USER {shown(there)}; or set KIN_HOME to another folder."
    if not there.is_dir():
        yield CheckResult("fail", "home", f"{shown(there)} is not a folder", "Rename it, or set KIN_HOME to a folder.")
    elif not os.access(there, os.W_OK | os.X_OK):
        yield CheckResult("fail", "home", f"{shown(there)} cannot be written", advice)
    elif there != home:
        yield CheckResult("ok", "home", f"{shown(home)} will be created when it is needed")
    else:
        try:
            with tempfile.TemporaryFile(dir=home):
                yield CheckResult("ok", "home", f"{shown(home)} can be written")
        except OSError as error:  # for example a full disk, or a read-only file system
            yield CheckResult("fail", "home", f"{shown(home)} cannot be written: {error.strerror}", advice)


def _settings(loaded: list[KinConfig]) -> Iterator[CheckResult]:
    """Append the configuration to `loaded` if it is valid."""
    from kin_nb.core.config import ConfigError, KinConfig  # noqa: PLC0415
    from kin_nb.core.config.loading import config_path  # noqa: PLC0415
    from kin_nb.core.llm.adapters.dialects import thinking_warnings  # noqa: PLC0415
    from kin_nb.core.paths import shown  # noqa: PLC0415

    try:
        config = KinConfig.load()
    except ConfigError as error:
        yield CheckResult(
            "fail",
            "settings",
            _sentence(str(error)),
            "Correct it, then run this again.",
        )
        return
    for warning in (*config.warnings, *thinking_warnings(config, config.models)):
        yield CheckResult("warn", "settings", _sentence(warning), _ORIGIN_HINT)
    place = config_path()
    how = f"{shown(place)} is valid" if place.is_file() else f"all are the defaults ({shown(place)} does not exist)"
    yield CheckResult("ok", "settings", how)
    loaded.append(config)


def _sandbox(config: KinConfig) -> Iterator[CheckResult]:
    from kin_nb.core.tools.builtins.sandbox import problem  # noqa: PLC0415

    wanted = getattr(config.tools.get("bash"), "sandbox", "off")
    why = problem(config.effective_workdir, network=False)
    if not why:
        yield CheckResult("ok", "sandbox", f"bubblewrap works; the sandbox for commands is {wanted}")
    elif wanted == "off":
        yield CheckResult("info", "sandbox", f"off, and not available here: {why}")
    elif wanted == "auto":
        yield CheckResult("warn", "sandbox", f"{why}, so commands run without a sandbox")
    else:
        yield CheckResult(
            "fail", "sandbox", f"{why}, so no command runs", 'Fix this, or set `sandbox = "auto"` in [tools.bash].'
        )


def _model(config: KinConfig, *, offline: bool) -> Iterator[CheckResult]:
    from kin_nb.core.config.keys import env_path  # noqa: PLC0415
    from kin_nb.core.paths import shown  # noqa: PLC0415

    model = config.get_active_model()  # `load` has checked that the model and its provider exist
    provider = config.get_provider_for_model(model)
    yield CheckResult("ok", "model", f"{model.alias} of {provider.name}")
    variable = provider.api_key_env_var
    if not variable:
        yield CheckResult("ok", "API key", f"{provider.name} needs none")
    elif provider.api_key:
        yield CheckResult("ok", "API key", f"{variable} is set")
    else:
        advice = f"Set it, or write it into {shown(env_path())}. Without a key: `%kin model local` (your own server)."
        yield CheckResult("fail", "API key", f"{variable} is not set", advice)
    yield _server(provider, offline=offline)


def _server(provider: ProviderConfig, *, offline: bool) -> CheckResult:
    """Send one request without a key: any HTTP answer shows that the server runs."""
    import httpx  # noqa: PLC0415  (this check only)

    from kin_nb.core.llm.backend.client import ssl_context  # noqa: PLC0415
    from kin_nb.core.llm.errors import certificates, certificates_problem, reason_of  # noqa: PLC0415
    from kin_nb.core.urls import is_local, shown  # noqa: PLC0415

    what, address, local = "model server", shown(provider.api_base), is_local(provider.api_base)
    if offline:
        return CheckResult("info", what, f"{address} was not checked (--offline)")
    try:
        client = httpx.Client(verify=ssl_context(provider.api_base), trust_env=not local, timeout=SECONDS)
    except (
        ImportError,
        ValueError,
        httpx.InvalidURL,
    ):  # the proxy's address may contain a password, so it is not shown
        advice = "Correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY."
        return CheckResult("fail", what, "the proxy set in the environment cannot be used", advice)
    except OSError as error:
        return CheckResult("fail", what, certificates_problem(error), f"Correct {certificates()[0]}, or unset it.")
    answers: list[int | str | BaseException] = []
    # A name lookup has no timeout, and an answer may come byte by byte: so this thread is not waited for.
    asking = Thread(target=_ask, args=(client, f"{provider.api_base.rstrip('/')}/models", answers), daemon=True)
    asking.start()
    asking.join(SECONDS)
    answer = answers[0] if answers else f"no answer within {SECONDS:g} s"
    if isinstance(answer, int) and answer < _SERVER_ERRORS:
        return CheckResult("ok", what, f"{address} answers")
    if isinstance(answer, int):
        return CheckResult("warn", what, f"{address} answers with error {answer}", "It may be starting: try again.")
    advice = "Start it" if local else "Check the network, the proxy and `api_base` of the provider"
    if isinstance(answer, BaseException):
        answer = reason_of(answer)
        if certificates()[0]:
            advice = f"Check the certificates in {'='.join(certificates())}"
    return CheckResult("fail", what, f"{address}: {answer}", f"{advice}, or choose another model: `%kin model`.")


def _ask(client: httpx.Client, url: str, answers: list[int | str | BaseException]) -> None:
    """Append to `answers` the status code, the reason of a failure as text, or the error of an untrusted certificate."""
    import ssl  # noqa: PLC0415  (this check only)

    import httpx  # noqa: PLC0415

    from kin_nb.core.llm.errors import root_cause  # noqa: PLC0415

    try:
        with client, client.stream("GET", url) as reply:
            answers.append(reply.status_code)
    except httpx.TimeoutException:
        pass  # the caller reports the timeout
    except (httpx.InvalidURL, httpx.UnsupportedProtocol):
        answers.append("not a valid address")
    except (httpx.HTTPError, OSError, ValueError) as error:  # its text may contain the password of a proxy
        cause = root_cause(error)
        untrusted = isinstance(cause, ssl.SSLCertVerificationError)
        answers.append(cause if untrusted else f"cannot be reached ({type(error).__name__})")


def _sessions(config: KinConfig) -> Iterator[CheckResult]:
    from kin_nb.core.paths import shown  # noqa: PLC0415
    from kin_nb.core.session.log import LOG_NAME, sessions_root  # noqa: PLC0415

    if not config.session_logging.enabled:
        yield CheckResult("info", "sessions", "not stored (`enabled = false` in [session_logging])")
        return
    root = sessions_root(config.session_logging.save_dir)
    count = size = 0
    for folder, _, names in os.walk(root):
        count += LOG_NAME in names
        for name in names:
            with suppress(OSError):
                size += Path(folder, name).lstat().st_size
    how = f"{count} in {shown(root)}, {size / 1e6:.1f} MB"
    if size > _LARGE:
        yield CheckResult(
            "warn", "sessions", how, "To free space, delete the folders of sessions that you do not need."
        )
    else:
        yield CheckResult("ok", "sessions", how)


def _sentence(text: str) -> str:
    """Join the lines of an error, without its full stop."""
    return " ".join(text.split()).removesuffix(".")
