"""Which skills there are, which one of two stays, and what the model reads of one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kin_nb.core.config import KinConfig
from kin_nb.core.skills import SkillError, SkillManager, expand_skill


def put(folder: Path, name: str, description: str = "d", body: str = "Do it.") -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: {name}\ndescription: {description}\n---\n{body}\n")
    return path


def test_without_any_folder_there_are_none_and_nothing_to_warn_of(config):
    skills = SkillManager(config, trusted=True)
    assert (skills.available, skills.warnings) == ({}, [])
    with pytest.raises(SkillError, match=r"There are none. A skill is a folder with a SKILL.md in .*kin-home/skills"):
        skills.load("x")


def test_the_nearer_of_two_stays_and_all_are_in_order(config, home, tmp_path):
    workdir = config.effective_workdir
    put(home / "skills", "b", "person")
    put(home / "skills", "z", "person")
    put(workdir / ".agents" / "skills", "b", "agents folder")
    put(workdir / ".kin-code" / "skills", "b", "project")
    put(tmp_path / "more", "a", "configured")
    put(workdir / "near", "z", "configured, relative")
    config = config.model_copy(update={"skill_paths": [tmp_path / "more", Path("near")]})
    skills = SkillManager(config, trusted=True)
    assert [(name, skill.description) for name, skill in skills.available.items()] == [
        ("a", "configured"),
        ("b", "project"),
        ("z", "configured, relative"),
    ]
    assert skills.warnings == []


def test_an_untrusted_project_brings_no_skill(config, home):
    put(config.effective_workdir / ".kin-code" / "skills", "a")
    put(config.effective_workdir / ".agents" / "skills", "b")
    put(home / "skills", "c")
    assert list(SkillManager(config, trusted=False).available) == ["c"]
    assert list(SkillManager(config, trusted=True).available) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ({"enabled_skills": ["pdf-*"]}, ["pdf-fill", "pdf-read"]),
        ({"disabled_skills": ["re:PDF-.*"]}, ["docs"]),
        ({"enabled_skills": ["docs"], "disabled_skills": ["docs"]}, ["docs"]),
    ],
)
def test_skills_are_chosen_by_pattern(config, home, settings, left):
    for name in ("pdf-read", "pdf-fill", "docs"):
        put(home / "skills", name)
    assert list(SkillManager(config.model_copy(update=settings), trusted=False).available) == left


def test_a_broken_skill_is_a_warning_and_the_rest_works(config, home):
    broken = put(home / "skills", "broken")
    broken.write_text("nothing")
    put(home / "skills", "good")
    (home / "skills" / "README.md").write_text("no skill")
    (home / "skills" / "empty").mkdir()
    (home / "skills" / "dangling").symlink_to("nowhere")
    skills = SkillManager(config, trusted=False)
    assert list(skills.available) == ["good"]
    assert [warning.partition(":")[0] for warning in skills.warnings] == [str(broken)]


def test_a_name_that_is_not_its_folders_is_a_warning_and_still_works(config, home):
    path = put(home / "skills", "one")
    path.parent.rename(home / "skills" / "two")
    skills = SkillManager(config, trusted=False)
    assert list(skills.available) == ["one"]
    assert skills.warnings == [
        f'{home}/skills/two/SKILL.md: name: it says "one", and its folder is "two".',
    ]


def test_a_configured_folder_that_is_not_there_is_a_warning(config, home):
    (home / "file").write_text("")
    config = config.model_copy(update={"skill_paths": [Path("~no-such-user/x"), home / "file"]})
    warnings = SkillManager(config, trusted=False).warnings
    assert [warning.rpartition(": ")[2] for warning in warnings] == [
        "there is no such file or folder.",
        "not a directory.",
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_is_a_warning(config, home):
    put(home / "skills", "a")
    (home / "skills").chmod(0)
    skills = SkillManager(config, trusted=False)
    (home / "skills").chmod(0o700)
    assert skills.warnings == [f"{home}/skills: permission denied."]


def test_loading_gives_the_body_its_place_and_its_other_files(config, home):
    folder = put(home / "skills", "a", body="# How\nRun x.").parent
    for name in ("scripts/run.py", "b.md", "scripts/__pycache__/run.pyc", ".hidden"):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text("")
    assert SkillManager(config, trusted=False).load("a") == (
        f'<skill name="a">\nPaths in this skill are relative to {folder}\nIts other files:\n  b.md\n  scripts/run.py\n\n'
        "# How\nRun x.\n</skill>"
    )


def test_the_list_of_files_and_the_body_are_bounded(config, home):
    folder = put(home / "skills", "a", body="x" * 100_000).parent
    for number in range(60):
        (folder / f"{number:02}.txt").write_text("")
    text = SkillManager(config, trusted=False).load("a")
    assert "  49.txt\n  … and more than 50\n" in text
    assert f"[… the rest is in {folder}/SKILL.md …]" in text
    assert len(text) < 40_000


def test_an_unknown_name_comes_with_the_nearest(config, home):
    put(home / "skills", "pdf-forms")
    put(home / "skills", "docs")
    skills = SkillManager(config, trusted=False)
    with pytest.raises(SkillError, match=r"Unknown skill 'pdf-form'. Did you mean pdf-forms\?"):
        skills.load("pdf-form")
    with pytest.raises(SkillError, match=r"Skills: docs, pdf-forms\."):
        skills.load("qqqq")


def test_a_skill_that_is_gone_since_says_so(config, home):
    path = put(home / "skills", "a")
    skills = SkillManager(config, trusted=False)
    path.unlink()
    with pytest.raises(SkillError, match="there is no such file"):
        skills.load("a")


def test_a_prompt_that_names_a_skill_becomes_its_text_and_the_request(config, home):
    put(home / "skills", "a", body="How to.")
    skills = SkillManager(config, trusted=False)
    text = skills.load("a")
    assert expand_skill("/skill:a fill in\nthe form ", skills) == f"{text}\n\nfill in\nthe form"
    assert expand_skill("/skill:a", skills) == f"{text}\n\nDo what this skill describes."
    assert expand_skill("what does /skill:a do?", skills) is None
    assert expand_skill("/skills", skills) is None
    with pytest.raises(SkillError, match="Did you mean a"):
        expand_skill("/skill:aa x", skills)


def test_allowed_tools_are_data(config: KinConfig, home: Path):
    path = put(home / "skills", "a")
    path.write_text("---\nname: a\ndescription: d\nallowed-tools: [bash]\n---\n")
    assert SkillManager(config, trusted=False).available["a"].allowed_tools == ["bash"]
