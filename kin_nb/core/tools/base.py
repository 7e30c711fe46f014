"""BaseTool and its values (seeds 000, 002, 003)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar, get_args, get_origin
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ValidationError

from kin_nb.core.tool_types import (
    Accesses,
    BaseToolConfig,
    BaseToolState,
    Preview,
    ToolDecision,
    ToolError,
    ToolPermission,
)
from kin_nb.core.workspace import Workspace

if TYPE_CHECKING:
    from kin_nb.core.messages import ImageContent

__all__ = [
    "AnyTool",
    "BaseTool",
    "BaseToolConfig",
    "BaseToolState",
    "Tool",
    "ToolDecision",
    "ToolError",
    "ToolInfo",
    "ToolPermission",
    "tool_output",
]
"""With the values that seed 003 has here; they live in core.tool_types."""


@dataclass(frozen=True)
class ToolInfo:
    name: str
    description: str
    parameters: dict[str, Any]


Args = TypeVar("Args", bound=BaseModel)
Result = TypeVar("Result", bound=BaseModel)
Config = TypeVar("Config", bound=BaseToolConfig)
State = TypeVar("State", bound=BaseToolState)

tool_output: ContextVar[Callable[[str], None] | None] = ContextVar("tool_output", default=None)
"""Where the running call's live output goes; set by the executor for the call's own task."""


class BaseTool(ABC, Generic[Args, Result, Config, State]):
    """A tool of the agent.

    Subclasses give `description`, `run`, and what the safety chain needs: `accesses` (an undeclared tool counts as
    touching everything) and `preview`. `run` raises ToolError for whatever the model or the person can mend.
    """

    description: ClassVar[str] = ""
    prompt_path: ClassVar[Path | None] = None
    editable: ClassVar[str] = ""
    """The argument that a person may edit before they approve, a text."""

    def __init__(self, config: Config, state: State) -> None:
        self.config = config
        self.state = state

    @abstractmethod
    async def run(self, args: Args) -> Result: ...

    async def invoke(self, /, **raw: Any) -> Result:
        """Validate `raw` and run. Raises ToolError when the arguments do not fit.

        The agent validates a call before it is decided, so it calls `run` itself. Where a subclass overrides `invoke`, it calls
        that, with the approved arguments as JSON values.
        """
        return await self.run(self.parse_args(raw))

    @classmethod
    def parse_args(cls, raw: dict[str, Any]) -> Args:
        """Raises ToolError with one line per wrong argument."""
        model = cls._types()[0]
        try:
            return model.model_validate(raw)  # type: ignore[return-value]
        except ValidationError as error:
            from kin_nb.core.tools.arguments import what_is_wrong  # noqa: PLC0415  (for a call that fails)

            raise ToolError(f"{cls.get_name()}: invalid arguments\n{what_is_wrong(model, raw, error)}") from error

    def accesses(self, args: Args) -> Accesses:  # noqa: ARG002
        return Accesses(everything=True)

    def preview(self, args: Args) -> Preview:
        return Preview(summary=self.get_name(), body=args.model_dump_json(indent=2, exclude_none=True))

    def scripts(self, args: Args) -> dict[str, str]:  # noqa: ARG002
        """The files that the call names to be run, each with a digest of what it holds now: who approves it has read them."""
        return {}

    def with_text(self, args: Args, before: str, after: str) -> dict[str, Any] | None:  # noqa: ARG002
        """Arguments for `args`' file that turn its text `before` into `after`; None when no call of this tool does."""
        return None

    def to_model(self, result: Result) -> str:
        """The result as the model reads it."""
        return "\n".join(f"{key}: {value}" for key, value in result.model_dump(mode="json").items())

    def images(self, result: Result) -> list[ImageContent]:  # noqa: ARG002
        """Pictures that go to the model with the text of `to_model`, if it takes pictures."""
        return []

    def exit_code(self, result: Result) -> int | None:  # noqa: ARG002
        """The exit status that the record keeps, for tools that run a program."""
        return None

    def uncovered(self, result: Result | None) -> str:  # noqa: ARG002
        """What the call changed besides files, that undo does not bring back: a few words for the record.

        `result` is None when the call was stopped.
        """
        return ""

    def bound(self, result: Result) -> Sequence[str]:  # noqa: ARG002
        """The variables that the call bound or deleted where it ran, by name. Undo does not bring them back."""
        return ()

    def emit(self, text: str) -> None:
        """Live output while running, for the person; the model gets the result only."""
        sink = tool_output.get()
        if sink is not None:
            sink(text)

    def check_allowlist_denylist(self, args: Args) -> ToolPermission | None:
        """NEVER or ALWAYS when the config's patterns name the call, else None (seed 000). The denylist comes first."""
        if self.why_denied(args):
            return ToolPermission.NEVER
        return ToolPermission.ALWAYS if any(self.allows(p, args) for p in self.config.allowlist) else None

    def why_denied(self, args: Args) -> str:
        """The sentence that tells the model why the denylist forbids the call; "" when it does not."""
        pattern = next((pattern for pattern in self.config.denylist if self.denies(pattern, args)), None)
        return "" if pattern is None else f'"{pattern}" is in the denylist of [tools.{self.get_name()}]'

    def denies(self, pattern: str, args: Args) -> bool:
        """Whether a pattern of the denylist names the call: anything that the call is about."""
        return any(self._named(pattern, args, as_written=True))

    def allows(self, pattern: str, args: Args) -> bool:
        """Whether a pattern of the allowlist names the call: everything that the call is about."""
        return all(self._named(pattern, args, as_written=False))

    def subjects(self, args: Args) -> list[str]:
        """What patterns are matched with when the call names no paths: its arguments, as compact JSON."""
        return [args.model_dump_json(exclude_none=True)]

    def _named(self, pattern: str, args: Args, *, as_written: bool) -> list[bool]:
        accesses = self.accesses(args)
        paths = () if accesses.everything else (*accesses.reads, *accesses.writes)
        if not paths:
            return [fnmatchcase(subject, pattern) for subject in self.subjects(args)]
        root = self.config.effective_workdir
        return [_names_path(pattern, path, root, as_written=as_written) for path in paths]

    @classmethod
    def get_name(cls) -> str:
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def get_tool_prompt(cls) -> str | None:
        return cls.prompt_path.read_text(encoding="utf-8").strip() if cls.prompt_path else None

    @classmethod
    def get_parameters(cls) -> dict[str, Any]:
        """JSON Schema of the arguments, without titles; built once per class."""
        return _parameters(cls._types()[0])

    @classmethod
    def get_info(cls) -> ToolInfo:
        prompt = cls.get_tool_prompt()
        return ToolInfo(
            cls.get_name(), f"{cls.description}\n\n{prompt}" if prompt else cls.description, cls.get_parameters()
        )

    @classmethod
    def from_config(cls, config: BaseToolConfig) -> BaseTool[Args, Result, Config, State]:
        _, _, config_class, state_class = cls._types()
        known = config_class.model_validate(config.model_dump())
        return cls(known, state_class())  # type: ignore[arg-type]

    @classmethod
    def _get_tool_config_class(cls) -> type[BaseToolConfig]:
        return cls._types()[2]

    @classmethod
    def _types(cls) -> _Types:
        return _type_arguments(cls)


def _names_path(pattern: str, path: str, root: Path, *, as_written: bool) -> bool:
    """Whether a glob names `path`: relative to the workspace, or in full, symlinks resolved; `~` is the home folder.

    `as_written` compares the path as the model wrote it too. That may forbid, never allow: `docs/../x` is not in docs.
    """
    spellings = [path] if as_written else []
    try:
        workspace = Workspace(root)
        real = workspace.resolve(path)
        spellings += [workspace.relative(real), str(real)]
    except ToolError:  # no file can have this name
        pass
    wanted = str(Path(pattern).expanduser()) if pattern.startswith("~") else pattern.removeprefix("./")
    return any(fnmatchcase(spelling, wanted) for spelling in spellings)


_Types: TypeAlias = tuple[type[BaseModel], type[BaseModel], type[BaseToolConfig], type[BaseToolState]]
AnyTool: TypeAlias = BaseTool[Any, Any, Any, Any]


# classes are made for each agent of a notebook, and for each tool of a server: they go with it
_TYPES: WeakKeyDictionary[type, _Types] = WeakKeyDictionary()
_PARAMETERS: WeakKeyDictionary[type[BaseModel], dict[str, Any]] = WeakKeyDictionary()


def _type_arguments(cls: type) -> _Types:
    found = _TYPES.get(cls)
    if found is None:
        found = _TYPES[cls] = _look_for_type_arguments(cls)
    return found


def _look_for_type_arguments(cls: type) -> _Types:
    kinds = (BaseModel, BaseModel, BaseToolConfig, BaseToolState)
    for klass in cls.__mro__:
        for base in getattr(klass, "__orig_bases__", ()):
            if get_origin(base) is BaseTool:
                found: _Types = get_args(base)
                if all(isinstance(a, type) and issubclass(a, k) for a, k in zip(found, kinds, strict=True)):
                    return found
    raise TypeError(f"{cls.__name__} must subclass BaseTool[Args, Result, Config, State]")


def _parameters(model: type[BaseModel]) -> dict[str, Any]:
    from kin_nb.core.tools.arguments import arguments_schema  # noqa: PLC0415  (once per class)

    found = _PARAMETERS.get(model)
    if found is None:
        found = _PARAMETERS[model] = arguments_schema(model)
    return found


Parameters = type[BaseModel] | dict[str, Any] | None


class Tool(ABC):
    """A tool without types of its own. `name`: that of the class, in snake_case, when absent.

    Its arguments are those of `execute`, by their annotations, or what `parameters` says: a pydantic model, which
    validates them, or a JSON Schema as a dict, which only tells the model. With `**kwargs` the model may give any.
    One instance for each session, made without arguments.
    """

    name: ClassVar[str] = ""
    description: ClassVar[str] = ""
    parameters: ClassVar[Parameters] = None

    @abstractmethod
    async def execute(self, *args: Any, **kwargs: Any) -> str:
        """Called with arguments by name. What it raises is told to the model; ToolError without the exception's type."""
