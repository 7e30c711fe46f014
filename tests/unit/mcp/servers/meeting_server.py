"""An MCP server over stdio that answers no call of `meet` before as many are open as its first argument says."""

from __future__ import annotations

import json
import sys

from behaviour import initialized, text

READS = {"readOnlyHint": True}
open_calls: list[tuple[int, str]] = []


def answer(ident: int, result: dict) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": ident, "result": result}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            answer(message["id"], initialized(message["params"]["protocolVersion"]))
        case "tools/list":
            answer(
                message["id"], {"tools": [{"name": "meet", "inputSchema": {"type": "object"}, "annotations": READS}]}
            )
        case "tools/call":
            open_calls.append((message["id"], json.dumps(message["params"]["arguments"])))
            if len(open_calls) == int(sys.argv[1]):
                for ident, arguments in reversed(open_calls):
                    answer(ident, text(arguments))
                open_calls.clear()
