"""An MCP server over stdio that behaves as its first argument says; the tools that it is called with do the rest."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from behaviour import TOOLS, initialized, result, text

scenario = sys.argv[1]
tools = [dict(tool) for tool in TOOLS]
waiting: dict[int, str] = {}


def note(name: str, content: str) -> None:
    """For the test to read: a file in the folder that the server was started in."""
    with Path(name).open("a") as file:
        file.write(content + "\n")


def write(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def send(**message) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def read() -> dict:
    line = sys.stdin.readline()
    if not line:
        if scenario == "stays":
            hang()
        sys.exit(0)
    return json.loads(line)


def hang() -> None:
    while True:
        time.sleep(3600)


def listed(params: dict) -> dict:  # noqa: C901  (a list of cases)
    match scenario:
        case "hang_at_list":
            hang()
        case "no_list":
            return {"tools": "none"}
        case "bad_tools":
            bad = [
                {"name": "array", "inputSchema": {"type": "array"}},
                {"name": "nonsense", "inputSchema": {"type": "object", "properties": {"a": {"type": "strng"}}}},
                {"name": "text", "inputSchema": "none"},
                {"name": "huge", "description": "x" * 200_000, "inputSchema": {"type": "object"}},
                {"description": "no name"},
                "no tool",
                {"name": "echo", "description": "twice", "inputSchema": {"type": "object"}},
                {"name": "bare"},
                {"name": "untyped", "inputSchema": {"properties": {"a": {}}}, "icons": 7, "outputSchema": []},
            ]
            return {"tools": [*tools, *bad]}
        case "pages":
            page = int(params.get("cursor", 0))
            more = {"nextCursor": str(page + 1)} if page < 2 else {}
            return {"tools": [{"name": f"page{page}", "inputSchema": {"type": "object"}}], **more}
        case "same_page":
            return {"tools": tools, "nextCursor": "again"}
        case "full_page":  # ends exactly where reading used to end, with more to come
            page = int(params.get("cursor", 0))
            more = {"nextCursor": str(page + 1)} if page < 2 else {}
            return {"tools": [{"name": f"t{page}_{i}"} for i in range(500)], **more}
        case "endless":
            page = int(params.get("cursor", 0))
            names = [f"t{page}_{i}" for i in range(300)]
            return {"tools": [{"name": name} for name in names], "nextCursor": str(page + 1)}
        case "small_pages":
            page = int(params.get("cursor", 0))
            return {"tools": [{"name": f"t{page}"}], "nextCursor": str(page + 1)}
        case "stuck_page":
            if params.get("cursor"):
                hang()
            return {"tools": tools, "nextCursor": "next"}
        case "names":
            names = ["a.b", "a_b", "ümlaut/slash", "x" * 100, "x" * 101]
            return {"tools": [{"name": name} for name in names]}
    return {"tools": tools}


def progress(arguments: dict, number: int, message: str) -> None:
    params = {"progressToken": arguments["_token"], "progress": number, "total": 2, "message": message}
    send(method="notifications/progress", params=params)


def call(ident: int, name: str, arguments: dict) -> None:  # noqa: C901, PLR0912, PLR0915  (a list of cases)
    match name:
        case "wait":
            waiting[ident] = name
            progress(arguments, 1, "waiting")
        case "hang":
            hang()
        case "crash":
            print("the disk is full", file=sys.stderr, flush=True)
            os._exit(3)
        case "close_output":
            os.close(1)
            hang()
        case "refuse":
            send(id=ident, error={"code": -32602, "message": "a must be a number\nb is missing"})
        case "ask":
            asked = ["ping", "roots/list", "sampling/createMessage", "elicitation/create", "nonsense/method"]
            for number, method in enumerate(asked):
                send(id=f"s{number}", method=method, params={})
            answers = [read() for _ in asked]
            send(id=ident, result=text(json.dumps(answers)))
        case "change":
            tools[0]["description"] = "Say it otherwise"
            tools.append({"name": "new", "inputSchema": {"type": "object"}})
            send(method="notifications/tools/list_changed")
            send(id=ident, result=text("changed"))
        case "change_and_end":
            send(method="notifications/tools/list_changed")
            send(id=ident, result=text("changed"))
            sys.exit(0)
        case "remove":
            tools[:] = [{"name": "alpha"}, {"name": "deep", "inputSchema": {"type": "object"}}]
            send(id=ident, result=text("removed"))
            send(method="notifications/tools/list_changed")
        case "garbage":
            write(b"Listening on port 1\n\xff\xfe\x00\n[]\n{}\n\n" + b"[" * 100_000 + b"\n")
            send(method="notifications/message", params={"level": "loud"})
            send(method="notifications/unheard")
            write(f'{{"jsonrpc":"2.0","id":{ident},"result":'.encode())
            write(b'{"content":[{"type":"text","text":"bad \xff byte"}]}}\n')
        case "half":
            write(f'{{"jsonrpc":"2.0","id":{ident},"result":'.encode())
            write(b'{"content":[{"type":"text","text":"cut \\ud83d"}]}}\n')
        case "flood":
            sys.stderr.write("no room\n" * 1_000_000)
            sys.stderr.flush()
            send(id=ident, result=text("flooded"))
        case "too_long":
            for _ in range(70):
                write(b"x" * 1_000_000)
            hang()
        case "progress":
            progress(arguments, 1, "part 1")
            progress(arguments, 2, "part 2")
            send(id=ident, result=text("done"))
        case _:
            send(id=ident, result=result(name, arguments))


def answer(message: dict) -> None:  # noqa: C901
    ident, params = message.get("id"), message.get("params", {})
    match message.get("method"):
        case "initialize":
            if scenario == "modern":
                send(id=ident, error={"code": -32601, "message": "Method not found"})
            elif scenario == "odd_start":
                send(id=ident, result={"protocolVersion": 7, "serverInfo": {"name": "test", "version": "0"}})
            else:
                send(id=ident, result=initialized(params["protocolVersion"]))
        case "server/discover" if scenario == "modern":
            discovered = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "instructions": ""}
            send(id=ident, result={"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **discovered})
        case "tools/list":
            note("lists", "")
            send(id=ident, result=listed(params))
        case "tools/call":
            arguments = params.get("arguments", {})
            if params["name"] in {"progress", "wait"}:
                arguments["_token"] = params.get("_meta", {}).get("progressToken")
            call(ident, params["name"], arguments)
        case "notifications/cancelled":
            if waiting.pop(params["requestId"], None):
                note("cancelled", params.get("reason", ""))
        case "ping":
            send(id=ident, result={})
        case _ if ident is not None and "method" in message:
            send(id=ident, error={"code": -32601, "message": "Method not found"})


def main() -> None:  # noqa: C901
    note("starts", str(os.getpid()))
    match scenario:
        case "hang_at_start":
            print("waiting for the database", file=sys.stderr, flush=True)
            hang()
        case "together":
            while len(Path("starts").read_text().splitlines()) < 4:
                time.sleep(0.01)
        case "exit_at_start":
            sys.exit("no such table: users")
        case "garbage_at_start":
            write(b"Welcome!\n\xff\xfe\n")
            hang()
        case "once":  # starts the first time only
            if len(Path("starts").read_text().splitlines()) > 1:
                sys.exit("the second time never works")
        case "changes" if len(Path("starts").read_text().splitlines()) > 1:
            tools[0]["description"] = "Say something else"
        case "stays":
            import signal

            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "children":
            import subprocess

            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
            note("children", str(child.pid))
        case "wants_file" if not Path("wanted").exists():
            sys.exit("wanted is missing")
    while True:
        answer(read())


main()
