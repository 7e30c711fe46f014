"""Files of drift rules: what a user may write, what is refused and how, and that no pattern of theirs holds up a run."""

from __future__ import annotations

import json

import pytest

from kin_nb.core.records import RecordedCall
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.rerun import rules
from kin_nb.replay.rerun.drift import compare_call
from kin_nb.replay.rerun.rules import built_in_rules, compare_under_rules, load_rules
from tests.table import each_row

BUILD = """
[[rule]]
name = "build"
description = "the build's number"
pattern = 'build (?:\\d+)'
"""


@pytest.fixture
def load(tmp_path):
    """Loads the rules of a file with this text."""

    def load(text, name="mine.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return load_rules([path])

    return load


def call(output: str, command: str = "make", tool: str = "bash") -> RecordedCall:
    arguments = json.dumps({"command": command})
    return RecordedCall(id="c", name=tool, arguments=arguments, status="ok", output=output, exit=0)


def test_without_files_the_rules_are_the_built_in_ones():
    assert load_rules() == built_in_rules()


def test_a_rule_of_a_file_lets_what_it_matches_differ_and_the_detail_names_it(load):
    drift = compare_call(call("build 1\nfine"), call("build 22\nfine"), load(BUILD))
    assert (drift.kind, drift.rules) == ("equivalent", ("build",))
    assert drift.detail == "the build's number (rule build of mine.toml)"
    assert compare_call(call("build 1\nfine"), call("build 22\nwrong"), load(BUILD)).kind == "text"
    assert compare_call(call("build 1"), call("build 22")).kind == "text"


def test_both_kinds_of_rules_may_be_needed(load):
    then, now = call("build 1\n1 passed in 1s", "pytest"), call("build 2\n1 passed in 2s", "pytest")
    assert compare_call(then, now, load(BUILD)).rules == ("R2", "build")


@each_row(
    ("more", "command", "tool", "kind"),
    [
        ('commands = ["make"]', "make", "bash", "equivalent"),
        ('commands = ["make"]', "cd a && make -k", "bash", "equivalent"),
        ('commands = ["tsc"]', "make", "bash", "text"),
        ('commands = ["tsc"]\nsignature = "^build"', "make", "bash", "equivalent"),
        ('commands = ["tsc"]\nsignature = "never"', "make", "bash", "text"),
        ('commands = ["make"]', "make", "read_file", "text"),
        ('tools = ["read_file"]', "make", "read_file", "equivalent"),
        ('tools = ["read_file"]', "make", "bash", "text"),
        ('tools = ["bash"]\ncommands = ["make"]', "make", "bash", "equivalent"),
    ],
)
def test_a_rule_holds_for_the_commands_and_tools_that_it_names(load, more, command, tool, kind):
    then, now = call("build 1", command, tool), call("build 22", command, tool)
    assert compare_call(then, now, load(BUILD + more)).kind == kind


def test_an_ordinary_cell_is_compared_only_under_rules_without_commands_and_tools(load):
    assert compare_under_rules("build 1", "build 2", load(BUILD)).equal
    assert not compare_under_rules("build 1", "build 2", load(BUILD + 'tools = ["bash"]')).equal
    assert not compare_under_rules("build 1", "build 2", load(BUILD + 'commands = ["make"]')).equal


def rule(**fields):
    lines = {"name": "a", "description": "what", "pattern": "x\\d+"} | fields
    return "[[rule]]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in lines.items() if value is not None)


@each_row(
    ("pattern", "compare", "then", "now", "equal"),
    [
        (["^a=(.)\\d$", "^b=\\d+$"], "groups", "a=x1\nb=1", "a=x2\nb=22", True),
        (["^a=(.)\\d$", "^b=\\d+$"], "groups", "a=x1\nb=1", "a=y1\nb=1", False),
        ("id (\\d+)", "numbered", "id 1 id 2 id 1", "id 7 id 8 id 7", True),
        ("id (\\d+)", "numbered", "id 1 id 2 id 1", "id 7 id 8 id 8", False),
        ("(?:^- .*\\n)+", "sorted", "- a\n- b\n", "- b\n- a\n", True),
        ("(?:^- .*\\n)+", "sorted", "- a\n- b\n", "- b\n- c\n", False),
        ("(?i)took \\d+", "groups", "Took 1", "took 2", True),
        ("\u00e9\\d", "groups", "\u00e91\ud800", "\u00e92\ud800", True),
    ],
)
def test_what_of_a_match_is_compared(load, pattern, compare, then, now, equal):
    assert compare_under_rules(then, now, load(rule(pattern=pattern, compare=compare))).equal is equal


@each_row(
    ("text", "says"),
    [
        ("[[rule]\n", ":1: not valid TOML: "),
        ("", ": it contains no rules. Each rule is a [[rule]] table."),
        ("rule = 1\n", ": it contains no rules. Each rule is a [[rule]] table."),
        (f"{BUILD}\n[[rules]]\n", ":7: unknown key 'rules'. A rules file contains only [[rule]] tables."),
        (rule(pattern=None), ":1: rule a: pattern: Field required."),
        (rule(name=None), ":1: rule number 1: name: Field required."),
        (rule(name="two words"), ":2: rule two words: name: String should match pattern "),
        (rule(description="a\nb"), ":3: rule a: description: String should match pattern "),
        (rule(regex="x"), ":5: rule a: regex: Extra inputs are not permitted."),
        (rule(commands="make"), ":5: rule a: commands: Input should be a valid list."),
        (rule(compare="all"), ":5: rule a: compare: Input should be 'groups', 'numbered' or 'sorted'."),
        (rule(pattern="(x"), ":4: rule a: pattern: '(x' is not a regular expression: missing ), "),
        (rule(pattern=["x", "y)("]), ":4: rule a: pattern: 'y)(' is not a regular expression: "),
        (rule(pattern="x{99999999999}"), ":4: rule a: pattern: 'x{99999999999}' is not a regular expression: "),
        (rule(signature="["), ":5: rule a: signature: '[' is not a regular expression: "),
        (rule(pattern="x*"), ":4: rule a: pattern: it matches the empty text, and so everywhere."),
        (rule(pattern=[]), ":4: rule a: pattern: it matches the empty text, and so everywhere."),
        (rule(pattern=".+"), ":4: rule a: pattern: it would let any text differ. Include more of the text around it."),
        (
            rule(pattern="\\w+"),
            ":4: rule a: pattern: it would let any text differ. Include more of the text around it.",
        ),
        (rule(pattern="(\\S+)", compare="numbered"), ":4: rule a: pattern: it would let any text differ. "),
        (rule(compare="numbered"), ':4: rule a: pattern: compare = "numbered" needs exactly one group, and it has 0.'),
        (f"{rule()}\n{rule()}", ":6: rule a: name: this file already has a rule with this name."),
        (rule(name="R1"), ":2: rule R1: name: the built-in rules already has a rule with this name."),
    ],
)
def test_a_bad_file_is_an_error_that_names_file_line_and_rule(tmp_path, text, says):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ReplayError) as error:
        load_rules([path])
    assert str(error.value).startswith(f"{path}{says}")


def test_two_files_have_no_rule_of_one_name(tmp_path):
    for name in ("a.toml", "b.toml"):
        (tmp_path / name).write_text(BUILD)
    with pytest.raises(ReplayError, match=r"b\.toml:3: rule build: name: a\.toml already has a rule with this name"):
        load_rules([tmp_path / "a.toml", tmp_path / "b.toml"])


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "a.toml").write_bytes(b"\xff")
    with pytest.raises(ReplayError, match=r"a\.toml: the rules cannot be read: it is not UTF-8\."):
        load_rules([tmp_path / "a.toml"])
    with pytest.raises(ReplayError, match=r"gone\.toml: the rules cannot be read: No such file or directory\."):
        load_rules([tmp_path / "gone.toml"])


def test_a_pattern_that_takes_too_long_is_ended_and_named(load, monkeypatch):
    monkeypatch.setattr(rules, "CPU_SECONDS", 1)
    slow = rule(name="slow", pattern="x(?:a+)+$")
    then, now = call("build 1\nx" + "a" * 40 + "!"), call("build 2\nx" + "a" * 40 + "?")
    drift = compare_call(then, now, load(BUILD + slow))
    assert (drift.kind, drift.line) == ("text", 1)
    assert drift.detail == (
        "rule slow of mine.toml needs more than 1 s of processor time, so no rule from a file was used: "
        "line 1: recorded 'build 1', now 'build 2'"
    )
