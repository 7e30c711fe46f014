"""`Html` is a proof that nothing unescaped is drawn: mypy checks its flow, these tests check where it begins."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Formatter

PACKAGE = Path(__file__).parents[3] / "kin_nb"
TYPES = "render/text.py"
"""Html, Attribute, and the only functions that make them of texts."""
MADE_WITHOUT_ESCAPING = {
    ("render/card.py", "card", "Attribute"): "an attribute that is there or not, and `Label`, a type of literals",
    ("render/card.py", "_edge", "Attribute"): "our own colours",
    ("render/card.py", "html", "Html"): "what `Output.of`, which takes Html, has put there",
    ("render/approval.py", "approval_html", "Attribute"): "an attribute that is there or not",
    ("render/highlight.py", "", "Attribute"): "declarations of our own colours",
    (
        "render/highlight.py",
        "palette",
        "Attribute",
    ): "declarations of our own colours; what it is given is looked at only",
    ("render/markdown.py", "markdown_html", "Html"): "sanitised by nh3 before, and `reveal_hidden` writes no markup",
    ("notebook/approval/card.py", "_tell_where", "Html"): "what `show_html`, which takes Html, has put there",
    ("notebook/streaming/reply_view.py", "live_html", "Attribute"): "class names of ours",
    ("notebook/streaming/reply_view.py", "live_html", "Html"): "of markdown_html, tags made shorter by words of ours",
    ("notebook/streaming/reply_view.py", "style_sheet", "Html"): "our own style sheet: no text of anybody's is in it",
}
"""(module, function, type): why what is no literal there needs no escaping."""
WIDGETS = {("notebook/approval/card.py", "html_widget")}
SHOWN_IN_WIDGETS = {("notebook/approval/card.py", "show_html")}
TEMPLATES = {"fill", "join"}


@cache
def modules() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(PACKAGE)): ast.parse(path.read_text(encoding="utf-8"))
        for folder in ("render", "notebook", "replay", "cli")
        for path in sorted((PACKAGE / folder).rglob("*.py"))
    }


@cache
def calls(tree: ast.AST) -> list[tuple[str, str, ast.Call]]:
    """(the function that a call is in, what is called, the call) of each in `tree`."""
    return list(calls_within(tree, ""))


def calls_within(tree: ast.AST, function: str) -> Iterator[tuple[str, str, ast.Call]]:
    for node in ast.iter_child_nodes(tree):
        within = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(node, ast.Call):
            called = node.func
            name = (
                called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
            )
            yield within, name, node
        yield from calls_within(node, within)


def is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def templates() -> Iterator[tuple[str, ast.Call]]:
    """Calls of `fill` and `join`, where these are ours."""
    for module, tree in modules().items():
        ours = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "kin_nb.render.text"
            for alias in node.names
        }
        for _, name, call in calls(tree):
            if isinstance(call.func, ast.Name) and name in TEMPLATES & ours:
                yield f"{module}:{call.lineno}", call


def test_a_text_becomes_html_without_escaping_only_where_this_test_says_why():
    found = {
        (module, function, name)
        for module, tree in modules().items()
        if module != TYPES
        for function, name, call in calls(tree)
        if name in {"Html", "Attribute"} and not all(map(is_literal, call.args))
    }
    assert found == set(MADE_WITHOUT_ESCAPING)


def test_types_are_not_got_around():
    for module, tree in modules().items():
        casts = {ast.unparse(call.args[0]) for _, name, call in calls(tree) if name == "cast"}
        assert not any(re.search(r"\b(?:Html|Attribute|Part)\b", to) for to in casts), module
        source = (PACKAGE / module).read_text(encoding="utf-8") if module.startswith("render/") else ""
        assert set(re.findall(r"type: ignore\[([\w-]+)\]", source)) <= {"method-assign"}, module


def test_every_template_is_a_literal_with_a_place_for_each_argument():
    count = 0
    for where, call in templates():
        template, *content = call.args
        assert is_literal(template), where
        if isinstance(call.func, ast.Name) and call.func.id == "fill":
            count += 1
            assert isinstance(template, ast.Constant)
            places = [name for _, name, _, _ in Formatter().parse(str(template.value)) if name is not None]
            assert {name for name in places if name} == {keyword.arg for keyword in call.keywords}, where
            if not any(isinstance(each, ast.Starred) for each in content):
                assert places.count("") == len(content), where
    assert count > 50


def test_content_stands_between_tags_and_what_stands_in_a_tag_is_our_own():
    """Only `Attribute` is written by name: `escape` leaves quotes as they are, so its Html must not be in a tag."""
    for where, call in templates():
        template = str(call.args[0].value) if isinstance(call.args[0], ast.Constant) else ""
        for tag in re.findall(r"<[^<>]*>", template):
            assert "{}" not in tag, where
        outside = re.sub(r"<[^<>]*>", "", template)
        assert not re.search(r"\{\w+\}|[<>]", outside), where


def test_only_output_of_puts_html_into_a_bundle():
    found = {
        (module, ast.unparse(node.value) if isinstance(node, ast.Subscript) else "")
        for module, tree in modules().items()
        if module.startswith(("render/", "notebook/"))
        for node in ast.walk(tree)
        if (
            isinstance(node, ast.Dict)
            and any(isinstance(k, ast.Constant) and k.value == "text/html" for k in node.keys)
        )
        or (
            isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == "text/html"
        )
    }
    assert found == {("render/card.py", ""), ("render/card.py", "self.data")}


def test_only_functions_that_take_html_give_widgets_theirs():
    made: set[tuple[str, str]] = set()
    shown: set[tuple[str, str]] = set()
    for module, tree in modules().items():
        if not module.startswith(("notebook/approval/", "notebook/streaming/")):
            continue
        made |= {(module, function) for function, name, _ in calls(tree) if name in {"HTML", "HTMLMath"}}
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                targets = [node.targets[0] for node in ast.walk(function) if isinstance(node, ast.Assign)]
                targets += [node.target for node in ast.walk(function) if isinstance(node, ast.AugAssign)]
                if any(isinstance(target, ast.Attribute) and target.attr == "value" for target in targets):
                    shown.add((module, function.name))
    assert made == WIDGETS
    assert shown == SHOWN_IN_WIDGETS


def test_each_exception_is_one_place():
    found = Counter(
        (module, function, name)
        for module, tree in modules().items()
        if module != TYPES
        for function, name, call in calls(tree)
        if name == "Html" and not all(map(is_literal, call.args))
    )
    assert set(found.values()) == {1}
