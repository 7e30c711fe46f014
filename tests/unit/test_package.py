"""The package as an index and a type checker see it, and the kernels that it loads in."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from kin_nb.notebook.extension import check_kernel
from kin_nb.notebook.options import KinError

METADATA = importlib.metadata.metadata("kin-nb")
ROOT = Path(__file__).parents[2]


def test_the_package_says_that_it_is_typed():
    assert files("kin_nb").joinpath("py.typed").is_file()


def test_the_project_says_where_it_is():
    urls = dict(line.split(", ") for line in METADATA.get_all("Project-URL"))
    assert {"Source", "Documentation", "Changelog", "Issues"} <= urls.keys()


def test_every_link_of_the_description_is_absolute():
    """A package index has no `docs/` next to it."""
    description = METADATA.get_payload() or METADATA["Description"]
    links = re.findall(r"\]\(([^)]*)\)", description)
    assert len(links) > 10
    assert [link for link in links if not link.startswith("https://")] == []


def test_every_dependency_has_a_lowest_version():
    command = [sys.executable, ROOT / "scripts" / "lowest-versions"]
    lowest = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    required = [Requirement(line) for line in METADATA.get_all("Requires-Dist") if "extra ==" not in line]
    assert {line.split("==")[0] for line in lowest} == {each.name for each in required}


def test_another_kernel_than_ipykernel_is_refused_in_two_lines():
    """xeus-python has a `get_parent` without a channel, and no tap: tried with xeus-python 0.19."""

    class XKernel:
        pass

    class Shell:
        kernel = XKernel()

    with pytest.raises(KinError) as error:
        check_kernel(Shell())
    first, second = str(error.value).splitlines()
    assert first.startswith("kin_nb needs the ipykernel kernel; this one is ")
    assert "Python 3 (ipykernel)" in second
