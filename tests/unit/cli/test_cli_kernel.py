"""`kin-nb kernel`: the kernelspec that Jupyter then finds, and nothing of anybody else's touched."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from jupyter_client.kernelspec import KernelSpecManager

from kin_nb.cli.kernel import shipped
from kin_nb.replay.cell_keys import is_kin_kernel


@pytest.fixture(autouse=True)
def _own_places(monkeypatch):
    for name in ("JUPYTER_DATA_DIR", "JUPYTER_PATH", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def prefix(tmp_path, monkeypatch) -> Path:
    """A folder for --prefix, where Jupyter looks too."""
    folder = tmp_path / "a prefix"
    monkeypatch.setenv("JUPYTER_PATH", str(folder / "share" / "jupyter"))
    return folder


def test_jupyter_finds_what_was_installed_and_it_runs_this_interpreter(kin, prefix):
    done = kin("kernel", "install", "--prefix", prefix)
    folder = prefix / "share" / "jupyter" / "kernels" / "kin"
    assert done.returncode == 0
    assert str(folder) in done.stdout
    spec = KernelSpecManager().get_kernel_spec("kin")
    assert Path(spec.resource_dir) == folder
    assert spec.argv == [sys.executable, "-m", "kin_nb.notebook.kernel", "-f", "{connection_file}"]
    assert (spec.display_name, spec.interrupt_mode) == ("Kin", "signal")
    assert {path.name for path in folder.iterdir()} == {"kernel.json", "logo-64x64.png", "logo-svg.svg"}


def test_without_a_place_it_is_the_users(kin, home):
    assert kin("kernel", "install").returncode == 0
    (made,) = home.rglob("kernel.json")
    assert made.parts[-3:-1] == ("kernels", "kin")
    assert kin("kernel", "uninstall").returncode == 0
    assert not list(home.rglob("kernel.json"))


def test_one_more_has_a_name_of_its_own_and_its_notebooks_hold_prompts(kin, prefix):
    kin("kernel", "install", "--prefix", prefix, "--name", "kin-work")
    spec = KernelSpecManager().get_kernel_spec("kin-work")
    assert spec.display_name == "Kin (work)"
    assert is_kin_kernel({"metadata": {"kernelspec": {"name": "kin-work"}}})


@pytest.mark.parametrize("name", ["python3", "kin2", "../kin", "kin-/x", ""])
def test_other_names_are_refused(kin, prefix, name):
    done = kin("kernel", "install", "--prefix", prefix, "--name", name)
    assert done.returncode == 2
    assert "--name must be kin, or kin-" in done.stderr
    assert not prefix.exists()


def test_installed_again_it_is_replaced(kin, prefix):
    kin("kernel", "install", "--prefix", prefix)
    file = prefix / "share" / "jupyter" / "kernels" / "kin" / "kernel.json"
    file.write_text(file.read_text().replace(sys.executable, "/gone/python"))
    assert kin("kernel", "install", "--prefix", prefix).returncode == 0
    assert json.loads(file.read_text())["argv"][0] == sys.executable


@pytest.mark.parametrize("command", ["install", "uninstall"])
@pytest.mark.parametrize("content", ['{"argv": ["bash"], "display_name": "x"}', "not json", "[]", '{"argv": [1]}'])
def test_another_kernel_of_that_name_stays(kin, prefix, command, content):
    file = prefix / "share" / "jupyter" / "kernels" / "kin" / "kernel.json"
    file.parent.mkdir(parents=True)
    file.write_text(content)
    done = kin("kernel", command, "--prefix", prefix)
    assert done.returncode == 1
    assert "holds another kernel; it was not" in done.stderr
    assert file.read_text() == content


def test_a_link_is_replaced_and_removed_not_what_it_leads_to(kin, prefix, tmp_path):
    folder = prefix / "share" / "jupyter" / "kernels" / "kin"
    folder.parent.mkdir(parents=True)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "kernel.json").write_text((shipped() / "kernel.json").read_text())
    before = (checkout / "kernel.json").read_text()
    folder.symlink_to(checkout)
    assert kin("kernel", "install", "--prefix", prefix).returncode == 0
    assert not folder.is_symlink()
    assert kin("kernel", "uninstall", "--prefix", prefix).returncode == 0
    folder.symlink_to(checkout)
    assert kin("kernel", "uninstall", "--prefix", prefix).returncode == 0
    assert not folder.is_symlink()
    assert (checkout / "kernel.json").read_text() == before


def test_uninstall_where_there_is_none_names_where_there_is_one(kin, prefix, tmp_path):
    kin("kernel", "install", "--prefix", prefix)
    done = kin("kernel", "uninstall", "--prefix", tmp_path / "elsewhere")
    assert done.returncode == 1
    assert "does not exist" in done.stderr
    assert str(prefix / "share" / "jupyter" / "kernels" / "kin") in done.stderr


def test_a_place_that_cannot_be_written_is_one_line(kin, tmp_path):
    (tmp_path / "file").write_text("")
    done = kin("kernel", "install", "--prefix", tmp_path / "file")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "was not installed" in done.stderr


def test_the_logos_are_pictures():
    """The launcher shows an empty tile for what is none."""
    picture = (shipped() / "logo-64x64.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", picture[16:24]) == (64, 64)
    drawing = ET.parse(shipped() / "logo-svg.svg").getroot()
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    assert drawing.get("viewBox") == "0 0 64 64"
