"""A program in its own process group: nothing that it started outlives a call that was stopped."""

from __future__ import annotations

import asyncio
import os
import select

import pytest

from kin_nb.core.tools.builtins.process import run_process

SECONDS = 5.0


async def test_cancelled_while_it_starts_it_leaves_nothing_running(tmp_path):
    """asyncio itself would end the program alone, and not what that has started by then."""
    reading, writing = os.pipe()
    script = "sleep 60 & echo begun >&2; wait"
    with os.fdopen(reading, "rb", 0) as words, os.fdopen(writing, "wb", 0) as stderr:
        task = asyncio.create_task(
            run_process(
                ["sh", "-c", script],
                cwd=tmp_path,
                environment=os.environ,
                seconds=60,
                sink=lambda _: False,
                stderr=stderr,
            )
        )
        for _ in range(2):  # to where it waits to hear that the program has been started
            await asyncio.sleep(0)
        assert select.select([words], [], [], SECONDS)[0]
        assert words.read(6) == b"begun\n"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        stderr.close()
        assert select.select([words], [], [], SECONDS)[0], "somebody still holds its stderr"
        assert words.read() == b""
