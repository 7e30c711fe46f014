"""memory: notes for later sessions, stored as files (core/memory.py)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from kin_nb.core.config.secrets import secret_values
from kin_nb.core.memory import (
    SCOPES,
    MemoryFile,
    Scope,
    delete_memory,
    list_memories,
    memory_path,
    memory_text,
    read_memory,
    scope_of,
    write_memory,
)
from kin_nb.core.paths import shown
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins import text_file
from kin_nb.core.tools.builtins.path_arguments import printable
from kin_nb.core.tools.call_context import call_context
from kin_nb.core.workspace import Workspace

_FOLDER_NOT_TRUSTED = (
    "\nThis folder is not trusted, so later sessions will not see it. The user can trust it with `kin-nb trust`."
)


class MemoryArgs(BaseModel):
    action: Literal["list", "read", "write", "delete"]
    name: str | None = Field(None, description="Name of the memory: a-z, 0-9 and -. Not needed for list")
    description: str | None = Field(None, description="For write: what it is about, one line")
    text: str = Field("", description="For write: the text, in Markdown")
    scope: Scope | None = Field(None, description="user (default): all projects; project: this project only")


class MemoryResult(BaseModel):
    """The result as the model reads it."""

    text: str


class Memory(BaseTool[MemoryArgs, MemoryResult, BaseToolConfig, BaseToolState]):
    description: ClassVar[str] = "Keep notes across sessions"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")

    def accesses(self, args: MemoryArgs) -> Accesses:
        """The file that a change writes, which the safety chain knows as kin_nb's own. Reading memories needs no access."""
        if args.action in ("list", "read"):
            return Accesses()
        return Accesses(writes=(str(self._path(args)),))

    def preview(self, args: MemoryArgs) -> Preview:
        """The diff of a change, or the reason why it will fail."""
        body = args.model_dump_json(indent=2, exclude_none=True)
        if args.action in ("list", "read"):
            return Preview(summary=" ".join(filter(None, (args.action, "memory", args.name))), body=body)
        verb = "remember" if args.action == "write" else "forget"
        try:
            path = self._path(args)
            before = self._before(args)
            after = memory_text(args.description or "", args.text) if args.action == "write" else ""
        except ToolError as error:
            return text_file.failing_preview(verb, args.name or "", error, body)
        return text_file.diff_preview(verb, self._shown(path), before, after)

    async def run(self, args: MemoryArgs) -> MemoryResult:
        """Raises ToolError, with nothing changed, for an unknown memory, a wrong name, a full store or a secret in the text."""
        return MemoryResult(text=await asyncio.to_thread(self._done, args))

    def to_model(self, result: MemoryResult) -> str:
        return result.text

    def _done(self, args: MemoryArgs) -> str:
        if args.action == "list":
            return _listed(list_memories(self._workdir, (args.scope,) if args.scope else SCOPES))
        name, scope = self._meant(args)
        match args.action:
            case "read":
                return f"The {scope} memory {name}:\n\n{read_memory(name, scope, self._workdir)}"
            case "write":
                return self._written(name, scope, memory_text(args.description or "", args.text))
        return f"Deleted {self._shown(delete_memory(name, scope, self._workdir))}."

    def _written(self, name: str, scope: Scope, content: str) -> str:
        call = call_context.get()
        known = secret_values(call.config) if call else ()
        path = write_memory(name, content, scope, self._workdir, known_secrets=known)
        hidden = scope == "project" and call is not None and not call.config.project_trusted
        return (
            f"Wrote {self._shown(path)}.{_FOLDER_NOT_TRUSTED if hidden else ' Sessions that start from now on see it.'}"
        )

    def _meant(self, args: MemoryArgs) -> tuple[str, Scope]:
        """The name and the scope that are meant. Raises ToolError without a name, or for one in neither or both scopes."""
        if not args.name:
            raise ToolError(f"{args.action} needs a name.")
        return args.name, args.scope or ("user" if args.action == "write" else scope_of(args.name, self._workdir))

    def _path(self, args: MemoryArgs) -> Path:
        return memory_path(*self._meant(args), self._workdir)

    def _before(self, args: MemoryArgs) -> str:
        """The memory's present text, or the reason why it cannot be read; "" for a new one."""
        name, scope = self._meant(args)
        if not os.path.lexists(memory_path(name, scope, self._workdir)):
            return ""
        try:
            return read_memory(name, scope, self._workdir)
        except ToolError as error:
            return f"[{error}]\n"

    def _shown(self, path: Path) -> str:
        relative = Workspace(self._workdir).relative(path)
        return shown(path) if relative.startswith("/") else relative

    @property
    def _workdir(self) -> Path:
        return self.config.effective_workdir


def _listed(memories: list[MemoryFile]) -> str:
    lines = []
    for scope in SCOPES:
        mine = [memory for memory in memories if memory.scope == scope]
        lines += [f"{scope}:", *map(_line, mine)] if mine else []
    return "\n".join(lines) or "No memories yet."


def _line(memory: MemoryFile) -> str:
    text = f"[{memory.problem}]" if memory.problem else memory.description
    return printable(f"- {memory.name}: {text}" if memory.name else f"- {text}")
