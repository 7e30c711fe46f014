"""Virtual environments in a copy: read from the original, which neither use nor removal changes."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import venv

import pytest

from kin_nb.replay.rerun.virtual_environments import link_environments, remove_links
from kin_nb.replay.rerun.workspace_copy import copy_workspace, temporary_folder


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "own.py").write_text("print(__file__)\n")
    return folder


def with_environment(folder, name=".venv"):
    """With a package, the project as an editable one, and a script."""
    venv.create(folder / name, symlinks=True, with_pip=False)
    (packages,) = (folder / name / "lib").glob("python*/site-packages")
    (packages / "helper").mkdir()
    (packages / "helper" / "__init__.py").write_text("print(__file__)\n")
    (packages / "own.pth").write_text(f"{folder / 'src'}\n")
    script = folder / name / "bin" / "tool"
    script.write_text(f"#!{folder / name}/bin/python\nimport own, helper\n")
    script.chmod(0o755)
    return packages


def contents(folder):
    return {
        str(path): (
            path.lstat().st_mode,
            str(path.readlink()) if path.is_symlink() else path.is_file() and path.read_bytes(),
        )
        for path in folder.rglob("*")
    }


def run(*argv, at):
    environment = {"PATH": os.environ["PATH"]}
    return subprocess.run(argv, cwd=at, env=environment, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("name", [".venv", "venv", "env"])
def test_programs_of_the_copy_use_the_linked_packages_and_the_copys_own_code(name, project, tmp_path):
    packages = with_environment(project, name)
    before = contents(project)
    copied = copy_workspace(project, None, tmp_path / "copy")
    copy = copied.folder
    inside = copy / packages.relative_to(project)
    assert copied.description == f"a copy of your current files (no git commit recorded); linked, not copied: {name}"
    expected = [str(copy / "src" / "own.py"), str(inside / "helper" / "__init__.py")]
    assert run(f"{name}/bin/python", "-c", "import own, helper", at=copy) == expected
    assert run(f"{name}/bin/tool", at=copy) == expected
    assert run("bash", "-c", f". {name}/bin/activate; tool", at=copy) == expected
    assert (inside / "helper" / "__pycache__").is_dir(), "bytecode is the copy's"
    assert contents(project) == before


def test_what_is_added_or_removed_in_the_copy_is_not_in_the_original(project, tmp_path):
    packages = with_environment(project)
    before = contents(project)
    copy = copy_workspace(project, None, tmp_path / "copy").folder
    inside = copy / packages.relative_to(project)
    (inside / "more.py").write_text("")
    shutil.rmtree(inside / "helper")
    (copy / ".venv" / "pyvenv.cfg").unlink()
    assert contents(project) == before


def test_many_files_are_linked_by_their_folder(project, tmp_path):
    packages = with_environment(project)
    for number in range(20):
        (packages / f"p{number:02}").mkdir()
        (packages / f"p{number:02}" / "__init__.py").write_text("")
    shutil.copytree(project / "src", tmp_path / "copy" / "src")
    link_environments(project, tmp_path / "copy", 5)
    inside = tmp_path / "copy" / packages.relative_to(project)
    assert (inside / "p19").is_symlink()
    assert not inside.is_symlink()
    assert str(tmp_path / "copy" / "src") in (inside / "own.pth").read_text()


def test_a_folder_of_that_name_that_is_no_environment_is_copied(project, tmp_path):
    (project / "env").mkdir()
    (project / "env" / "settings.toml").write_text("x")
    copied = copy_workspace(project, None, tmp_path / "copy")
    assert not (copied.folder / "env" / "settings.toml").is_symlink()
    assert copied.description == "a copy of your current files (no git commit recorded)"


def test_node_modules_are_linked_by_package_also_in_folders_below(project, tmp_path):
    for place in ("node_modules", "web/node_modules"):
        for name in ("left/index.js", "@scope/right/index.js", ".cache/x", ".bin/keep"):
            path = project / place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
        (project / place / ".bin" / "left").symlink_to("../left/index.js")
        (project / place / "own").symlink_to("../src")
    (project / "web" / "a.js").write_text("x")
    copied = copy_workspace(project, None, tmp_path / "copy")
    modules = copied.folder / "web" / "node_modules"
    assert copied.description.endswith("linked, not copied: node_modules, web/node_modules")
    assert [path.name for path in sorted(modules.iterdir())] == [".bin", "@scope", "left", "own"]
    assert (modules / "left").is_symlink()
    assert (modules / "@scope" / "right").is_symlink()
    assert not (modules / "@scope").is_symlink()
    assert str((modules / ".bin" / "left").readlink()) == "../left/index.js"
    assert (copied.folder / "node_modules" / "own").resolve() == copied.folder / "src"


def test_an_environment_that_a_link_leads_to_is_linked_as_well(project, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with_environment(elsewhere, "made")
    (project / ".venv").symlink_to(elsewhere / "made")
    copy = copy_workspace(project, None, tmp_path / "copy").folder
    assert not (copy / ".venv").is_symlink()
    assert run(".venv/bin/python", "-c", "import helper", at=copy)[0].startswith(str(copy))


def test_git_does_not_see_what_is_linked(project, tmp_path):
    def git(*argv, at):
        done = subprocess.run(["git", *argv], cwd=at, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    (project / "env").mkdir()
    (project / "env" / "pyvenv.cfg").write_text("tracked\n")
    git("init", "-q", at=project)
    git("add", "-A", at=project)
    git("-c", "user.name=t", "-c", "user.email=t@e", "-c", "commit.gpgsign=false", "commit", "-qm", "m", at=project)
    with_environment(project)
    copied = copy_workspace(project, git("rev-parse", "HEAD", at=project), tmp_path / "copy")
    assert (copied.folder / ".venv" / "bin" / "python").exists()
    assert not (copied.folder / "env" / "pyvenv.cfg").is_symlink(), "what the commit has is a file"
    assert git("status", "--short", at=copied.folder) == ""


def test_the_removal_of_a_copy_follows_no_link(project, tmp_path):
    with_environment(project)
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "link").symlink_to("/usr")
    (outside / "file").write_text("x")
    (outside / "file").chmod(0o444)
    before = contents(project) | contents(outside)
    with temporary_folder("kin-test-") as folder:
        copy = copy_workspace(project, None, folder / "workspace").folder
        shutil.rmtree(copy / ".venv")
        (copy / ".venv").symlink_to(outside)  # as a command may do
        closed = copy / "closed"
        closed.mkdir()
        (closed / "file").symlink_to(outside / "file")
        closed.chmod(0o555)
    assert not folder.exists()
    assert contents(project) | contents(outside) == before


def test_links_are_taken_away_and_files_stay(tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "file").write_text("x")
    (tmp_path / "copy" / "link").symlink_to(tmp_path)
    (tmp_path / "other").symlink_to(tmp_path / "copy")
    remove_links(tmp_path / "other")
    assert (tmp_path / "copy" / "link").is_symlink(), "nor is a link in the folder's own place followed"
    remove_links(tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["file"]
    assert stat.S_ISDIR((tmp_path / "copy").stat().st_mode)
