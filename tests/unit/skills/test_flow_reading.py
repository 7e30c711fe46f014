"""Diagrams become flows, and all that can be wrong with one is reported with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kin_nb.core.skills import SkillError, SkillManager
from kin_nb.core.skills.flows import Flow, FlowError, read_flow
from kin_nb.core.skills.models import read_skill
from tests.table import each_row

DOCS = Path(__file__).parents[3] / "docs" / "how-to" / "write-a-flow.md"
FIRST = 7  # the line that a diagram written by `put` begins on


def put(folder: Path, diagram: str, language: str = "mermaid", name: str = "f") -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: d\ntype: flow\n---\n```{language}\n{diagram}\n```\n")
    return path


def edges(flow: Flow) -> list[tuple[str, str, str]]:
    return [(node.id, edge.label, edge.target) for node in flow.nodes.values() for edge in node.edges]


def labels(flow: Flow) -> dict[str, str]:
    return {node.id: node.label for node in flow.nodes.values() if node.id not in ("BEGIN", "END")}


def mermaid(tmp_path: Path, *lines: str) -> Flow:
    return read_flow(put(tmp_path, "\n".join(["flowchart TD", *lines])))


def d2(tmp_path: Path, *lines: str) -> Flow:
    return read_flow(put(tmp_path, "\n".join(lines), "d2"))


def test_both_examples_of_the_documentation_are_the_same_flow(tmp_path):
    examples = re.findall(r"````markdown\n(.*?)````", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    flows = []
    for number, text in enumerate(examples):
        path = tmp_path / str(number) / "SKILL.md"
        path.parent.mkdir()
        path.write_text(text)
        flows.append(read_flow(path))
    one, other = flows
    assert labels(one) == labels(other)
    assert sorted(edges(one)) == sorted(edges(other))
    assert labels(one)["fix"] == "Fix the first failure: its cause, not the test."
    assert [node.id for node in one.nodes.values() if node.is_decision] == ["passed"]
    assert one.first.id == "run"


@each_row("header", ["flowchart TD", "graph LR;", "flowchart", "graph TB  ", "%% a comment\ngraph RL"])
def test_headers(tmp_path, header):
    assert labels(read_flow(put(tmp_path, f"{header}\nBEGIN --> A[Do it] --> END"))) == {"A": "Do it"}


@each_row(
    ("written", "label"),
    [
        ("A[Do it]", "Do it"),
        ("A(Do it)", "Do it"),
        ("A([Do it])", "Do it"),
        ("A[[Do it]]", "Do it"),
        ("A[(Do it)]", "Do it"),
        ("A((Do it))", "Do it"),
        ("A(((Do it)))", "Do it"),
        ("A{Do it}", "Do it"),
        ("A{{Do it}}", "Do it"),
        ("A>Do it]", "Do it"),
        ("A[/Do it/]", "Do it"),
        ("A[\\Do it/]", "Do it"),
        ("A[  Do it  ]", "Do it"),
        ('A["Do [it] (now); %% not a comment --> |really|"]', "Do [it] (now); %% not a comment --> |really|"),
        ('A{ "Is it so?" }', "Is it so?"),
        ('A["two\nlines"]', "two\nlines"),
        ("A[two<br/>lines<BR>more]", "two\nlines\nmore"),
        ('A["say #quot;hi#quot; #35;1 in #python; or #foo;"]', 'say "hi" #1 in #python; or #foo;'),
        ('A["`some **bold** words`"]', "some **bold** words"),
        ("A[call f() twice]", "call f() twice"),
        ("A[(x) and (y) too]", "(x) and (y) too"),
        ("A[Do it]:::important", "Do it"),
        ("A", "A"),
        ("Überprüfen", "Überprüfen"),
        ("run-all.tests", "run-all.tests"),
    ],
)
def test_mermaid_nodes(tmp_path, written, label):
    for statement in (
        f"BEGIN --> {written} --> END",
        f"BEGIN-->{written}-->END",
        f"{written}\nBEGIN --> {written}-->END;",
    ):
        assert list(labels(mermaid(tmp_path, statement)).values()) == [label]


@each_row(
    "arrow",
    [
        *("-->|x|", "-->| x |", '-->|"x"|', "--> |x|", "-- x -->", '-- "x" -->', "--x-->", "---->|x|", "-- x ---->"),
        *("-.->|x|", "-. x .->", "-..->|x|", "==>|x|", "== x ==>", "====>|x|"),
    ],
)
def test_mermaid_arrows_with_labels(tmp_path, arrow):
    flow = mermaid(tmp_path, f"BEGIN --> A {arrow} B", "A -->|y| END", "B --> A")
    assert edges(flow) == [("BEGIN", "", "A"), ("A", "x", "B"), ("A", "y", "END"), ("B", "", "A")]
    assert edges(mermaid(tmp_path, f"BEGIN-->A{arrow}B;A-->|y|END;B-->A")) == edges(flow)


def test_what_means_nothing_in_mermaid_is_passed_over(tmp_path):
    flow = mermaid(
        tmp_path,
        "%%{init: {'theme': 'dark'}}%%",
        "direction LR",
        "subgraph one [The first part]",
        "  BEGIN --> A[a]; A --> B[b]  %% and then",
        "end",
        "subgraph two",
        "  B --> END([END])",
        "end;",
        "classDef big font-size:20px",
        "class A,B big",
        "style A fill:#f9f,stroke:#333",
        "linkStyle 0 stroke:red",
        'click A "https://example.org" _blank',
    )
    assert edges(flow) == [("BEGIN", "", "A"), ("A", "", "B"), ("B", "", "END")]


def test_begin_and_end_by_label(tmp_path):
    flow = mermaid(tmp_path, "start([Begin]) --> A[a] --> stop([end])")
    assert (flow.begin, flow.end, flow.first.id) == ("start", "stop", "A")


def test_a_title_before_the_diagram(tmp_path):
    assert labels(read_flow(put(tmp_path, "---\ntitle: It\n---\nflowchart TD\nBEGIN --> A --> END"))) == {"A": "A"}


@each_row(
    ("written", "label"),
    [
        ("a: Do it", "Do it"),
        ("a: Do it # not this", "Do it"),
        ("a: Do issue#4", "Do issue#4"),
        ('a: "Do: it; {now} # really"', "Do: it; {now} # really"),
        ("a: 'Do it'", "Do it"),
        ('a: "two\\nlines, \\"quoted\\""', 'two\nlines, "quoted"'),
        ("a: |md\n  # Do\n\n    - it\n|", "# Do\n\n  - it"),
        ("a: |Do it|", "Do it"),
        ("a: ||md\n  x | y\n||", "x | y"),
        ("a: |`text\n  x || y\n`|", "x || y"),
        ("a: Do it {shape: diamond; style.fill: red}", "Do it"),
        ("a: {\n  label: Do it\n  style: {\n    fill: '}'\n  }\n}", "Do it"),
        ("a.label: Do it\na.shape: circle\na.style.fill: red", "Do it"),
        ("a: {shape: circle}\na: Do it", "Do it"),
        ("a", "a"),
        ("'a': Do it", "Do it"),
    ],
)
def test_d2_nodes(tmp_path, written, label):
    assert labels(d2(tmp_path, "BEGIN -> a -> END", written)) == {"a": label}
    assert labels(d2(tmp_path, written, "", "BEGIN -> a", "a -> END")) == {"a": label}


@each_row(
    "edge",
    [
        *(
            "a -> b: x",
            "a->b:x",
            'a -> "b": "x"',
            "a --> b: x",
            "b <- a: x",
            "a -> b: x {style.stroke: red}",
            "a -> b: {label: x}",
        ),
        *("a -> b: |md x |", "a -> b: x # why", "a -> b: x; # and so on", "'a'->b: 'x'"),
    ],
)
def test_d2_arrows_with_labels(tmp_path, edge):
    flow = d2(tmp_path, "BEGIN -> a", edge, "a -> END: y", "b -> a")
    assert edges(flow) == [("BEGIN", "", "a"), ("a", "x", "b"), ("a", "y", "END"), ("b", "", "a")]


def test_what_means_nothing_in_d2_is_passed_over(tmp_path):
    flow = d2(
        tmp_path,
        "# a comment; with -> an arrow",
        '"""\na block of comment -> x\n"""',
        "direction: right",
        "vars: {\n  config: {theme: {id: 1}}\n}",
        "classes.big: {shape: circle}",
        "BEGIN -> write the tests -> END; BEGIN.shape: circle",
        "(BEGIN -> write the tests)[0].style.stroke: red",
    )
    assert edges(flow) == [("BEGIN", "", "write the tests"), ("write the tests", "", "END")]


OK = "A[a] --> END"


@each_row(
    ("lines", "line", "said"),
    [
        ((OK,), 0, "no node is BEGIN; a flow has exactly one, with BEGIN as its label."),
        (("BEGIN --> A --> A",), 0, "no node is END"),
        (("BEGIN --> A", OK, "x([begin]) --> A"), 3, "a second node is BEGIN; a flow has exactly one (line 8)."),
        (("BEGIN --> A", OK, "A --> x[END]"), 3, "a second node is END"),
        (("BEGIN --> A", "BEGIN --> B", "A --> END", "B --> END"), 1, "2 edges lead away from BEGIN"),
        (("BEGIN --> A", OK, "END --> A"), 3, "an edge leads away from END"),
        (("BEGIN --> END",), 1, "nothing is done between BEGIN and END"),
        (("BEGIN --> A", OK, "B[Look] --> END"), 3, "no way leads from BEGIN to “Look”"),
        (("BEGIN --> A -->|x| END", "A -->|y| B[Look]"), 2, "no edge leads away from “Look”"),
        (("BEGIN --> A -->|x| END", "A -->|y| B", "B --> C", "C --> B"), 2, "no way leads from “B” to END"),
        (("BEGIN --> A --> A", "END"), 1, "no way leads from “A” to END"),
        (
            ("BEGIN --> A{Well?}", "A -->|x| END", "A --> B", "B --> A"),
            3,
            "“Well?” has several edges, and this one has no",
        ),
        (
            ("BEGIN --> A{?}", "A -->|x| END", "A -->|x| B", "B --> A"),
            3,
            "two edges of “?” say “x” (line 9); they must",
        ),
        (("BEGIN --> A -->|x| END", "A -->|y| BEGIN"), 2, "an edge leads back to BEGIN"),
        (("BEGIN --> A", 'A[""] --> END'), 2, "the node A has an empty label"),
        (("BEGIN --> A", "A[ ] --> END"), 2, "the node A has an empty label"),
        (("BEGIN --> A[a]", "A[b] --> END"), 2, "the node A has another label on line 8; write it once."),
        (("BEGIN --> A", "A -->"), 2, "an edge of A leads nowhere"),
        (("BEGIN --> A", OK, "A -->|x", "B"), 3, "an edge of A leads nowhere"),
        (("BEGIN --> A", "A --- END"), 2, "an edge needs one direction"),
        (("BEGIN --> A", "A <--> END"), 2, "an edge needs one direction"),
        (("BEGIN --> A & B --> END",), 1, "“& B --> END” can't be read here. Write one statement a line"),
        (("BEGIN --> A", "A[a --> END"), 2, "“[a --> END” can't be read here"),
        (("BEGIN --> A", 'A["a] --> END'), 2, "“[\"a] --> END” can't be read here"),
        (("BEGIN --> A", OK, "--> B"), 3, "“--> B” can't be read here"),
        (("BEGIN --> A", OK, "class --> A"), 3, "no way leads from BEGIN to “class”"),
    ],
)
def test_what_is_wrong_with_a_mermaid_diagram(tmp_path, lines, line, said):
    path = put(tmp_path, "\n".join(["flowchart TD", *lines]))
    with pytest.raises(FlowError) as error:
        read_flow(path)
    assert str(error.value).startswith(f"{path}:{FIRST + line}: {said}")
    assert "\n" not in str(error.value)


@each_row(
    ("lines", "line", "said"),
    [
        (("a -> END",), 1, "no node is BEGIN"),
        (("BEGIN -> a -> END", "a: {", "  b: inside", "}"), 3, "Containers are not part of a flow"),
        (("BEGIN -> a -> END", "a.b: inside"), 2, "Containers are not part of a flow"),
        (("BEGIN -> a -> END", "a -> x.y"), 2, "Containers are not part of a flow"),
        (("BEGIN -> a -> END", "a -- b"), 2, "an edge needs one direction"),
        (("BEGIN -> a -> END", "a <-> b"), 2, "an edge needs one direction"),
        (("BEGIN -> a -> END", "a ->"), 2, "“” can't be read here. A node's name is missing"),
        (("BEGIN -> a -> END", ": x"), 2, "“: x” can't be read here. A node's name is missing"),
        (("BEGIN -> a -> END", "a: |md", "never closed"), 2, "a block of text begins here and has no end"),
        (("BEGIN -> a -> END", "a: {style: {"), 2, "a brace is not closed"),
        (("BEGIN -> a -> END", "a: { label: x"), 2, "A node's name is missing"),
        (("BEGIN -> a -> END", "}"), 2, "“}” can't be read here"),
        (("BEGIN -> a -> END", "a: ''"), 2, "the node a has an empty label"),
        (("BEGIN -> a -> END", "a: x", "a: y"), 3, "the node a has another label on line 8"),
        (("BEGIN -> a", "a -> END: x", "a -> b: x", "b -> a"), 3, "two edges of “a” say “x” (line 8)"),
    ],
)
def test_what_is_wrong_with_a_d2_diagram(tmp_path, lines, line, said):
    path = put(tmp_path, "\n".join(lines), "d2")
    with pytest.raises(FlowError) as error:
        read_flow(path)
    place, _, what = str(error.value).removeprefix(f"{path}:").partition(": ")
    assert said in what
    assert int(place) == FIRST + line - 1


@each_row(
    ("body", "line", "said"),
    [
        ("Only words.", 6, "a flow has a diagram in its text"),
        ("```python\nx\n```", 6, "a flow has a diagram in its text"),
        ("```mermaid\nflowchart TD\nBEGIN --> A --> END", 6, "a flow has a diagram in its text"),
        ("````\n```mermaid\nflowchart TD\nBEGIN --> A --> END\n```\n````", 6, "a flow has a diagram in its text"),
        ("\n\n```mermaid\n```\n\n```d2\n```", 11, "a second diagram; a flow has exactly one (line 8)."),
        (
            "```mermaid\nsequenceDiagram\n```",
            7,
            "“sequenceDiagram” can't be read here. A mermaid diagram of a flow begins",
        ),
        ("```mermaid\n```", 7, "“” can't be read here"),
        ("```d2\n```", 7, "no node is BEGIN"),
    ],
)
def test_what_is_wrong_with_the_text_around_it(tmp_path, body, line, said):
    path = put(tmp_path, "")
    path.write_text(f"---\nname: f\ndescription: d\ntype: flow\n---\n{body}\n")
    with pytest.raises(FlowError) as error:
        read_flow(path)
    assert str(error.value).startswith(f"{path}:{line}: {said}")


def test_lines_are_counted_from_the_top_of_the_file_whatever_its_line_ends(tmp_path):
    path = put(tmp_path, "")
    path.write_bytes(
        b"---\r\nname: f\r\ndescription: d\r\ntype: flow\r\n---\r\n\r\nWords.\r\n\r\n~~~ mermaid\r\ngraph TD\r\n?\r\n~~~\r\n"
    )
    with pytest.raises(FlowError, match=r"SKILL\.md:11: “\?” can't be read"):
        read_flow(path)


@each_row("language", ["mermaid", "d2"])
@each_row(
    "piece",
    [
        'A["',
        "A[",
        "-",
        "- ",
        "%%",
        "|",
        "{",
        "a:{",
        "a: |",
        '"',
        "style {",
        "a -> ",
        "A -- ",
        "[(",
        "\\",
        " ",
        "<br",
        "#a",
        "a.",
        "'",
        '"""',
    ],
)
def test_long_text_that_is_no_diagram_is_an_error(tmp_path, piece, language):
    head = "flowchart TD\n" if language == "mermaid" else ""
    path = put(tmp_path, f"{head}{piece * (200_000 // len(piece))}", language)
    with pytest.raises(FlowError):
        read_flow(path)


def test_a_long_chain_is_a_flow(tmp_path):
    chain = " --> ".join(["BEGIN", *(f"n{number}" for number in range(5_000)), "END"])
    assert len(mermaid(tmp_path, chain).nodes) == 5_002


def test_a_skill_says_what_it_is(tmp_path):
    path = put(tmp_path, "")
    assert read_skill(path)[0].is_flow
    for kind in ("standard", "prompt", "[flow]"):
        path.write_text(f"---\nname: f\ndescription: d\ntype: {kind}\n---\n")
        assert read_skill(path)[0].type == "standard"
        with pytest.raises(FlowError, match=r"it is not a flow\. To make it one, add the line `type: flow`"):
            read_flow(path)


def test_a_flow_is_found_but_not_offered(config, home):
    put(home / "skills", f"graph TD\nBEGIN --> {OK}")
    skill = home / "skills" / "s" / "SKILL.md"
    skill.parent.mkdir()
    skill.write_text("---\nname: s\ndescription: d\n---\nDo it.\n")
    skills = SkillManager(config, trusted=False)
    assert (list(skills.available), list(skills.flows), skills.warnings) == (["s"], ["f"], [])
    assert labels(skills.flow("f")) == {"A": "a"}
    with pytest.raises(SkillError, match="f is a flow: only the user can start it, with /flow:f"):
        skills.load("f")
    with pytest.raises(SkillError, match="s is a skill, not a flow: /skill:s loads it"):
        skills.flow("s")
    with pytest.raises(SkillError, match=r"Unknown flow 'ff'\. Did you mean f\?"):
        skills.flow("ff")
    with pytest.raises(SkillError, match=r"Unknown flow 'qqqq'\. Flows: f\."):
        skills.flow("qqqq")


def test_a_broken_flow_is_a_warning_with_its_line(config, home):
    path = put(home / "skills", "graph TD\nBEGIN --> A")
    skills = SkillManager(config, trusted=False)
    assert skills.flows == {}
    assert skills.warnings == [f"{path}:7: no node is END; a flow has exactly one, with END as its label."]


def test_a_flow_that_changed_is_read_again(config, home):
    put(home / "skills", "graph TD\nBEGIN --> A --> END")
    skills = SkillManager(config, trusted=False)
    put(home / "skills", "graph TD\nBEGIN --> B --> END")
    assert labels(skills.flow("f")) == {"B": "B"}
