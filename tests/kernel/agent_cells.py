"""IPython extension for these tests: `%%agent`, whose body is the agent.

In scope: `ask`, `io`, `submit_main`, `run`, `ip`, `asyncio`. It stands where `%%kin` stands: one tap run, one channel, one turn.
"""

from __future__ import annotations

import asyncio
import textwrap

from pydantic import BaseModel

from kin_nb.core.safety.decision import ApprovalRequest, Grant
from kin_nb.core.tool_types import Preview
from kin_nb.notebook.approval import CardPlace, choose_channel
from kin_nb.notebook.cell_io import cell_io
from kin_nb.notebook.main_thread_loop import AgentThread, run_on_agent_thread
from kin_nb.notebook.tap import ShellTap, listen


class Bash(BaseModel):
    command: str


def request_for(command: str) -> ApprovalRequest:
    program = command.partition(" ")[0]
    prefix = Grant("bash", f"prefix:{program}", f"commands that start with `{program}`", may_last=True)
    exact = Grant("bash", f"exact:{command}", "exactly this command")
    preview = Preview(summary=command, body=command, kind="command")
    return ApprovalRequest(
        "bash", Bash(command=command), f"call-{command}", "it deletes files", preview, (prefix, exact)
    )


def load_ipython_extension(ip) -> None:
    thread = AgentThread()

    def agent(line: str, cell: str) -> None:
        io = cell_io(ip)
        with listen(ip, io.parent) as run:

            async def turn(submit_main):
                scope = {"io": io, "submit_main": submit_main, "asyncio": asyncio, "ip": ip, "run": run}
                channel = choose_channel(io, run=run, submit_main=submit_main, place=lambda r: place(io, r))

                async def ask(command):
                    return await channel(request_for(command))

                exec(f"async def body(ask):\n{textwrap.indent(cell, '    ')}", scope)
                return await scope["body"](ask)

            result = run_on_agent_thread(turn, thread, on_tick=run.on_tick)
        if result is not None:
            io.stream(f"{result}\n")

    ip.register_magic_function(agent, "cell", "agent")


def place(io, request) -> CardPlace:
    """As CellView does: the call's display is there before anybody is asked."""
    card = {
        "text/html": f"<b>waiting: {request.preview.summary}</b>",
        "text/plain": f"waiting: {request.preview.summary}",
    }
    display_id = f"id-{request.tool_call_id}"
    io.display(card, display_id=display_id)
    return CardPlace(display_id, card)


def unload_ipython_extension(ip) -> None:
    ShellTap.of(ip.kernel).uninstall()
