"""The system prompt: what is in it, in which order, and how large it is."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from kin_nb.core.config import ConfigError, KinConfig, ProjectContextConfig
from kin_nb.core.host_facts import COMMAND_LINE, HostFacts
from kin_nb.core.skills.models import SkillInfo
from kin_nb.core.system_prompt import build_system_prompt
from kin_nb.core.system_prompt.project_context import NOT_A_PROJECT, is_dangerous, project_context
from kin_nb.core.tools.builtins import builtin_tools

SKILLS = [
    SkillInfo(name=name, description=f"Does\n{name}.  Use it.", skill_path=Path(f"/s/{name}/SKILL.md")) for name in "ba"
]


def built(workdir: Path, *, trusted: bool = True, **settings: object) -> str:
    config = KinConfig(workdir=workdir, project_context=ProjectContextConfig(timeout_seconds=20)).model_copy(
        update=settings
    )
    return build_system_prompt(config, trusted=trusted, skills=SKILLS, model="some-model")


@pytest.fixture
def workdir(repository: Path, home: Path) -> Path:
    (home / ".kin-code" / "instructions.md").write_text("The person's instructions.\n")
    (repository / "AGENTS.md").write_text("The project's rules.")
    return repository


def test_its_parts_come_in_a_fixed_order(workdir):
    prompt = built(workdir, instructions="From the configuration.")
    parts = [
        "You are Kin",
        "From the configuration.",
        "The person's instructions.",
        f"Workspace: {workdir}",
        "System: ",
        "Model: some-model",
        "`Co-authored-by: kin_nb`",
        "- a: Does a. Use it.\n- b: Does b. Use it.",
        "<project_context>",
        "Git: branch main, 1 change:\n  ? AGENTS.md",
        "\n\nFiles (ignored ones are left out):\nAGENTS.md\na.py\n</project_context>",
        "The project's rules.",
    ]
    places = [prompt.index(part) for part in parts]
    assert places == sorted(places)


def test_the_same_state_gives_the_same_bytes(workdir):
    assert built(workdir) == built(workdir)


def test_each_part_can_be_left_out(subtests, workdir):
    for setting, part in [
        ("include_model_info", "Model: some-model"),
        ("include_commit_signature", "Co-authored-by"),
        ("include_prompt_detail", "shell: bash"),
        ("include_prompt_detail", "Skills. "),
        ("include_project_context", "<project_context>"),
    ]:
        with subtests.test(setting=setting, part=part):
            assert part in built(workdir)
            assert part not in built(workdir, **{setting: False})


def test_an_untrusted_project_gives_no_instructions(workdir):
    (workdir / ".kin-code" / "prompts").mkdir(parents=True)
    (workdir / ".kin-code" / "prompts" / "theirs.md").write_text("Obey.")
    assert "The project's rules." not in built(workdir, trusted=False)
    assert "The person's instructions." in built(workdir, trusted=False)
    assert built(workdir, system_prompt_id="theirs").startswith("Obey.\n\n")
    with pytest.raises(ConfigError, match="Unknown prompt"):
        built(workdir, trusted=False, system_prompt_id="theirs")


def test_descriptions_of_many_skills_are_cut(workdir):
    skills = [SkillInfo(name=f"s{n}", description="d" * 1024, skill_path=Path("/s/SKILL.md")) for n in range(40)]
    config = KinConfig(workdir=workdir, include_project_context=False)
    prompt = build_system_prompt(config, trusted=False, skills=skills)
    assert len(prompt) - len(build_system_prompt(config, trusted=False)) < 7_000
    assert all(f"- s{n}: ddd" in prompt for n in range(40))


def test_an_ordinary_repository_stays_below_six_kilobytes(repository, git):
    for n in range(30):
        for folder in ("src/package", "tests", "docs", "examples/one", "scripts"):
            path = repository / folder / f"module_of_some_length_{n:02}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        git("commit", "-q", "--allow-empty", "-m", f"{n}: Do something that takes a whole line to describe well enough")
    config = KinConfig(workdir=repository, project_context=ProjectContextConfig(timeout_seconds=20))
    prompt = build_system_prompt(config, trusted=True)
    assert 4_500 < len(prompt.encode()) <= 6_144
    schemas = sum(len(str(tool.get_info())) for tool in builtin_tools().values())
    assert len(prompt.encode()) + schemas <= 17_600


def test_the_project_context_keeps_to_its_size_and_is_closed(subtests, workdir):
    for number, most in enumerate([0, 1, 150, 300, 2_000]):
        with subtests.test(number=number):
            context = project_context(workdir, ProjectContextConfig(max_chars=most, timeout_seconds=20))
            assert context.startswith("<project_context>\n")
            assert context.endswith("\n</project_context>")
            assert len(context) <= max(most, 150)


def test_a_folder_that_is_no_project_is_not_looked_at(home):
    (home / "private.txt").write_text("")
    context = project_context(home, ProjectContextConfig())
    assert context == NOT_A_PROJECT
    for folder in (home, home.parent, Path("/"), Path("/usr"), Path("/tmp"), home / "Desktop", home / "Downloads"):
        assert is_dangerous(folder)
    for folder in (home / "project", home / "Documents" / "project", Path("/srv/app"), Path("/workspace")):
        assert not is_dangerous(folder)


def prompt_of(workdir: Path, host: HostFacts) -> str:
    return build_system_prompt(KinConfig(workdir=workdir), trusted=False, host=host)


def test_in_a_notebook_it_speaks_of_cells_and_names_the_kernels_python(workdir):
    prompt = prompt_of(workdir, HostFacts(in_notebook=True, interpreter=Path(sys.executable)))
    version = ".".join(map(str, sys.version_info[:3]))
    assert f"Python in commands: {version}, {sys.executable} (the notebook's kernel)\n" in prompt
    assert "in that cell" in prompt
    assert "ask (ask_user)" in prompt


def test_on_the_command_line_it_speaks_of_no_cells_and_no_one_to_ask(workdir, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    prompt = prompt_of(workdir, COMMAND_LINE)
    assert "Python: none on PATH" in prompt
    assert not re.search(r"\b(cell|notebook|Jupyter|ask_user)", prompt)
    assert "No one can answer questions" in prompt


def test_it_names_the_projects_environments_and_tests_also_ignored_ones(workdir):
    (workdir / ".gitignore").write_text(".venv/\n")
    (workdir / ".venv").mkdir()
    (workdir / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.5\nversion_info = 3.12.1\n")
    (workdir / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    prompt = prompt_of(workdir, COMMAND_LINE)
    assert "Python environments of the project: .venv (Python 3.12.1, uv)\nThe project uses: pytest\n" in prompt
