"""Which folders the person trusts."""

from __future__ import annotations

import os
import py_compile
import stat
from pathlib import Path

import pytest

from kin_nb.core.config import ConfigError
from kin_nb.core.config.trusted_folders import Trust, TrustedFolders, left_out, project_files
from kin_nb.core.paths import kin_home


@pytest.fixture
def tree(tmp_path) -> Path:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    return tmp_path


def test_the_closest_decision_wins(tree):
    folders = TrustedFolders()
    assert folders.is_trusted(tree / "a") is None
    folders.trust(tree / "a")
    folders.distrust(tree / "a" / "b")
    assert [folders.is_trusted(tree / path) for path in ("", "a", "a/x", "a/b", "a/b/c")] == [
        None,
        True,
        True,
        False,
        False,
    ]
    folders.trust(tree / "a" / "b" / "c")
    assert folders.is_trusted(tree / "a/b/c") is True


def test_decisions_are_kept_privately_and_can_be_changed(tree):
    TrustedFolders().trust(tree / "a")
    assert TrustedFolders().is_trusted(tree / "a") is True
    assert stat.S_IMODE((kin_home() / "trusted_folders.toml").stat().st_mode) == 0o600
    TrustedFolders().distrust(tree / "a")
    assert TrustedFolders().is_trusted(tree / "a") is False
    TrustedFolders().trust(tree / "a")
    assert TrustedFolders().is_trusted(tree / "a") is True


def test_trust_for_the_session_is_not_kept(tree):
    folders = TrustedFolders()
    folders.for_session(tree / "a")
    assert folders.is_trusted(tree / "a" / "b") is True
    assert TrustedFolders().is_trusted(tree / "a") is None
    folders.distrust(tree / "a")
    assert folders.is_trusted(tree / "a") is False


def test_another_programs_decision_counts_at_once(tree):
    mine = TrustedFolders()
    assert mine.is_trusted(tree / "a") is None
    TrustedFolders().trust(tree / "a")
    assert mine.is_trusted(tree / "a") is True


def test_links_are_followed_before_asking(tree):
    folders = TrustedFolders()
    (tree / "link").symlink_to("a")
    assert folders.trust(tree / "link") == tree / "a"
    assert folders.is_trusted(tree / "link" / "b") is True


def test_a_trusted_folder_that_became_a_link_to_elsewhere_is_not_trusted(tree):
    TrustedFolders().trust(tree / "a" / "b")
    (tree / "evil").mkdir()
    (tree / "a" / "b" / "c").rmdir()
    (tree / "a" / "b").rmdir()
    (tree / "a" / "b").symlink_to(tree / "evil")
    assert TrustedFolders().is_trusted(tree / "a" / "b") is None


@pytest.mark.parametrize("too_broad", ["home", "around home", "/"])
def test_a_folder_that_holds_too_much_is_never_trusted(tree, monkeypatch, too_broad):
    home = tree / "a" / "b"
    monkeypatch.setenv("HOME", str(home))
    folder = {"home": home, "around home": tree / "a", "/": Path("/")}[too_broad]
    folders = TrustedFolders()
    for grant in (folders.trust, folders.for_session):
        with pytest.raises(ConfigError, match="cannot be trusted: it contains your home folder"):
            grant(folder)
    (kin_home() / "trusted_folders.toml").write_text(f'trusted = ["{folder}"]\n')
    assert folders.is_trusted(home / "c") is None
    folders.trust(home / "c")
    assert folders.is_trusted(home / "c") is True


@pytest.mark.parametrize(
    "text", ["trusted = [", "trusted = 5", 'trusted = [5]\nuntrusted = ["/"]', b"\xff", "a = " + "[" * 100_000]
)
def test_a_corrupted_file_trusts_nothing_says_so_and_is_not_overwritten(tree, text):
    folders = TrustedFolders()
    folders.path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert folders.is_trusted(tree / "a") is None
    (warning,) = folders.warnings
    assert warning.startswith(str(folders.path))
    with pytest.raises(ConfigError):
        folders.trust(tree / "a")
    assert folders.path.read_bytes() == (text if isinstance(text, bytes) else text.encode())
    folders.path.unlink()
    folders.trust(tree / "a")
    assert folders.is_trusted(tree / "a") is True
    assert folders.warnings == ()


def test_any_name_can_be_trusted(subtests, tmp_path):
    for name in ['quo"te', "back\\slash", "new\nline", "ünï", "del\x7f", "tab\t"]:
        with subtests.test(name=name):
            (tmp_path / name).mkdir()
            TrustedFolders().trust(tmp_path / name)
            assert TrustedFolders().is_trusted(tmp_path / name) is True


def test_what_cannot_be_trusted_is_one_error(tree):
    (tree / "file").write_text("")
    for path in (tree / "gone", tree / "file"):
        with pytest.raises(ConfigError, match="this folder does not exist"):
            TrustedFolders().trust(path)
    odd = os.fsdecode(os.fsencode(tree) + b"/\xff")
    Path(odd).mkdir()
    with pytest.raises(ConfigError, match="not valid text"):
        TrustedFolders().trust(Path(odd))
    TrustedFolders().trust(tree / "a")
    assert TrustedFolders().is_trusted(tree / "a") is True


def test_what_was_left_out_is_listed_unless_the_person_decided(tree):
    folder = tree / "a"
    assert left_out(folder, Trust()) is None
    (folder / ".kin-code" / "tools").mkdir(parents=True)
    (folder / "AGENTS.md").write_text("")
    assert project_files(folder) == ["AGENTS.md", ".kin-code/tools"]
    assert f"{folder} is not trusted, so nothing was read of its AGENTS.md, .kin-code/tools. " in (
        left_out(folder, Trust()) or ""
    )
    assert left_out(folder, Trust(True)) is None
    assert left_out(folder, Trust(False)) is None


@pytest.mark.parametrize("folder", [".kin-code/tools", "own"])
def test_compiled_code_that_runs_in_place_of_a_trusted_module_is_a_change(tree, folder):
    root = tree / "a"
    tools, settings = root / folder, root / ".kin-code" / "config.toml"
    tools.mkdir(parents=True)
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('tool_paths = ["own"]\n')
    source = tools / "helper.py"
    source.write_text("WORD = 'good'\n")
    TrustedFolders().trust(root)
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    assert not TrustedFolders().look(root).changes
    for mode in (py_compile.PycInvalidationMode.CHECKED_HASH, py_compile.PycInvalidationMode.UNCHECKED_HASH):
        compiled = py_compile.compile(str(source), invalidation_mode=mode)
        changes = TrustedFolders().look(root).changes
        assert changes is not None
        assert changes.added == (str(Path(compiled).relative_to(root)),)


def test_a_link_to_python_s_cache_is_a_folder_like_any_other(tree):
    root = tree / "a"
    tools = root / ".kin-code" / "tools"
    tools.mkdir(parents=True)
    (tools / "helper.py").write_text("WORD = 'good'\n")
    TrustedFolders().trust(root)
    compiled = Path(py_compile.compile(str(tools / "helper.py")))
    (tools / "library").symlink_to("__pycache__")
    changes = TrustedFolders().look(root).changes
    assert changes is not None
    assert changes.added == (f".kin-code/tools/library/{compiled.name}",)
