"""send_dmail: rewind by the model, to a checkpoint of its turn, with a message to itself. See core/dmail.py."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, Field

from kin_nb.core.dmail import DMail
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError, ToolPermission
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.call_context import call_context


class SendDMailArgs(BaseModel):
    checkpoint_id: int = Field(description="Number of the checkpoint to rewind to")
    message: str = Field(description="What you need to know after the rewind")


class SendDMailResult(BaseModel):
    checkpoint_id: int


class SendDMailConfig(BaseToolConfig):
    permission: ToolPermission = ToolPermission.ALWAYS


class SendDMail(BaseTool[SendDMailArgs, SendDMailResult, SendDMailConfig, BaseToolState]):
    description: ClassVar[str] = "Rewind this turn to a checkpoint, with a message to yourself"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")

    @classmethod
    def get_name(cls) -> str:
        return "send_dmail"

    def accesses(self, args: SendDMailArgs) -> Accesses:  # noqa: ARG002
        return Accesses()

    def preview(self, args: SendDMailArgs) -> Preview:
        return Preview(summary=f"rewind to checkpoint {args.checkpoint_id}", body=args.message)

    async def run(self, args: SendDMailArgs) -> SendDMailResult:
        """Schedule the rewind for when the other calls of the reply have ended. Raises ToolError if it is not possible."""
        call = call_context.get()
        if call is None or call.mailbox is None:
            raise ToolError("Rewind is not possible here.")
        call.mailbox.send_dmail(DMail(args.checkpoint_id, args.message))
        return SendDMailResult(checkpoint_id=args.checkpoint_id)

    def to_model(self, result: SendDMailResult) -> str:  # noqa: ARG002
        return "Rewind requested. If you read this, it did not happen: the user stopped this step."
