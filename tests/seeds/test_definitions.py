"""Every class that seeds 000 and 002 define is ours, field by field: name, type, default, value, property, method."""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import inspect
import sys
import types
import typing
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from tests.seeds.blocks import blocks, classes, parsed
from tests.table import each_row

MODULES = [
    *("kin_nb.core.types", "kin_nb.core.middleware", "kin_nb.core.skills.models", "kin_nb.core.tools.base"),
    *("kin_nb.core.llm.types", "kin_nb.core.llm.backend.generic", "kin_nb.core.config", "kin_nb.core.modes"),
]
NOT_OURS = {
    # Examples of what a user writes; test_usage.py runs them.
    *("MyToolArgs", "MyToolResult", "MyToolConfig", "MyToolState", "MyTool", "CustomMiddleware", "CustomBackend"),
    "CustomAPIAdapter",
    # A sketch of a proxy with a bare BaseTool and an http_client of its own; docs/project/seed-differences.md.
    *("MCPHttpProxyTool", "MCPStdioProxyTool"),
}
TYPE_STATEMENT = set() if sys.version_info >= (3, 12) else {25}
UNPARSED = {"000": {3, 4, 6, 7, 9, 13, 14}, "002": {12} | TYPE_STATEMENT}
"""Sketches: `...` for arguments, methods without a body, a loose `case`, Python 3.12's `type` statement."""

DEFINED = {
    name: node for seed in ("002", "000") for name, node in reversed(classes(seed).items()) if name not in NOT_OURS
}


def ours(name: str) -> Any:
    for module in MODULES:
        if hasattr(importlib.import_module(module), name):
            return getattr(importlib.import_module(module), name)
    raise AssertionError(f"{name} is not importable from any of {MODULES}")


def namespace() -> dict[str, Any]:
    """What the annotations of the blocks may name."""
    names: dict[str, Any] = {**vars(typing)}
    for module in reversed(MODULES):
        names |= vars(importlib.import_module(module))
    import datetime as dt
    from collections.abc import AsyncGenerator
    from pathlib import Path

    return {**names, "Path": Path, "datetime": dt, "AsyncGenerator": AsyncGenerator}


def plain(annotation: Any) -> Any:
    """A type without validators and without the spelling of its union."""
    if get_origin(annotation) is Annotated:
        return plain(get_args(annotation)[0])
    arguments = tuple(plain(argument) for argument in get_args(annotation))
    if isinstance(annotation, types.UnionType) or get_origin(annotation) is typing.Union:
        return frozenset(arguments)
    origin = get_origin(annotation)
    if origin is type:  # type[BaseTool]: pydantic takes no parameters there, and neither does the seed
        return (type, arguments)
    return (origin, arguments) if arguments else annotation


def fields_of(node: ast.ClassDef) -> list[ast.AnnAssign]:
    return [item for item in node.body if isinstance(item, ast.AnnAssign)]


@pytest.mark.parametrize("seed", UNPARSED)
def test_the_blocks_that_do_not_parse_are_these(seed):
    assert {number for number, code in blocks(seed).items() if parsed(code) is None} == UNPARSED[seed]


def test_there_is_something_to_compare():
    assert len(DEFINED) == 29


def model_fields() -> list[tuple[str, ast.AnnAssign]]:
    return [
        (name, field)
        for name, node in DEFINED.items()
        for field in fields_of(node)
        if not (isinstance(field.target, ast.Name) and field.target.id == "model_config")
    ]


@each_row(("name", "field"), model_fields(), ids=lambda v: v if isinstance(v, str) else v.target.id)
def test_a_field_has_its_type_and_its_default(name, field):
    cls, attribute = ours(name), field.target.id
    wanted = eval(ast.unparse(field.annotation), namespace())  # the seed's own code
    default = ast.unparse(field.value) if field.value is not None else None
    if issubclass(cls, BaseModel):
        found = cls.model_fields[attribute]
        assert plain(found.annotation) == plain(wanted)
        if default is None:
            assert found.is_required() or found.default_factory is not None or found.default is None
        else:
            assert found.get_default(call_default_factory=True) == eval(default, namespace())
        return
    assert plain(typing.get_type_hints(cls, namespace())[attribute]) == plain(wanted)
    dataclass_field = {f.name: f for f in dataclasses.fields(cls)}[attribute]
    if default == "field(default_factory=dict)":
        assert dataclass_field.default_factory is dict
    elif default is not None:
        assert dataclass_field.default == eval(default, namespace())


def required_fields() -> list[tuple[str, str]]:
    """Fields without a default in the seed, of models whose seed gives a default to others."""
    return [(n, f.target.id) for n, f in model_fields() if f.value is None and issubclass(ours(n), BaseModel)]


MAY_BE_LEFT_OUT = {
    # The seed shows no default, and SKILL.md files leave them out: empty then.
    ("SkillMetadata", "metadata"),
    ("SkillMetadata", "allowed_tools"),
    ("SkillInfo", "license"),
    ("SkillInfo", "compatibility"),
    ("SkillInfo", "metadata"),
    ("SkillInfo", "allowed_tools"),
}


def test_what_the_seed_requires_is_required():
    lax = {(n, f) for n, f in required_fields() if not ours(n).model_fields[f].is_required()}
    assert lax <= MAY_BE_LEFT_OUT


def enum_members() -> list[tuple[str, str, str]]:
    return [
        (name, item.targets[0].id, ast.unparse(item.value))
        for name, node in DEFINED.items()
        if any(ast.unparse(base) == "StrEnum" for base in node.bases)
        for item in node.body
        if isinstance(item, ast.Assign)
    ]


@each_row(("name", "member", "value"), enum_members())
def test_an_enum_member_has_its_value(name, member, value):
    wanted = member.lower() if value == "auto()" else eval(value)
    assert ours(name)[member].value == wanted
    assert issubclass(ours(name), enum.StrEnum)


MORE_MEMBERS = {"OutputFormat": {"EVENTS"}}  # seed 001's wire; docs/project/seed-differences.md


@each_row("name", sorted({name for name, _, _ in enum_members()}))
def test_an_enum_has_no_other_member(name):
    theirs = {m for n, m, _ in enum_members() if n == name}
    assert {member.name for member in ours(name)} == theirs | MORE_MEMBERS.get(name, set())


def methods() -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    return [
        (name, item)
        for name, node in DEFINED.items()
        for item in node.body
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and not item.name.startswith("_check")
    ]


@each_row(("name", "method"), methods(), ids=lambda v: v if isinstance(v, str) else v.name)
def test_a_method_takes_what_the_seed_gives_it(name, method):
    cls = ours(name)
    found = inspect.getattr_static(cls, method.name)
    if any(ast.unparse(decorator) == "property" for decorator in method.decorator_list):
        assert isinstance(found, property)
        return
    if isinstance(method, ast.AsyncFunctionDef) and not method.name.endswith("streaming"):
        assert inspect.iscoroutinefunction(found)
    parameters = inspect.signature(getattr(cls, method.name)).parameters
    wanted = [argument.arg for argument in (*method.args.args, *method.args.kwonlyargs)]
    assert set(wanted) <= set(parameters)


def bases() -> list[tuple[str, str]]:
    skipped = {"Protocol", "StrEnum"}
    return [(n, ast.unparse(b)) for n, node in DEFINED.items() for b in node.bases if ast.unparse(b) not in skipped]


@each_row(("name", "base"), bases())
def test_a_class_has_its_base(name, base):
    import abc

    assert issubclass(ours(name), {**namespace(), "BaseModel": BaseModel, "ABC": abc.ABC}[base])


def test_the_content_of_a_message_is_normalised_as_the_seed_does_it():
    scope: dict[str, Any] = {"Any": Any, "Annotated": Annotated}
    exec(blocks("002")[29], scope)
    theirs = scope["_content_before"]
    from kin_nb.core.types import LLMMessage, Role

    parts = [{"type": "text", "text": "a"}, {"type": "image"}, "b"]
    for value in ("text", parts, 3, {"a": 1}):
        assert LLMMessage(role=Role.user, content=value).content == theirs(value)


def test_the_names_of_the_import_block_are_where_it_says():
    exec(blocks("002")[38], {})


def test_the_callback_types_exist():
    from kin_nb.core import types as t

    assert t.ApprovalCallback == t.AsyncApprovalCallback | t.SyncApprovalCallback
    assert get_args(t.StrToolChoice) == get_args(eval(blocks("002")[24].partition("=")[2], namespace()))
