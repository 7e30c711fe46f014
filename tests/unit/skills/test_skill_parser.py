"""Reading a SKILL.md: the format's fields, and everything that can be wrong with a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kin_nb.core.skills.models import SkillError, SkillMetadata, read_skill
from tests.table import each_row

FULL = """\
---
name: pdf-forms
description: Fill in PDF forms. Use when a form is mentioned.
license: Apache-2.0
compatibility: needs qpdf
metadata:
  version: 1.10
  author: on
allowed-tools: Read, Bash(git add:*) Grep
---

# Forms

---
Steps.
"""


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "SKILL.md"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_every_field_of_the_format_is_read(tmp_path):
    skill, body = read_skill(write(tmp_path, FULL))
    assert (skill.name, skill.license, skill.compatibility) == ("pdf-forms", "Apache-2.0", "needs qpdf")
    assert skill.description == "Fill in PDF forms. Use when a form is mentioned."
    assert skill.metadata == {"version": "1.10", "author": "on"}
    assert skill.allowed_tools == ["Read", "Bash(git add:*)", "Grep"]
    assert (skill.skill_path, skill.skill_dir) == (tmp_path / "SKILL.md", tmp_path)
    assert body == "# Forms\n\n---\nSteps."


@pytest.mark.parametrize(
    "content",
    [
        "---\r\nname: a\r\ndescription: d\r\n---\r\nB\r\n",
        "\ufeff---\nname: a\ndescription: d\n---\nB",
        "--- \nname: a\ndescription: >\n  d\n---\nB\n",
        "---\nname: a\ndescription: d\nmetadata:\nallowed-tools: []\nhooks: {x: [1]}\n---\n\nB",
    ],
)
def test_line_ends_byte_order_marks_and_unknown_keys_do_no_harm(tmp_path, content):
    skill, body = read_skill(write(tmp_path, content))
    assert (skill.name, skill.description, skill.metadata, skill.allowed_tools, body) == ("a", "d", {}, [], "B")


def test_a_skill_may_have_no_body(tmp_path):
    assert read_skill(write(tmp_path, "---\nname: a\ndescription: d\n---"))[1] == ""


def front(lines: str) -> str:
    return f"---\n{lines}\n---\nbody\n"


@each_row(
    ("content", "said"),
    [
        ("# no frontmatter\n", "does not begin with frontmatter"),
        ("---\nname: a\ndescription: never closed\n", "does not begin with frontmatter"),
        (front("name: a"), "description: Field required"),
        (front("description: d"), "name: Field required"),
        (front("name: a\ndescription:"), "description"),
        (front("name: a\ndescription: '  '"), "description"),
        (front("name: My Skill\ndescription: d"), "name: "),
        (front("name: ../up\ndescription: d"), "name: "),
        (front(f"name: {'a' * 65}\ndescription: d"), "name: "),
        (front(f"name: a\ndescription: {'d' * 1025}"), "description: "),
        (front("name: a\ndescription: d\nmetadata: [1]"), "metadata: "),
        (front("name: a\ndescription: d\nmetadata:\n  x: [1]"), "metadata.x: "),
        (front("name: a\ndescription: [d"), "SKILL.md:4: its frontmatter is not valid YAML: "),
        (front("name: a\n\tdescription: d"), "SKILL.md:3: its frontmatter is not valid YAML: "),
        (front("- a\n- b"), "must be lines of `key: value`"),
        (front("a\n--- \nb"), "must be lines of `key: value`"),
        (front("[" * 1_100), "not valid YAML"),
        (front("name: a\ndescription: d\nx: " + "y" * 20_000), "longer than 16,384"),
        (front("name: a\ndescription: \0"), "not valid YAML"),
        (b"---\nname: a\ndescription: \xff\n---\n", "not UTF-8"),
        (front("name: a\ndescription: d") + "x" * 300_000, "larger than"),
    ],
)
def test_a_broken_file_is_one_error_that_names_it(tmp_path, content, said):
    with pytest.raises(SkillError) as error:
        read_skill(write(tmp_path, content))
    assert str(error.value).startswith(str(tmp_path / "SKILL.md"))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_tag_makes_no_object(tmp_path):
    marker = tmp_path / "made"
    content = front(f"name: a\ndescription: !!python/object/apply:os.mkdir ['{marker}']")
    with pytest.raises(SkillError, match="description"):
        read_skill(write(tmp_path, content))
    assert not marker.exists()


def test_text_that_multiplies_itself_is_refused_at_once(tmp_path):
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]
    with pytest.raises(SkillError, match=r"metadata\.m"):
        read_skill(write(tmp_path, front("\n".join([*lines, "name: a", "description: d", "metadata: {m: *a59}"]))))


def test_a_named_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "SKILL.md")
    with pytest.raises(SkillError, match="named pipe"):
        read_skill(tmp_path / "SKILL.md")


def test_metadata_is_a_value_of_its_own():
    skill = SkillMetadata(name="a", description="d", allowed_tools=["Read"])
    assert (skill.metadata, skill.allowed_tools, skill.license) == ({}, ["Read"], None)
