"""Polling is not a loop, even when little changes in the result; noise alone is not a change."""

from __future__ import annotations

import json

import pytest

from kin_nb.core.context.loop_detector import LoopDetector

LOG = "\n".join(f"step {n} of the build: nothing to do" for n in range(20))
MEASURED = "\n".join(f"12:00:{n % 60:02} step {n} of the build took {n} ms" for n in range(300))
VARYING = [int(digit) for digit in "3141592653589793238462643383279"]
EPOCHS = "\n".join(f"epoch {n}: loss 0.{n:02}" for n in range(29))


def reported(calls) -> list[tuple[str, int, str]]:
    detector = LoopDetector()
    loops = [detector.observe("bash", json.dumps({"command": c}), result, ok=ok) for c, result, ok in calls]
    return [(loop.kind, loop.count, loop.action) for loop in loops if loop]


def polls(results) -> list[tuple[str, str, bool]]:
    return [("status", result, True) for result in results]


def test_a_count_that_changes_is_polling(subtests):
    for show in [
        lambda n: f"remaining: {50 - n} min",
        lambda n: f"web-1  0/1  Pending  0  {n * 5}s",
        lambda n: f"ETA 0:{50 - n:02}:00",
        lambda n: f"downloaded {n * 7} m of 900 m",
        lambda n: f"{LOG}\nretry in {60 - n} s\n{LOG}",
        lambda n: f"{5 - n // 10} min {50 - n * 5 % 60 if n % 10 else 59} s" if n < 5 else f"4 min {59 - n} s",
        lambda n: f"running for {n * 20 // 60} min {n * 20 % 60} s",
        lambda n: f"remaining 00:{59 - n}",
        lambda n: f"00:0{n // 60}:{n % 60:02} elapsed",
        lambda n: f"[00:{n:02}<10:00]",
        lambda n: f"{9.9 - n / 5:.1f} h left",
        lambda n: f"done until 2024-{n // 28 + 1:02}-{n % 28 + 1:02}",
        lambda n: f"12:00:{n:02} still waiting, {40 - n // 2} s to go",
        lambda n: f"{MEASURED}\nretry in {60 - n} s",
    ]:
        with subtests.test(show=show):
            assert reported(polls(show(n) for n in range(40))) == []


def test_a_count_is_polling_when_the_waiting_time_of_the_call_varies():
    assert reported((f"sleep {n % 7 + 5}; status", f"{LOG}\nretry in {90 - n} s", True) for n in range(30)) == []


def test_a_count_is_polling_with_waits_between_the_calls():
    calls = [call for n in range(30) for call in (("sleep 5", "[no output]", True), ("st", f"{90 - n} s left", True))]
    assert reported(calls) == []


def test_noise_is_not_a_change(subtests):
    for show in [
        lambda n: f"{LOG}\n1 failed in {VARYING[n]}.5s",
        lambda n: f"{LOG}\n1 failed in 0.{n + 10}s",
        lambda n: f"2026-05-01 12:{n:02}:01 ERROR: no such table",
        lambda n: f"[12:{n:02}:01] ERROR: no such table",
        lambda n: f"May  1 12:{n:02}:01 host app: no such table",
        lambda n: f"{LOG}\nworker (pid {4000 + n}) at 0x7f3a{n:08x} gave up",
        lambda n: "\n".join(f"{k} took {VARYING[(n + k) % 31]}.{n}s" for k in range(300)),
    ]:
        with subtests.test(show=show):
            loops = reported(polls(show(n) for n in range(10)))
            assert loops == [("near", 5, "remind"), ("near", 10, "remind")]


def test_a_count_that_stops_is_a_loop():
    loops = reported(polls([*(f"{40 - n} s left" for n in range(10)), *["30 s left"] * 12]))
    assert [action for *_, action in loops] == ["remind", "remind", "ask", "stop"]


def test_runs_with_another_number_and_another_outcome_are_not_a_loop():
    runs = [(f"python train.py --seed {n}", f"{EPOCHS}\naccuracy 0.{n * 7919 % 1000:03}", True) for n in range(30)]
    assert reported(runs) == []


@pytest.mark.parametrize("ok", [True, False])
def test_runs_with_another_number_and_the_same_outcome_are_near_repeats(ok):
    runs = [(f"python fuzz.py --seed {n}", f"{EPOCHS}\nseed {n}: nothing found in 0.{n + 10}s", ok) for n in range(5)]
    assert reported(runs) == [("near", 5, "remind")]
