"""send_dmail: the model goes back to a checkpoint of its turn, with a message (seed 001). See core/dmail.py."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, Field

from kin_nb.core.dmail import DMail
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError, ToolPermission
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.call_context import call_context


class SendDMailArgs(BaseModel):
    checkpoint_id: int = Field(description="Where to go back to")
    message: str = Field(description="What you must know there")


class SendDMailResult(BaseModel):
    checkpoint_id: int


class SendDMailConfig(BaseToolConfig):
    permission: ToolPermission = ToolPermission.ALWAYS


class SendDMail(BaseTool[SendDMailArgs, SendDMailResult, SendDMailConfig, BaseToolState]):
    description: ClassVar[str] = "Go back in this conversation and tell yourself what you know now"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")

    @classmethod
    def get_name(cls) -> str:
        return "send_dmail"

    def accesses(self, args: SendDMailArgs) -> Accesses:  # noqa: ARG002
        return Accesses()

    def preview(self, args: SendDMailArgs) -> Preview:
        return Preview(summary=f"D-Mail to checkpoint {args.checkpoint_id}", body=args.message)

    async def run(self, args: SendDMailArgs) -> SendDMailResult:
        """Raises ToolError when it cannot be sent. It takes effect when the other calls of the reply have ended."""
        call = call_context.get()
        if call is None or call.mailbox is None:
            raise ToolError("No D-Mail can be sent here.")
        call.mailbox.send_dmail(DMail(args.checkpoint_id, args.message))
        return SendDMailResult(checkpoint_id=args.checkpoint_id)

    def to_model(self, result: SendDMailResult) -> str:  # noqa: ARG002
        return "Sent. If you read this, it did not arrive: the person stopped the step."
