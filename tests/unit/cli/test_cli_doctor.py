"""`kin-nb doctor`: each line says what, how, and what to do; it works where nothing else does."""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
from pathlib import Path

import pytest

from kin_nb.cli import doctor, doctor_checks
from kin_nb.cli.kernel import shipped
from kin_nb.core.config import KinConfig
from tests.notebook.people import write_config
from tests.serving import certificate
from tests.unit.mcp.http_server import HttpServer


@pytest.fixture(autouse=True)
def _own_places(monkeypatch, tmp_path):
    for name in ("JUPYTER_DATA_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))


@pytest.fixture
def examined(kin):
    """What `kin-nb doctor ARGV...` finds: {what: (status, how, advice)}, its exit code under "exit"."""

    def examined(*argv: str) -> dict:
        done = kin("doctor", "--json", *argv)
        document = json.loads(done.stdout)
        assert done.stderr == ""
        assert document["ok"] == (done.returncode == 0)
        found = {f["what"]: (f["status"], f["how"], f["advice"]) for f in document["findings"]}
        return found | {"exit": done.returncode}

    return examined


def add_kernel(tmp_path: Path, program: str) -> None:
    folder = tmp_path / "jupyter" / "kernels" / "kin"
    folder.mkdir(parents=True)
    spec = json.loads((shipped() / "kernel.json").read_text())
    spec["argv"][0] = program
    (folder / "kernel.json").write_text(json.dumps(spec))


def test_where_all_is_in_place_nothing_fails(examined, server, tmp_path):
    add_kernel(tmp_path, sys.executable)
    found = examined()
    assert found["exit"] == 0
    assert found["Python"][0] == "ok"
    assert found["model"] == ("ok", "scripted of here", "")
    assert found["model server"] == ("ok", f"{server.url} answers", "")
    assert found["Kin kernel"][0] == "ok"
    assert found["settings"] == ("ok", "~/.kin-code/config.toml is valid", "")


def test_a_line_says_how_it_is_and_what_to_do(kin, server):
    lines = kin("doctor").stdout.splitlines()
    assert "ok    model: scripted of here." in lines
    assert all(line[:6] in {"ok    ", "info  ", "warn  ", "fail  "} for line in lines)
    assert all(line.endswith((".", "'")) for line in lines)


def test_the_server_is_asked_once_without_the_key(examined, home, monkeypatch, model_server):
    write_config(home, model_server.url, key_variable="OUR_KEY")
    monkeypatch.setenv("OUR_KEY", "hidden-key")
    found = examined()
    assert found["API key"] == ("ok", "OUR_KEY is set", "")
    assert "hidden-key" not in str(found)
    assert model_server.requests == []  # none for an answer
    assert found["model server"][0] == "ok"


def test_offline_asks_no_one(examined, home):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        write_config(home, f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
        assert examined("--offline")["model server"][1].endswith("/v1 was not checked (--offline)")
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_a_server_that_is_not_there_fails(examined, home):
    with socket.socket() as bound:  # bound, but not listening
        bound.bind(("127.0.0.1", 0))
        write_config(home, f"http://user:hidden@127.0.0.1:{bound.getsockname()[1]}/v1")
        found = examined()
    status, how, advice = found["model server"]
    assert (status, found["exit"]) == ("fail", 1)
    assert "cannot be reached (ConnectError)" in how
    assert advice.startswith("Start it, or choose another model")
    assert "hidden" not in str(found)


def test_a_server_that_says_nothing_is_not_waited_for(examined, home, monkeypatch):
    monkeypatch.setattr(doctor, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        write_config(home, f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
        status, how, _ = examined()["model server"]
    assert status == "fail"
    assert how.endswith(": no answer within 0.2 s")


@pytest.mark.parametrize("address", ["nonsense", "ftp://127.0.0.1/x", "http://[", "http://127.0.0.1:99999999/v1"])
def test_an_address_that_is_none_fails(examined, home, address):
    write_config(home, address)
    assert examined()["model server"][0] == "fail"


def test_a_missing_key_fails_and_its_ways_out_are_named(examined, home, model_server):
    write_config(home, model_server.url, key_variable="OUR_KEY")
    found = examined()
    assert found["API key"][:2] == ("fail", "OUR_KEY is not set")
    assert "~/.kin-code/.env" in found["API key"][2]
    assert found["exit"] == 1


@pytest.mark.parametrize("text", ["active_model = ", "[[models]]\nname = 3\n", "\0"])
def test_settings_that_are_wrong_are_one_finding_and_the_rest_is_checked(examined, settings, text):
    settings(text)
    found = examined()
    status, how, _ = found["settings"]
    assert (status, found["exit"]) == ("fail", 1)
    assert "config.toml" in how
    assert found["Python"][0] == found["home"][0] == "ok"
    assert "model server" not in found


def test_a_model_that_is_not_configured_fails(examined, settings):
    settings('active_model = "devstrall"')
    assert "Unknown model" in examined("--offline")["settings"][1]


def test_a_home_that_is_a_file_fails(examined, home):
    home.mkdir(exist_ok=True)
    (home / ".kin-code").write_text("")
    assert examined("--offline")["home"] == (
        "fail",
        "~/.kin-code is not a folder",
        "Rename it, or set KIN_HOME to a folder.",
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_home_that_cannot_be_written_fails(examined, home):
    (home / ".kin-code").mkdir(parents=True)
    (home / ".kin-code").chmod(0o500)
    assert examined("--offline")["home"][:2] == ("fail", "~/.kin-code cannot be written")


def test_it_leaves_nothing_behind(kin, home):
    kin("doctor", "--offline")
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("program", "problem"),
    [("/gone/python", "/gone/python does not exist"), ("/bin/false", "/bin/false has no kin_nb")],
)
def test_a_kernelspec_whose_interpreter_does_not_do_is_a_warning(examined, tmp_path, program, problem):
    add_kernel(tmp_path, program)
    status, how, advice = examined("--offline")["Kin kernel"]
    assert status == "warn"
    assert problem in how
    assert "kin-nb kernel install" in advice


def test_a_kernel_of_another_version_is_a_warning(examined, tmp_path):
    program = tmp_path / "other-python"
    program.write_text("#!/bin/sh\necho 0.0.1\n")
    program.chmod(0o755)
    add_kernel(tmp_path, str(program))
    assert "has kin_nb 0.0.1, this one" in examined("--offline")["Kin kernel"][1]


def test_what_is_installed_is_compared_with_what_is_needed(examined, monkeypatch):
    needed = ["ipykernel>=1000", "no-such-package>=2", "pydantic>=1", 'also-not-there; extra == "lab"']
    monkeypatch.setattr(doctor_checks, "requires", lambda _: needed)
    found = examined("--offline")
    assert found["ipykernel"][0] == found["no-such-package"][0] == "fail"
    assert found["no-such-package"][1:] == ("not installed", f"{sys.executable} -m pip install 'no-such-package>=2'")
    assert not {"pydantic", "also-not-there"} & found.keys()


@pytest.mark.parametrize(
    ("versions", "what", "how"),
    [
        ({"jupyterlab": "4.6.0"}, "widgets", "jupyterlab_widgets is missing"),
        ({"jupyterlab": "3.2.0", "jupyterlab_widgets": "3.0.0"}, "jupyterlab", "3.2.0 is older than 4"),
        ({"notebook": "7.1.0", "jupyterlab_widgets": "1.1.0"}, "widgets", "does not work with ipywidgets 8"),
        ({}, "front ends", "neither JupyterLab nor Notebook"),
    ],
)
def test_front_ends_need_the_other_half_of_the_widgets(examined, monkeypatch, tmp_path, versions, what, how):
    half = tmp_path / "jupyter" / "labextensions" / "@jupyter-widgets" / "jupyterlab-manager"
    half.mkdir(parents=True)
    (half / "package.json").write_text("{}")
    monkeypatch.setattr(doctor_checks, "_version", versions.get)
    monkeypatch.setattr(doctor_checks, "requires", lambda _: [])
    found = examined("--offline")
    assert how in found[what][1]
    assert found[what][0] == ("info" if what == "front ends" else "warn")


def test_a_check_that_fails_itself_is_a_finding_without_a_stack_trace(examined, monkeypatch):
    def broken():
        raise ZeroDivisionError("hidden")

    monkeypatch.setattr(doctor_checks, "packages", broken)
    found = examined("--offline")
    assert found["packages"][:2] == ("fail", "could not be checked (ZeroDivisionError)")
    assert found["home"][0] == "ok"


def test_sessions_are_counted(examined, home, server, kin):
    server.enqueue("Hello.")
    kin("run", "-p", "Hi.")
    assert examined("--offline")["sessions"][1].startswith("1 in ~/.kin-code/sessions, 0.0 MB")


def test_missing_programs_are_warnings_that_say_what_is_lost(examined, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = examined("--offline")
    assert found["git"][0] == found["ripgrep"][0] == "warn"
    assert found["sandbox"][0] == "info"
    assert "not available here" in found["sandbox"][1]


def test_a_sandbox_that_is_wanted_and_not_there_fails(examined, tmp_path, monkeypatch, settings):
    settings('[tools.bash]\nsandbox = "on"')
    monkeypatch.setenv("PATH", str(tmp_path))
    found = examined("--offline")
    assert found["sandbox"][0] == "fail"
    assert found["sandbox"][1].endswith("no command runs")


def test_a_wrong_file_of_certificates_is_named(examined, home, tmp_path, monkeypatch):
    write_config(home, "https://models.invalid/v1")
    path = tmp_path / "corporate.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    problem = f"SSL_CERT_FILE names {path}, which cannot be used (No such file or directory)"
    assert examined()["model server"] == ("fail", problem, "Correct SSL_CERT_FILE, or unset it.")


def test_a_server_on_this_machine_is_trusted_by_the_certificates_that_the_session_takes(
    examined, home, tmp_path, monkeypatch
):
    (tmp_path / "other").mkdir()
    right, other = certificate(tmp_path, "localhost"), certificate(tmp_path / "other", "localhost")
    missing = tmp_path / "no.pem"
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(right)
    found = {}
    with HttpServer.start(tls) as server:
        address = server.url.replace("127.0.0.1", "localhost")
        write_config(home, address)
        for path in (right, other, missing):
            monkeypatch.setenv("SSL_CERT_FILE", str(path))
            found[path] = examined()["model server"]
    assert found[right][0] == "ok"
    reason = "its certificate is not trusted (self-signed certificate)"
    advice = f"Check the certificates in SSL_CERT_FILE={other}"
    assert found[other] == ("fail", f"{address}: {reason}", f"{advice}, or choose another model: `%kin model`.")
    problem = f"SSL_CERT_FILE names {missing}, which cannot be used (No such file or directory)"
    assert found[missing] == ("fail", problem, "Correct SSL_CERT_FILE, or unset it.")


def test_a_thinking_level_that_no_field_holds_is_a_warning(examined, kin, server, home):
    with (home / ".kin-code" / "config.toml").open("a") as file:
        file.write('\n[[models]]\nname = "gpt-4.1"\nprovider = "openai"\nthinking = "high"\n')
    warning = 'thinking = "high" has no effect on gpt-4.1: no field for it is known at openai for gpt-4.1.'
    assert warning in kin("config").stderr
    assert any(warning in finding["how"] for finding in json.loads(kin("doctor", "--json").stdout)["findings"])


def test_prices_in_one_table_are_no_unknown_setting(kin, server, home):
    with (home / ".kin-code" / "config.toml").open("a") as file:
        file.write(
            '\n[[models]]\nname = "n"\nprovider = "openai"\npricing = { input_price = 1.5, output_price = 3.0 }\n'
        )
        file.write('\n[[models]]\nalias = "devstral-2"\npricing = { input_price = 9.5 }\n')
    done = kin("config")
    assert (done.returncode, done.stderr) == (0, "")
    prices = {model.alias: (model.input_price, model.output_price) for model in KinConfig.load().models}
    assert (prices["n"], prices["devstral-2"]) == ((1.5, 3.0), (9.5, 2.0))
    with (home / ".kin-code" / "config.toml").open("a") as file:
        file.write('\n[[models]]\nname = "o"\nprovider = "openai"\npricing = { input = 1.5 }\n')
    assert "models.o: pricing has input_price and output_price, not input." in kin("config").stderr
