"""The agent's thread and the wait for it, without a kernel."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading

import pytest

from kin_nb.notebook.main_thread_loop import AgentThread, TurnInterrupted, run_on_agent_thread


@pytest.fixture
def thread():
    agent = AgentThread()
    yield agent
    assert agent.close()


def test_no_thread_before_the_first_use_and_none_after_close():
    agent = AgentThread("kin-agent-under-test")
    assert not agent.running
    assert agent.loop.is_running()
    assert agent.close()
    assert "kin-agent-under-test" not in {t.name for t in threading.enumerate()}


def test_a_closed_thread_starts_again(thread):
    first = thread.loop
    thread.close()
    assert thread.loop is not first
    assert thread.loop.is_running()


def test_the_callers_context_travels_with_the_turn(thread):
    cell = contextvars.ContextVar("cell")
    cell.set("mine")

    async def turn(_):
        return cell.get()

    assert run_on_agent_thread(turn, thread) == "mine"


def test_off_the_main_thread_jobs_run_on_the_caller_and_signals_are_left_alone(thread):
    handler, seen = signal.getsignal(signal.SIGINT), {}

    async def turn(submit_main):
        seen["handler"] = signal.getsignal(signal.SIGINT)
        return await submit_main(threading.current_thread)

    caller = threading.Thread(target=lambda: seen.update(ran_on=run_on_agent_thread(turn, thread)))
    caller.start()
    caller.join(10)
    assert seen == {"handler": handler, "ran_on": caller}


def test_the_signal_handler_is_ours_during_the_turn_and_restored_after_a_failure(thread):
    handler, during = signal.getsignal(signal.SIGINT), []

    async def turn(_):
        during.append(signal.getsignal(signal.SIGINT))
        raise ValueError("agent")

    with pytest.raises(ValueError, match="agent"):
        run_on_agent_thread(turn, thread)
    assert during != [handler]
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_interrupt_that_another_thread_of_the_process_receives_stops_the_turn(thread):
    async def turn(_):
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        await asyncio.sleep(60)

    with pytest.raises(TurnInterrupted):
        run_on_agent_thread(turn, thread)


def test_closing_the_agents_thread_ends_the_turn(thread):
    async def turn(_):
        threading.Thread(target=thread.close).start()
        await asyncio.sleep(60)

    with pytest.raises(TurnInterrupted):
        run_on_agent_thread(turn, thread)


def test_an_interrupt_as_the_turn_ends_still_stops_the_queue(thread):
    async def turn(_):
        signal.raise_signal(signal.SIGINT)
        return "done"

    with pytest.raises(TurnInterrupted):
        run_on_agent_thread(turn, thread)


def test_a_job_submitted_after_the_turn_is_cancelled_not_left_waiting(thread):
    async def turn(submit_main):
        return submit_main

    late = run_on_agent_thread(turn, thread)

    async def ask_late(_):
        try:
            await asyncio.wait_for(late(lambda: "ran"), 5)
        except asyncio.CancelledError:
            return "cancelled"

    assert run_on_agent_thread(ask_late, thread) == "cancelled"


def test_on_tick_is_called_while_the_agent_works(thread):
    ticked = threading.Event()

    async def turn(_):
        return await asyncio.to_thread(ticked.wait, 10)

    assert run_on_agent_thread(turn, thread, on_tick=ticked.set)


def test_an_interrupt_in_a_job_is_a_cancellation_of_the_turn_for_anyone_who_waits_for_it(thread):
    seen = []

    def interrupted():
        raise KeyboardInterrupt

    async def call(submit_main):
        try:
            await submit_main(interrupted)
        except asyncio.CancelledError:
            seen.append(asyncio.current_task().cancelling())
            raise

    async def turn(submit_main):
        asking = asyncio.create_task(call(submit_main))
        try:
            await asyncio.wait({asking})
        finally:
            asking.cancel()

    with pytest.raises(TurnInterrupted):
        run_on_agent_thread(turn, thread)
    assert seen == [1]
