"""What a turn's record says when this kernel continues with code that the turn has changed: modules and packages."""

from __future__ import annotations

import importlib
import shutil
import sys
import venv
import zipfile
from functools import partial
from pathlib import Path

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.modes import AgentMode
from kin_nb.core.session.log import read_lines
from kin_nb.core.session.state import SessionState
from kin_nb.notebook.main_thread_loop import TurnInterrupted
from kin_nb.notebook.namespace import install_tools
from kin_nb.render import render_turn, render_undo
from tests.model_server import tool_call

EDIT = tool_call("edit_file", path="hinted.py", old_string="x = 1", new_string="x = 22")
BACK = tool_call("edit_file", path="hinted.py", old_string="x = 22", new_string="x = 1")
RELOAD = tool_call("python", code="import importlib, hinted\nimportlib.reload(hinted)")
HINT = (
    "hinted.py changed, and this kernel has imported it: "
    "%load_ext autoreload / %autoreload 2, or importlib.reload(hinted)"
)


@pytest.fixture
def folder(workspace, monkeypatch) -> Path:
    """The workspace, from which this process imports; what it imported is forgotten afterwards."""
    (workspace / "hinted.py").write_text("x = 1\n")
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(workspace))
    yield workspace
    for name in set(sys.modules) - before:
        if str(workspace.parent) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def agent(config, shell, folder, in_turn):
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    install_tools(agent, shell)
    yield agent
    in_turn(agent.aclose)


@pytest.fixture
def said(agent, in_turn, model_server):
    """`said(calls...)`: what the record of a turn says in which the model makes these calls, one after another."""

    def run(*calls) -> tuple[str, ...]:
        for call in calls:
            model_server.enqueue(calls=[call])
        model_server.enqueue("Done.")

        async def turn():
            async for _ in agent.act("go"):
                pass

        in_turn(turn)
        return agent.turns[-1].warnings

    return run


def test_a_module_that_was_imported_and_changed_is_named_with_what_to_do(said, agent):
    importlib.import_module("hinted")
    assert said(EDIT) == (HINT,)
    assert f"warning: {HINT}" in render_turn(agent.turns[-1])[-1].data["text/plain"]


def test_the_log_has_it_so_that_playback_shows_the_same(said, agent):
    importlib.import_module("hinted")
    said(EDIT)
    [stored] = SessionState.of(read_lines(agent.log.path)).records
    assert stored == agent.turns[-1]


@pytest.mark.parametrize(
    "call",
    [
        tool_call("bash", command="sed -i.bak 's/1/22/' hinted.py"),
        tool_call("python", code="import pathlib\n_ = pathlib.Path('hinted.py').write_text('x = 22')"),
        tool_call("write_file", path="hinted.py", content="x = 22\n", overwrite=True),
    ],
    ids=["bash", "python", "write_file"],
)
def test_whatever_changed_it(said, folder, monkeypatch, call):
    monkeypatch.chdir(folder)
    importlib.import_module("hinted")
    assert said(call) == (HINT,)


def test_a_module_that_was_imported_through_a_link_of_another_name(said, folder):
    (folder / "linked.py").symlink_to(folder / "hinted.py")
    importlib.import_module("linked")
    assert said(EDIT) == (HINT.replace("(hinted)", "(linked)"),)


@pytest.fixture
def outer(folder, tmp_path, monkeypatch) -> Path:
    """A module beside the workspace, imported: what a command changes there no record has."""
    lib = tmp_path / "lib"
    lib.mkdir()
    (lib / "outer_hinted.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(lib))
    importlib.import_module("outer_hinted")
    yield lib / "outer_hinted.py"
    sys.modules.pop("outer_hinted", None)


def test_a_module_beside_the_workspace_that_a_command_changed(said, outer, agent, monkeypatch):
    monkeypatch.setenv("HOME", str(outer.parents[1]))
    monkeypatch.setattr(Path, "home", lambda: outer.parents[1])
    [text] = said(tool_call("bash", command=f"echo 'x = 22' > {outer}"))
    assert agent.turns[-1].calls[0].files == ()
    assert text == HINT.replace("hinted.py", "~/lib/outer_hinted.py").replace("(hinted)", "(outer_hinted)")


def test_a_module_beside_the_workspace_through_a_link_of_another_name(said, outer, folder):
    (folder / "linked_outer.py").symlink_to(outer)
    sys.modules.pop("outer_hinted")
    importlib.import_module("linked_outer")
    [text] = said(tool_call("bash", command=f"rm {outer}"))
    assert text.endswith(
        "lib/outer_hinted.py was deleted, and this kernel has imported it: restart the kernel to be without it"
    )


def test_beside_the_workspace_only_what_changed_during_the_turn_is_news(said, outer):
    outer.write_text("x = 333\n")
    assert said(tool_call("bash", command=f"cat {outer}")) == ()
    write = tool_call("bash", command=f"echo 'x = 4444' > {outer}")
    assert said(write, tool_call("python", code="import importlib, outer_hinted\nimportlib.reload(outer_hinted)")) == ()


def test_a_module_that_no_one_imported_is_no_news(said):
    assert said(EDIT) == ()


def test_a_turn_that_only_reads_says_nothing(said):
    importlib.import_module("hinted")
    assert said(tool_call("read_file", path="hinted.py")) == ()


def test_a_file_that_came_out_as_it_was_is_no_news(said):
    importlib.import_module("hinted")
    assert said(EDIT, BACK) == ()
    assert said(tool_call("bash", command="touch hinted.py")) == ()


def test_modules_of_a_package_go_by_their_whole_names(said, folder):
    (folder / "pack").mkdir()
    for name in ("__init__", "one", "two"):
        (folder / "pack" / f"{name}.py").write_text("x = 1\n")
    importlib.import_module("pack.one")
    importlib.import_module("pack.two")
    edits = [
        tool_call("edit_file", path=f"pack/{name}.py", old_string="x = 1", new_string="x = 2")
        for name in ("one", "two")
    ]
    assert said(*edits) == (
        HINT.replace("hinted.py", "pack/one.py, pack/two.py")
        .replace("it:", "them:")
        .replace("reload(hinted)", "reload(pack.one), importlib.reload(pack.two)"),
    )


def test_what_the_agent_imported_or_reloaded_after_the_change_is_no_news(said):
    write = tool_call("write_file", path="fresh_hinted.py", content="y = 1\n")
    assert said(write, tool_call("python", code="import fresh_hinted")) == ()
    importlib.import_module("hinted")
    assert said(EDIT, RELOAD) == ()


def test_what_the_agent_imported_before_the_change_is_reported(said):
    assert said(tool_call("python", code="import hinted"), EDIT, tool_call("python", code="1")) == (HINT,)


def test_an_undo_says_it_too(said, agent, in_turn):
    importlib.import_module("hinted")
    said(EDIT, RELOAD)
    in_turn(agent.undo)
    undo = agent.undone[-1]
    assert undo.warnings == (HINT,)
    assert f"warning: {HINT}" in render_undo(undo).data["text/plain"]


def test_a_module_whose_file_is_gone_cannot_be_reloaded(said):
    importlib.import_module("hinted")
    [text] = said(tool_call("bash", command="rm hinted.py"))
    assert text == ("hinted.py was deleted, and this kernel has imported it: restart the kernel to be without it")


@pytest.mark.parametrize(
    ("line", "hints"),
    [("2", 0), ("3", 0), ("all", 0), ("0", 1), ("1", 1), ("explicit", 1)],
)
def test_autoreload_sees_to_it_in_the_modes_that_do(said, shell, line, hints):
    importlib.import_module("hinted")
    shell.run_line_magic("load_ext", "autoreload")
    shell.run_line_magic("autoreload", line)
    try:
        assert len(said(EDIT)) == hints
    finally:
        shell.run_line_magic("autoreload", "0")


def test_autoreload_of_named_modules_sees_to_those(said, shell):
    importlib.import_module("hinted")
    shell.run_line_magic("load_ext", "autoreload")
    shell.run_line_magic("autoreload", "1")
    shell.run_line_magic("aimport", "hinted")
    assert said(EDIT) == ()
    shell.run_line_magic("autoreload", "2")
    shell.run_line_magic("aimport", "-hinted")
    assert said(BACK) == (HINT,)


def test_an_interrupted_turn_says_what_it_had_changed(said, agent):
    importlib.import_module("hinted")
    with pytest.raises(TurnInterrupted):
        said(EDIT, tool_call("python", code="raise KeyboardInterrupt"))
    assert agent.turns[-1].outcome == "interrupted"
    assert agent.turns[-1].warnings == (HINT,)


class Broken:
    def on_turn_start(self):
        raise OSError("no")

    def on_turn_end(self, files):
        raise OSError("no")


def test_a_turn_hook_that_fails_fails_no_turn(said, agent):
    agent.turn_hooks.append(Broken())
    importlib.import_module("hinted")
    told = said(EDIT)
    assert agent.turns[-1].outcome == "done"
    assert HINT in told
    assert "a remark on this turn could not be made: OSError." in told


# Packages.


def wheel(folder: Path, version: str) -> Path:
    path = folder / f"hinted_pack-{version}-py3-none-any.whl"
    info = f"hinted_pack-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hinted_pack/__init__.py", f"__version__ = {version!r}\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: hinted-pack\nVersion: {version}\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*archive.namelist(), f"{info}/RECORD"]))
    return path


@pytest.fixture
def site(folder, shell, tmp_path, monkeypatch) -> Path:
    """Where packages of an environment of its own are; this process imports from there. `lay` is for code in turns, too."""
    venv.create(tmp_path / "env")
    [made] = (tmp_path / "env" / "lib").glob("python*/site-packages")
    monkeypatch.syspath_prepend(str(made))
    shell.user_ns["lay"] = partial(lay, made)
    return made


def lay(site: Path, version: str) -> None:
    """As an installer leaves it: without the version of before."""
    for old in site.glob("hinted_pack-*.dist-info"):
        shutil.rmtree(old)
    with zipfile.ZipFile(wheel(site.parent, version)) as archive:
        archive.extractall(site)


def laid(version: str) -> dict:
    return tool_call("python", code=f"lay({version!r})")


@pytest.mark.long
def test_pip_puts_another_version_under_what_is_imported(said, site, tmp_path):
    lay(site, "2.1.0")
    assert importlib.import_module("hinted_pack").__version__ == "2.1.0"
    pip = f"{sys.executable} -m pip --python {tmp_path}/env/bin/python install --no-index --quiet"
    upgrade = tool_call("bash", timeout=120, command=f"{pip} {wheel(tmp_path, '2.2.3')}")
    assert said(upgrade) == ("hinted_pack 2.2.3 was installed (2.1.0 is imported): restart the kernel",)


def test_what_is_imported_is_named_whatever_came_since(said, site):
    lay(site, "1.0")
    importlib.import_module("hinted_pack")
    assert said(laid("2.0")) == ("hinted_pack 2.0 was installed (1.0 is imported): restart the kernel",)
    assert said(laid("2.0")) == ()
    assert said(laid("3.0")) == ("hinted_pack 3.0 was installed (1.0 is imported): restart the kernel",)
    assert said(laid("1.0")) == ()


def test_a_package_that_is_new_can_be_imported_at_once(said, site):
    with pytest.raises(ImportError):
        importlib.import_module("hinted_pack")
    assert said(laid("1.0")) == ()
    assert importlib.import_module("hinted_pack").__version__ == "1.0"


def test_a_package_that_no_one_had_imported_is_no_news(said, site):
    lay(site, "1.0")
    assert said(laid("2.0"), tool_call("python", code="import hinted_pack")) == ()
    assert importlib.import_module("hinted_pack").__version__ == "2.0"


def test_what_the_person_installed_between_turns_is_no_news(said, site):
    lay(site, "1.0")
    assert said() == ()
    importlib.import_module("hinted_pack")
    lay(site, "2.0")
    assert said() == ()
