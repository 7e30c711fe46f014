"""The texts that a user or a model can meet: docs/project/messages.md has all of them, and they keep to the language rules."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest

from tests.table import each_row
from tests.unit.messages import ROOT, SCRIPT, collected

# Words that are not plain English, or that mean something else to a reader who translates them.
IDIOMS = re.compile(
    r"""\b(?<!there\ )(?:is|are|was|were)\ no\ (?!longer|more|other|such)[a-z]+
    | \b(?:go|goes|gone|went|going)\ on\b | \banew\b | \bst(?:ands?|ood)\b | \bmend(?:s|ed|ing)?\b
    | \btold\b | \b(?:is|are)\ said\b | \b(?:nobody|somebody)\b
    | \b(?:take|taken|took|takes|give|gave|given|gives)\ back\b | \bg[ia]ves?\ way\b
    | \bas\ [\w'`\ ]{2,30}\ (?:has|have|had)\ (?:it|them)\b | \bbut\ for\b | \bwho(?:m)?ever\b
    | \blikewise\b | \bto\ the\ letter\b | \bfor\ ever\b | \bbesides?\b
    """,
    re.VERBOSE | re.IGNORECASE,
)

# Classes that a user writes: in a tool or middleware of their own, in an approval callback, and in %config.
CLASSES_OF_THE_API = {"ApprovalDecision", "BaseTool", "KinMagics", "MiddlewareResult"}

LONGEST_SENTENCE = 165

# Words that the user or the model wrote, with which a sentence may begin: parameters, settings, actions, programs; and places.
QUOTED = {"action", "cell", "glob", "insert", "jupytext", "pattern", "observability"}
# What follows the name of an option.
AFTER_AN_OPTION = {"must", "needs"}
# Folders whose errors follow `FILE:LINE: `.
AFTER_A_PLACE = ("core/skills/flows/",)


def class_names() -> set[str]:
    # two humps at least: a name with one may be an English word
    defined = re.compile(r"^ *class ((?:[A-Z]+[a-z]+){2}\w*)", re.MULTILINE)
    return {name for path in (ROOT / "kin_nb").rglob("*.py") for name in defined.findall(path.read_text("utf-8"))}


def shown(message: Any, what: str) -> str:
    return f"{message.file}: {what}: {message.text}"


def test_the_page_has_the_texts_of_the_source():
    page = (ROOT / "docs" / "project" / "messages.md").read_text(encoding="utf-8")
    assert page == SCRIPT["page"](collected()), "docs/project/messages.md is out of date: run scripts/messages"


def idioms() -> list[str]:
    return [shown(message, match[0]) for message in collected() for match in IDIOMS.finditer(message.plain)]


def classes_that_no_user_writes() -> list[str]:
    names = class_names() - CLASSES_OF_THE_API
    return [
        shown(message, name)
        for message in collected()
        for name in re.findall(r"\b[A-Z]\w+", message.plain)
        if name in names
    ]


def long_sentences() -> list[str]:
    return [
        shown(message, f"{len(sentence)} characters")
        for message in collected()
        if message.kind != "prompt"
        for sentence in re.split(r"(?<=[.!?:;]) |\n", message.plain)
        if len(sentence) > LONGEST_SENTENCE
    ]


def errors_that_are_sentences_and_begin_with_a_small_letter() -> list[str]:
    return [
        shown(message, word)
        for message in collected()
        if message.kind == "error" and not message.file.startswith(AFTER_A_PLACE) and message.plain.endswith(".")
        for word in re.findall(r"^[a-z][\w.]*", message.text)
        if "_" not in word and word not in QUOTED | AFTER_AN_OPTION
    ]


@each_row(
    "wrong",
    [idioms, classes_that_no_user_writes, long_sentences, errors_that_are_sentences_and_begin_with_a_small_letter],
)
def test_texts_keep_to_the_language_rules(wrong):
    assert wrong() == []


@each_row(
    ("source", "expected"),
    [
        pytest.param(
            'raise FooError(f"{name!r} is {len(x):,} long.")', [("error", "{name} is {x} long.")], id="f-string"
        ),
        pytest.param('raise FooError("One two, " + what)', [("error", "One two, {what}")], id="sum"),
        pytest.param('"A docstring of two lines."', [], id="docstring"),
        pytest.param('Button(description="Approve")', [("text", "Approve")], id="label"),
        pytest.param(
            "x = f\"{n} {'line' if n == 1 else 'lines'} cut off\"",
            [("text", "{n} {line or lines} cut off")],
            id="choice",
        ),
        pytest.param(
            'warn("It failed.", key="one word")', [("notice", "It failed."), ("notice", "one word")], id="notice"
        ),
        pytest.param('Field(description="The new text")', [("tool", "The new text")], id="field"),
        pytest.param('html("<b>Allow this?</b> <i>{}</i>")', [("text", "Allow this? {}")], id="markup"),
        pytest.param('db.execute("SELECT a FROM b")\nif x == "a b": re.compile("a b")', [], id="no messages"),
    ],
)
def test_reads_texts_from_source(source, expected):
    reader = SCRIPT["Reader"]("module.py")
    reader.visit(ast.parse(source))
    assert [(message.kind, message.text) for message in sorted(reader.messages)] == expected
