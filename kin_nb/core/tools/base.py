"""BaseTool, the base class of all tools, and Tool, its short form."""

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
"""Includes values that programs import from here; they are defined in core.tool_types."""


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
"""The receiver of the running call's live output; set by the executor for the call's own task."""


class BaseTool(ABC, Generic[Args, Result, Config, State]):
    """A tool of the agent.

    Subclasses define `description`, `run`, and the input of the safety chain: `accesses` (the default is everything) and
    `preview`. `run` raises ToolError for errors that the model or the user can fix.
    """

    description: ClassVar[str] = ""
    prompt_path: ClassVar[Path | None] = None
    editable: ClassVar[str] = ""
    """The name of the text argument that the user may edit before approval."""

    def __init__(self, config: Config, state: State) -> None:
        self.config = config
        self.state = state

    @abstractmethod
    async def run(self, args: Args) -> Result: ...

    async def invoke(self, /, **raw: Any) -> Result:
        """Validate `raw` and run. Raises ToolError for invalid arguments.

        The agent validates a call before the decision, so it calls `run` directly. If a subclass overrides `invoke`, the agent
        calls that, with the approved arguments as JSON values.
        """
        return await self.run(self.parse_args(raw))

    @classmethod
    def parse_args(cls, raw: dict[str, Any]) -> Args:
        """Validate the arguments. Raises ToolError with one line per wrong argument."""
        model = cls._types()[0]
        try:
            return model.model_validate(raw)  # type: ignore[return-value]
        except ValidationError as error:
            from kin_nb.core.tools.arguments import describe_argument_errors  # noqa: PLC0415  (for a call that fails)

            raise ToolError(
                f"{cls.get_name()}: invalid arguments\n{describe_argument_errors(model, raw, error)}"
            ) from error

    def accesses(self, args: Args) -> Accesses:  # noqa: ARG002
        return Accesses(everything=True)

    def preview(self, args: Args) -> Preview:
        return Preview(summary=self.get_name(), body=args.model_dump_json(indent=2, exclude_none=True))

    def scripts(self, args: Args) -> dict[str, str]:  # noqa: ARG002
        """The script files that the call would run, each with a digest of its content: the approval covers this content."""
        return {}

    def with_text(self, args: Args, before: str, after: str) -> dict[str, Any] | None:  # noqa: ARG002
        """Arguments that turn the text of the file in `args` from `before` into `after`; None if this tool cannot do that."""
        return None

    def to_model(self, result: Result) -> str:
        """The result as the model reads it."""
        return "\n".join(f"{key}: {value}" for key, value in result.model_dump(mode="json").items())

    def images(self, result: Result) -> list[ImageContent]:  # noqa: ARG002
        """Images for the model, together with the text of `to_model`, if the model accepts images."""
        return []

    def exit_code(self, result: Result) -> int | None:  # noqa: ARG002
        """The exit code for the record, for tools that run a program."""
        return None

    def uncovered(self, result: Result | None) -> str:  # noqa: ARG002
        """The changes that undo cannot revert, other than to files: a few words for the record.

        `result` is None if the call was stopped.
        """
        return ""

    def bound(self, result: Result) -> Sequence[str]:  # noqa: ARG002
        """The names of the variables that the call bound or deleted. Undo does not restore them."""
        return ()

    def emit(self, text: str) -> None:
        """Show live output to the user while the call runs; the model gets only the result."""
        sink = tool_output.get()
        if sink is not None:
            sink(text)

    def check_allowlist_denylist(self, args: Args) -> ToolPermission | None:
        """NEVER or ALWAYS if a pattern of the config matches the call, otherwise None. The denylist comes first."""
        if self.why_denied(args):
            return ToolPermission.NEVER
        return ToolPermission.ALWAYS if any(self.allows(p, args) for p in self.config.allowlist) else None

    def why_denied(self, args: Args) -> str:
        """The reason, for the model, why the denylist forbids the call; "" if it does not."""
        pattern = next((pattern for pattern in self.config.denylist if self.denies(pattern, args)), None)
        return "" if pattern is None else f'"{pattern}" is in the denylist of [tools.{self.get_name()}]'

    def denies(self, pattern: str, args: Args) -> bool:
        """Whether a denylist pattern matches any path or subject of the call."""
        return any(self._named(pattern, args, as_written=True))

    def allows(self, pattern: str, args: Args) -> bool:
        """Whether an allowlist pattern matches all paths or subjects of the call."""
        return all(self._named(pattern, args, as_written=False))

    def subjects(self, args: Args) -> list[str]:
        """The texts that patterns are matched with if the call names no paths: its arguments as compact JSON."""
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
    """Whether a glob matches `path`, relative to the workspace or absolute, with symlinks resolved; `~` is the home folder.

    `as_written` also compares the path as the model wrote it. That may forbid, never allow: `docs/../x` is not in docs.
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


# weak keys: classes are created per agent and per tool of a server, and must be freed with them
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
    """The short form of a tool: a name, a description and `execute`. The default `name` is the class name in snake_case.

    The arguments come from the annotations of `execute`, or from `parameters`: a pydantic model, which validates them, or a
    JSON Schema as a dict, which only informs the model. With `**kwargs`, any arguments are accepted. Each session creates one
    instance, without arguments.
    """

    name: ClassVar[str] = ""
    description: ClassVar[str] = ""
    parameters: ClassVar[Parameters] = None

    @abstractmethod
    async def execute(self, *args: Any, **kwargs: Any) -> str:
        """Run the tool with named arguments. The model gets the text of an exception, with its type unless it is a ToolError."""
