"""`kin-nb doctor`: what is in place, what is not, and what to do about it. It changes nothing.

The network is used for one request: to the active model's server, without a key. `--offline` leaves it out.
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

from kin_nb.cli import installation
from kin_nb.cli.exits import DONE, FAILED
from kin_nb.cli.finding import Finding

if TYPE_CHECKING:
    import httpx

    from kin_nb.core.config import KinConfig, ProviderConfig

SECONDS = 3.0
"""How long the model's server may take."""
_LARGE = 1_000_000_000
_SERVER_ERRORS = 500
_MENDING = "`kin-nb config --origin` shows what is set where."

Check = Callable[[], Iterable[Finding]]


def examine(arguments: argparse.Namespace) -> int:
    findings = []
    for finding in _findings(offline=arguments.offline):
        findings.append(finding)
        if not arguments.json:
            print(finding.line(), flush=True)
    failed = any(finding.status == "fail" for finding in findings)
    if arguments.json:
        print(json.dumps({"ok": not failed, "findings": [vars(finding) for finding in findings]}, indent=2))
    return FAILED if failed else DONE


def _findings(*, offline: bool) -> Iterator[Finding]:
    yield from _guarded("packages", installation.packages)
    yield from _guarded("front ends", installation.front_ends)
    yield from _guarded("Kin kernel", installation.kernels)
    yield from _guarded("programs", installation.programs)
    yield from _guarded("home", _home)
    loaded: list[KinConfig] = []
    yield from _guarded("settings", lambda: _settings(loaded))
    for config in loaded:
        yield from _guarded("sandbox", lambda: _sandbox(config))  # noqa: B023  (run at once)
        yield from _guarded("model", lambda: _model(config, offline=offline))  # noqa: B023
        yield from _guarded("sessions", lambda: _sessions(config))  # noqa: B023


def _guarded(what: str, check: Check) -> Iterator[Finding]:
    """What a check finds. One that fails itself is a finding."""
    try:
        yield from check()
    except Exception as error:  # noqa: BLE001  (whatever is wrong here is what the command is for)
        yield Finding("fail", what, f"could not be checked ({type(error).__name__})", "Please report that.")


def _home() -> Iterator[Finding]:
    from kin_nb.core.paths import kin_home, shown  # noqa: PLC0415  (each command loads its own)

    home = kin_home()
    there = next(folder for folder in (home, *home.absolute().parents) if folder.exists())
    advice = f"Make it your own: chown -R $USER {shown(there)}; or set KIN_HOME to another folder."
    if not there.is_dir():
        yield Finding("fail", "home", f"{shown(there)} is no folder", "Move it away, or set KIN_HOME to a folder.")
    elif not os.access(there, os.W_OK | os.X_OK):
        yield Finding("fail", "home", f"{shown(there)} cannot be written", advice)
    elif there != home:
        yield Finding("ok", "home", f"{shown(home)} will be made when something is kept")
    else:
        try:
            with tempfile.TemporaryFile(dir=home):
                yield Finding("ok", "home", f"{shown(home)} can be written")
        except OSError as error:  # a full disk, a file system that is read-only
            yield Finding("fail", "home", f"{shown(home)} cannot be written: {error.strerror}", advice)


def _settings(loaded: list[KinConfig]) -> Iterator[Finding]:
    """Puts the configuration into `loaded` when there is one."""
    from kin_nb.core.config import ConfigError, KinConfig  # noqa: PLC0415
    from kin_nb.core.config.loading import config_path  # noqa: PLC0415
    from kin_nb.core.llm.adapters.dialects import thinking_warnings  # noqa: PLC0415
    from kin_nb.core.paths import shown  # noqa: PLC0415

    try:
        config = KinConfig.load()
    except ConfigError as error:
        yield Finding("fail", "settings", _sentence(str(error)), "Correct that, and the rest can be checked.")
        return
    for warning in (*config.warnings, *thinking_warnings(config, config.models)):
        yield Finding("warn", "settings", _sentence(warning), _MENDING)
    place = config_path()
    how = f"{shown(place)} is understood" if place.is_file() else f"the defaults, there is no {shown(place)}"
    yield Finding("ok", "settings", how)
    loaded.append(config)


def _sandbox(config: KinConfig) -> Iterator[Finding]:
    from kin_nb.core.tools.builtins.sandbox import problem  # noqa: PLC0415

    wanted = getattr(config.tools.get("bash"), "sandbox", "off")
    why = problem(config.effective_workdir, network=False)
    if not why:
        yield Finding("ok", "sandbox", f"bubblewrap works; [tools.bash] sandbox is {wanted}")
    elif wanted == "off":
        yield Finding("ok", "sandbox", f"[tools.bash] sandbox is off, and could not be on: {why}")
    elif wanted == "auto":
        yield Finding("warn", "sandbox", f"{why}: commands run unconfined")
    else:
        yield Finding("fail", "sandbox", f"{why}: no command runs", "Mend that, or set [tools.bash] sandbox to auto.")


def _model(config: KinConfig, *, offline: bool) -> Iterator[Finding]:
    from kin_nb.core.config.keys import env_path  # noqa: PLC0415
    from kin_nb.core.paths import shown  # noqa: PLC0415

    model = config.get_active_model()  # `load` has seen to it that there is one, and its provider
    provider = config.get_provider_for_model(model)
    yield Finding("ok", "model", f"{model.alias} of {provider.name}")
    variable = provider.api_key_env_var
    if not variable:
        yield Finding("ok", "API key", f"{provider.name} is asked without one")
    elif provider.api_key:
        yield Finding("ok", "API key", f"{variable} is set")
    else:
        advice = f"Set it, or write it into {shown(env_path())}; `%kin model local` needs none."
        yield Finding("fail", "API key", f"{variable} is not set", advice)
    yield _server(provider, offline=offline)


def _server(provider: ProviderConfig, *, offline: bool) -> Finding:
    """One request without a key: any answer says that there is a server."""
    import httpx  # noqa: PLC0415  (this check only)

    from kin_nb.core.llm.backend.client import ssl_context  # noqa: PLC0415
    from kin_nb.core.llm.errors import certificates, certificates_problem, reason_of  # noqa: PLC0415
    from kin_nb.core.urls import is_local, shown  # noqa: PLC0415

    what, address, local = "model server", shown(provider.api_base), is_local(provider.api_base)
    if offline:
        return Finding("ok", what, f"{address} was not asked (--offline)")
    try:
        client = httpx.Client(verify=ssl_context(provider.api_base), trust_env=not local, timeout=SECONDS)
    except (ImportError, ValueError, httpx.InvalidURL):  # its address may hold a password
        advice = "Correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY."
        return Finding("fail", what, "the proxy that the environment names cannot be used", advice)
    except OSError as error:
        return Finding("fail", what, certificates_problem(error), f"Correct {certificates()[0]}, or unset it.")
    answers: list[int | str | BaseException] = []
    # Names are looked up without an end, and an answer may come byte by byte: nobody waits for this thread.
    asking = Thread(target=_ask, args=(client, f"{provider.api_base.rstrip('/')}/models", answers), daemon=True)
    asking.start()
    asking.join(SECONDS)
    answer = answers[0] if answers else f"no answer within {SECONDS:g} s"
    if isinstance(answer, int) and answer < _SERVER_ERRORS:
        return Finding("ok", what, f"{address} answers; nothing else was asked")
    if isinstance(answer, int):
        return Finding("warn", what, f"{address} answers with error {answer}", "It may still be starting: try again.")
    advice = "Start it" if local else "Check the network, its proxy and the provider's api_base"
    if isinstance(answer, BaseException):
        answer = reason_of(answer)
        if certificates()[0]:
            advice = f"Trusted are the certificates of {'='.join(certificates())}: check these"
    return Finding("fail", what, f"{address}: {answer}", f"{advice}, or choose another model: `%kin model`.")


def _ask(client: httpx.Client, url: str, answers: list[int | str | BaseException]) -> None:
    """Put the status of an answer into `answers`, or why there is none: a certificate that is not trusted as its error."""
    import ssl  # noqa: PLC0415  (this check only)

    import httpx  # noqa: PLC0415

    from kin_nb.core.llm.errors import root_cause  # noqa: PLC0415

    try:
        with client, client.stream("GET", url) as reply:
            answers.append(reply.status_code)
    except httpx.TimeoutException:
        pass  # the one who waits says so
    except (httpx.InvalidURL, httpx.UnsupportedProtocol):
        answers.append("no address that can be asked")
    except (httpx.HTTPError, OSError, ValueError) as error:  # its text may hold a proxy's password
        cause = root_cause(error)
        untrusted = isinstance(cause, ssl.SSLCertVerificationError)
        answers.append(cause if untrusted else f"cannot be reached ({type(error).__name__})")


def _sessions(config: KinConfig) -> Iterator[Finding]:
    from kin_nb.core.paths import shown  # noqa: PLC0415
    from kin_nb.core.session.log import LOG_NAME, sessions_root  # noqa: PLC0415

    if not config.session_logging.enabled:
        yield Finding("ok", "sessions", "are not kept ([session_logging] enabled = false)")
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
        yield Finding(
            "warn", "sessions", how, "Folders in there that `kin-nb sessions` no longer needs may be deleted."
        )
    else:
        yield Finding("ok", "sessions", how)


def _sentence(text: str) -> str:
    """Errors have several lines, and full stops of their own."""
    return " ".join(text.split()).removesuffix(".")
