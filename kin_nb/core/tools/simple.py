"""Tools in the form of seed 004: a name, a description and `async def execute(**kwargs) -> str`, nothing else.

`adapted` makes a BaseTool of one. It touches whatever it likes, so each call asks unless the configuration says otherwise.
"""

from __future__ import annotations

import inspect
import json
import re
from typing import Any, ClassVar, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from kin_nb.core.tool_types import BaseToolConfig, BaseToolState, ToolError
from kin_nb.core.tools.base import AnyTool, BaseTool, Parameters, Tool


class TextResult(BaseModel):
    text: str


class SimpleState(BaseToolState):
    """The session's instance, so that what it remembers stays as long as the session does."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    tool: Tool | None = None


class AnyArguments(BaseModel):
    model_config = ConfigDict(extra="allow")


class SimpleTool(BaseTool[BaseModel, TextResult, BaseToolConfig, SimpleState]):
    """Subclasses are made by `adapted`. `source`: the Tool class, or the one instance that a program gave."""

    name: ClassVar[str]
    source: ClassVar[type[Tool] | Tool]
    arguments: ClassVar[type[BaseModel]]
    schema: ClassVar[dict[str, Any] | None]

    @classmethod
    def get_name(cls) -> str:
        return cls.name

    @classmethod
    def get_parameters(cls) -> dict[str, Any]:
        return cls.schema or super().get_parameters()

    @classmethod
    def _types(cls) -> tuple[type[BaseModel], type[BaseModel], type[BaseToolConfig], type[BaseToolState]]:
        return cls.arguments, TextResult, BaseToolConfig, SimpleState

    async def run(self, args: BaseModel) -> TextResult:
        """Raises ToolError when the tool returns anything but text."""
        if self.state.tool is None:
            self.state.tool = self.source() if isinstance(self.source, type) else self.source
        own = {name: vars(args)[name] for name in type(args).model_fields}
        text: object = await self.state.tool.execute(**own, **(args.model_extra or {}))
        if not isinstance(text, str):
            raise ToolError(f"{self.name} returned {type(text).__name__}, not text.")
        return TextResult(text=text)

    def to_model(self, result: TextResult) -> str:
        return result.text


def adapted(tool: type[Tool] | Tool) -> type[AnyTool]:
    """A BaseTool class that runs `tool`. Raises ValueError, with the reason, for one that models cannot call."""
    kind = tool if isinstance(tool, type) else type(tool)
    if not inspect.iscoroutinefunction(inspect.unwrap(kind.execute)):
        raise ValueError("its execute is not `async def`")
    if not isinstance(tool.description, str):
        raise ValueError("its description is no text")  # noqa: TRY004  (whoever found the tool says so as one kind)
    arguments, schema = _arguments(kind, tool.parameters)
    members = {
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
        "description": tool.description,
        "name": tool.name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower(),
        "source": tool,
        "arguments": arguments,
        "schema": schema,
    }
    return type(kind.__name__, (SimpleTool,), members)


def _arguments(kind: type[Tool], parameters: Parameters) -> tuple[type[BaseModel], dict[str, Any] | None]:
    """What validates the arguments, and the schema that the model is told when that cannot be derived from it."""
    if parameters is None:
        return _from_signature(kind), None
    if isinstance(parameters, type) and issubclass(parameters, BaseModel):
        return parameters, None
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise ValueError("its parameters are neither a pydantic model nor a JSON Schema of an object")
    try:
        schema: dict[str, Any] = json.loads(json.dumps({"type": "object", **parameters}, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"its parameters are no JSON: {error}") from error
    return AnyArguments, schema


def _from_signature(kind: type[Tool]) -> type[BaseModel]:
    own = list(inspect.signature(kind.execute).parameters.values())[1:]
    if any(parameter.kind is parameter.POSITIONAL_ONLY for parameter in own):
        raise ValueError("its execute takes arguments by position, and models give them by name")
    named = [p for p in own if p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY}]
    try:
        hints = get_type_hints(kind.execute, include_extras=True)
    except Exception as error:  # a name that is not there, or whatever an annotation does
        raise ValueError(f"the annotations of its execute cannot be read: {error}") from error
    fields: dict[str, Any] = {
        p.name: (hints.get(p.name, Any), ... if p.default is p.empty else p.default) for p in named
    }
    more = any(p.kind is p.VAR_KEYWORD for p in own)
    return _model(f"{kind.__name__}Args", fields, ConfigDict(extra="allow" if more else "ignore"))


def _model(name: str, fields: dict[str, Any], config: ConfigDict) -> type[BaseModel]:
    import warnings  # noqa: PLC0415  (only for tools of this form)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an argument may be called `json` or `copy`, as methods of models are
        try:
            model: type[BaseModel] = create_model(name, __config__=config, **fields)
        except Exception as error:  # a type without a schema, a name of pydantic's: its errors are of many kinds
            raise ValueError(f"its arguments cannot be described: {str(error).splitlines()[0]}") from error
    lost = fields.keys() - model.model_fields.keys()
    if lost:  # `_x`, `model_config`
        raise ValueError(f"its execute takes {', '.join(sorted(lost))}, which no argument can be called")
    return model
