"""todo: the model's own list."""

from __future__ import annotations

import pytest

from kin_nb.core.tool_types import BaseToolConfig, ToolError, ToolPermission
from kin_nb.core.tools.builtins.todo import Todo, TodoConfig


@pytest.fixture
def todo() -> Todo:
    return Todo.from_config(TodoConfig())


def items(count: int) -> list[dict[str, str]]:
    return [{"id": str(n), "content": f"task {n}"} for n in range(count)]


async def test_what_was_written_is_read(todo):
    listed = [
        {"id": "1", "content": "Look", "status": "completed"},
        {"id": "2", "content": "Mend", "status": "in_progress", "priority": "high"},
    ]
    written = await todo.invoke(action="write", todos=listed)
    assert todo.to_model(written) == "2 todos: 1 completed, 1 in progress"
    read = await todo.invoke(action="read")
    assert todo.to_model(read) == (
        "2 todos: 1 completed, 1 in progress\n1. Look (completed)\n2. Mend (in_progress, high priority)"
    )
    assert written.message == "Updated 2 todos"
    assert (read.message, read.total_count, read.todos) == ("Retrieved 2 todos", 2, written.todos)


async def test_a_write_replaces_the_whole_list(todo):
    await todo.invoke(action="write", todos=items(3))
    await todo.invoke(action="write", todos=[{"id": "x", "content": "other"}])
    assert [item.id for item in (await todo.invoke(action="read")).todos] == ["x"]
    assert (await todo.invoke(action="write", todos=[])).message == "Updated 0 todos"
    assert todo.to_model(await todo.invoke(action="read")) == "0 todos"


async def test_a_write_that_is_wrong_changes_nothing(subtests, todo):
    for args, reason in [
        ({"action": "write", "todos": [*items(2), {"id": "1", "content": "again"}]}, 'have the id "1"'),
        ({"action": "write", "todos": items(101)}, "at most 100 items"),
        ({"action": "write"}, "write needs todos"),
        ({"action": "x"}, "'read' or 'write'"),
        ({"action": "write", "todos": [{"id": "1", "content": "c", "status": "gone"}]}, "todos.0.status"),
    ]:
        with subtests.test(args=args, reason=reason):
            await todo.invoke(action="write", todos=items(1))
            with pytest.raises(ToolError, match=reason):
                await todo.invoke(**args)
            assert (await todo.invoke(action="read")).total_count == 1


async def test_other_spellings_of_a_status_are_taken(subtests, todo):
    for written, status in [
        *(
            ("done", "completed"),
            ("Complete", "completed"),
            ("in-progress", "in_progress"),
            ("In Progress", "in_progress"),
        ),
        *(("cancel", "cancelled"), ("canceled", "cancelled"), ("todo", "pending"), ("completed", "completed")),
    ]:
        with subtests.test(written=written, status=status):
            result = await todo.invoke(action="write", todos=[{"id": "1", "content": "c", "status": written}])
            assert result.todos[0].status == status
            assert todo.to_model(result) == f"1 todo: 1 {status.replace('_', ' ')}"
            told = todo.get_parameters()["properties"]["todos"]["items"]["properties"]["status"]["enum"]
            assert told == ["pending", "in_progress", "completed", "cancelled"]


async def test_numbers_are_taken_as_ids(todo):
    assert (await todo.invoke(action="write", todos=[{"id": 1, "content": "c"}])).todos[0].id == "1"


async def test_each_session_has_its_own_list(todo):
    await todo.invoke(action="write", todos=items(1))
    assert (await Todo.from_config(BaseToolConfig()).invoke(action="read")).total_count == 0


def test_it_touches_nothing_and_needs_no_approval(todo):
    args = todo.parse_args({"action": "write", "todos": [{**items(1)[0], "status": "completed"}]})
    assert todo.accesses(args).only_reads
    assert todo.config.permission is ToolPermission.ALWAYS
    assert todo.preview(args).summary == "to-do list: 1 of 1 done"
