"""todo: the model's own to-do list, for one session."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from kin_nb.core.text import counted
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError, ToolPermission
from kin_nb.core.tools.base import BaseTool

MAX_ITEMS = 100
_SPELLINGS = {
    "completed": ("done", "complete", "finished"),
    "in_progress": ("doing", "active", "started"),
    "cancelled": ("cancel", "canceled", "dropped"),
    "pending": ("todo", "open", "to_do"),
}
_STATUS_OF = {spelling: status for status, spellings in _SPELLINGS.items() for spelling in spellings}


def _status(value: Any) -> Any:
    """Normalize the status: models also write `done` and `in-progress`."""
    if not isinstance(value, str):
        return value
    word = value.strip().casefold().replace("-", "_").replace(" ", "_")
    return _STATUS_OF.get(word, word)


Status: TypeAlias = Annotated[Literal["pending", "in_progress", "completed", "cancelled"], BeforeValidator(_status)]


class TodoItem(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)  # models number their items

    id: str
    content: str
    status: Status = "pending"
    priority: Literal["low", "medium", "high"] = "medium"


class TodoArgs(BaseModel):
    action: Literal["read", "write"]
    todos: list[TodoItem] | None = Field(None, max_length=MAX_ITEMS, description="For write: the whole list")


class TodoResult(BaseModel):
    """`written`: the model has just sent this list, so it is not repeated in the result."""

    message: str
    todos: list[TodoItem]
    total_count: int
    written: bool = False


class TodoConfig(BaseToolConfig):
    permission: ToolPermission = ToolPermission.ALWAYS


class TodoState(BaseToolState):
    todos: list[TodoItem] = Field(default_factory=list)


class Todo(BaseTool[TodoArgs, TodoResult, TodoConfig, TodoState]):
    description: ClassVar[str] = "Read or update your to-do list"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")

    def accesses(self, args: TodoArgs) -> Accesses:  # noqa: ARG002
        return Accesses()

    def preview(self, args: TodoArgs) -> Preview:
        items = args.todos or []
        done = sum(item.status == "completed" for item in items)
        summary = f"to-do list: {done} of {len(items)} done" if args.action == "write" else "read the to-do list"
        return Preview(summary=summary, body=args.model_dump_json(indent=2, exclude_none=True))

    async def run(self, args: TodoArgs) -> TodoResult:
        """Raises ToolError, with the list unchanged, if ids repeat or `todos` is missing."""
        if args.action == "read":
            return _result("Retrieved", self.state.todos)
        if args.todos is None:
            raise ToolError("action write needs todos: the whole list, or [] to empty it.")
        seen: set[str] = set()
        for item in args.todos:
            if item.id in seen:
                raise ToolError(f'Two todos have the id "{item.id}". Give each its own id.')
            seen.add(item.id)
        self.state.todos = args.todos
        return _result("Updated", args.todos)

    def to_model(self, result: TodoResult) -> str:
        lines = [] if result.written else [f"{item.id}. {_line(item)}" for item in result.todos]
        return "\n".join([_counts(result.todos), *lines])


def _result(verb: str, todos: list[TodoItem]) -> TodoResult:
    message = f"{verb} {len(todos)} todos"
    return TodoResult(message=message, todos=todos, total_count=len(todos), written=verb == "Updated")


def _counts(todos: list[TodoItem]) -> str:
    """`3 todos: 2 completed, 1 in progress`."""
    by_status: Counter[str] = Counter(item.status for item in todos)
    each = [f"{by_status[status]} {status.replace('_', ' ')}" for status in _SPELLINGS if by_status[status]]
    return counted(len(todos), "todo") + (f": {', '.join(each)}" if each else "")


def _line(item: TodoItem) -> str:
    priority = "" if item.priority == "medium" else f", {item.priority} priority"
    return f"{item.content} ({item.status}{priority})"
