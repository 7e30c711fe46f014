"""What is a loop, how often it is let go on, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from kin_nb.core.context.loop_detector import Loop, LoopDetector

LINES = [f"    value_{number} = compute({number * 7919 % 1013})" for number in range(2_000)]
A = ("bash", '{"command": "ls"}', "a.py\nb.py")
B = ("read_file", '{"path": "a.py"}', "1\tx = 1")
C = ("grep", '{"pattern": "x"}', "a.py:1:x = 1")
TRACEBACK = "Traceback (most recent call last):\n" + "\n".join(LINES[:12]) + "\nAssertionError: 3 != 4"

Calls = Iterable[tuple[str, str, str]]


def window(first: int, last: int) -> str:
    return "\n".join(f"{number}\t{LINES[number]}" for number in range(first, last + 1))


def read(offset: int, limit: int = 50) -> tuple[str, str, str]:
    return "read_file", json.dumps({"path": "a.py", "offset": offset, "limit": limit}), window(offset, offset + limit)


def watched(calls: Calls, detector: LoopDetector | None = None, *, ok: bool = True) -> list[Loop | None]:
    detector = detector or LoopDetector()
    return [detector.observe(*call, ok=ok) for call in calls]


def said(loops: list[Loop | None]) -> list[tuple[str, int, str]]:
    return [(loop.kind, loop.count, loop.action) for loop in loops if loop]


def test_the_same_call_is_reminded_of_twice_then_asked_about_then_stopped():
    loops = watched([A] * 12)
    assert said(loops) == [("exact", 3, "remind"), ("exact", 5, "remind"), ("exact", 8, "ask"), ("exact", 12, "stop")]
    assert [place for place, loop in enumerate(loops, 1) if loop] == [3, 5, 8, 12]


def test_whoever_goes_on_after_a_stop_is_stopped_again():
    assert said(watched([A] * 14))[-2:] == [("exact", 13, "stop"), ("exact", 14, "stop")]


def test_a_reminder_names_the_call_and_how_often_and_says_what_to_do():
    (loop,) = filter(None, watched([A] * 3))
    assert loop.message == (
        'You repeat yourself: the same call 3 times in a row, each with the same result: bash {"command": "ls"}. '
        "Nothing new comes of it: use what you know, try another way, or say what you need."
    )


def test_what_the_person_reads_is_a_sentence_that_needs_no_answer():
    asked, stopped = [loop.message for loop in watched([A] * 12) if loop and loop.action != "remind"]
    what = 'each with the same result: bash {"command": "ls"}'
    assert asked == f"the model repeats itself: the same call 8 times in a row, {what}"
    assert stopped == f"the model repeats itself: the same call 12 times in a row, {what}; write what to do instead"


def test_arguments_are_the_same_however_they_are_written():
    spellings = ['{"a": 1, "b": "x"}', '{"b":"x","a":1}', '{ "b" : "\\u0078", "a" : 1 }']
    assert said(watched([("t", spelling, "r") for spelling in spellings])) == [("exact", 3, "remind")]


def test_arguments_that_are_no_json_are_compared_as_they_are():
    assert said(watched([("t", "{oops", "r")] * 3)) == [("exact", 3, "remind")]
    assert said(watched([("t", "[" * 100_000, "r")] * 3)) == [("exact", 3, "remind")]
    assert said(watched([("t", "", "r"), ("t", "{}", "r"), ("t", " ", "r")])) == []


@pytest.mark.parametrize(
    ("cycle", "rounds"),
    [
        ([A, B], [6, 10, 14, 20]),
        ([A, B, C], [9, 15, 21, 30]),
        ([A, A, B, C], [12, 20, 28, 40]),
        ([A, B, C, B, B], [15, 25, 35, 50]),
    ],
)
def test_a_cycle_is_caught_by_its_rounds(cycle, rounds):
    loops = watched(cycle * 10)
    assert [place for place, loop in enumerate(loops, 1) if loop] == rounds
    assert said(loops) == [("cycle", 3, "remind"), ("cycle", 5, "remind"), ("cycle", 7, "ask"), ("cycle", 10, "stop")]


def test_two_calls_six_times_and_three_calls_five_times_are_caught():
    assert said(watched([A, B] * 6)) == [("cycle", 3, "remind"), ("cycle", 5, "remind")]
    assert said(watched([A, B, C] * 5)) == [("cycle", 3, "remind"), ("cycle", 5, "remind")]


def test_a_cycle_names_its_calls():
    loop = watched([A, B] * 3)[-1]
    assert loop is not None
    assert 'the same 2 calls 3 times over, each with the same result: bash {"command": "ls"}, read_file' in loop.message


def test_a_cycle_in_the_middle_of_other_work_is_caught():
    others = [("bash", json.dumps({"command": f"echo {word}"}), word) for word in ("x", "y", "z")]
    assert said(watched([*others, A, B, A, B, A, B, *others])) == [("cycle", 3, "remind")]


def test_another_call_breaks_the_series():
    assert said(watched([A, A, B, A, A, C, A, A])) == []


def test_going_round_without_a_period_is_caught_too():
    calls = [("read_file", json.dumps({"path": name}), f"text of {name}") for name in "abcdefgh"]
    order = [0, 1, 2, 3, 4, 5, 6, 7, 2, 5, 0, 7, 1, 3, 6, 4, 0, 2, 6, 1, 5, 7, 4, 3, 1, 0, 2, 7, 3, 5, 6, 4] * 3
    loops = watched([calls[number] for number in order])
    assert said(loops)[:3] == [("cycle", 15, "remind"), ("cycle", 25, "remind"), ("cycle", 40, "ask")]
    assert "15 calls in a row that had all been made before" in next(filter(None, loops)).message


def test_the_same_call_with_another_result_is_no_repeat():
    polls = [("bash", '{"command": "cat progress"}', f"{percent} % done") for percent in range(0, 100, 5)]
    assert said(watched(polls)) == []


def test_results_that_differ_only_in_times_and_addresses_are_nearly_the_same():
    results = [f"{TRACEBACK}\n<Thing at 0x7f3a{n:08x}>\n1 failed in 0.{n}s (pid {4000 + n})" for n in range(10, 40)]
    loops = watched(("bash", '{"command": "pytest"}', result) for result in results)
    assert said(loops) == [("near", 5, "remind"), ("near", 10, "remind"), ("near", 20, "ask"), ("near", 30, "stop")]


def test_growing_line_numbers_with_nearly_the_same_result_are_caught():
    assert said(watched(read(offset) for offset in range(1, 31))) == [
        ("near", 5, "remind"),
        ("near", 10, "remind"),
        ("near", 20, "ask"),
        ("near", 30, "stop"),
    ]
    commands = [("bash", json.dumps({"command": f"sed -n {n},{n + 9}p a.py"}), window(n, n + 9)) for n in range(1, 13)]
    assert said(watched(commands)) == [("near", 5, "remind"), ("near", 10, "remind")]


@pytest.mark.parametrize(
    "command",
    [
        "sed -n '{0},{1}p' src/a1.py",
        "nl -ba a.py | sed -n {0},{1}p",
        "head -n {1} a.py | tail -n 10",
        "tail -n+{0} a.py | head",
        "awk 'NR>={0} && NR<={1}' a.py",
        "python -c 'print(lines[{0}:{1}])'",
        "curl -s 'https://example.org/items?page={0}'",
    ],
)
def test_growing_numbers_in_a_command_that_are_no_names_are_caught(command):
    calls = [("bash", json.dumps({"command": command.format(n, n + 9)}), window(n, n + 9)) for n in range(1, 13)]
    assert said(watched(calls)) == [("near", 5, "remind"), ("near", 10, "remind")]


@pytest.mark.parametrize("path", ["path", "file_path", "url"])
def test_calls_about_different_things_are_never_near(path):
    calls = [("read", json.dumps({path: f"a{n}", "offset": 1}), window(1, 50)) for n in range(40)]
    assert said(watched(calls)) == []
    assert said(watched([*calls, *([calls[-1]] * 2)])) == [("exact", 3, "remind")]


@pytest.mark.parametrize(
    "arguments", ["[{n}]", '"a{n}"', "{n}", "{{oops {n}", '{{"path": {n}}}', '{{"command": [{n}]}}']
)
def test_arguments_of_any_form_are_compared(arguments):
    calls = [("t", arguments.format(n=n), window(1, 50)) for n in range(5)]
    assert said(watched(calls)) == [("near", 5, "remind")]


def test_near_repeats_in_turns_are_caught():
    calls = [call for n in range(1, 7) for call in (read(n), B)]
    assert said(watched(calls)) == [("near", 5, "remind")]


def test_a_search_reworded_that_finds_the_same_is_caught():
    pattern = "def +(compute_the_whole_value_of|read_every_single_line_of|write_every_single_line_of)_%s"
    calls = [
        ("grep", json.dumps({"pattern": pattern % end, "path": "src/package"}), TRACEBACK)
        for end in ("it", "it ", "it.", "it:", "it;")
    ]
    assert said(watched(calls)) == [("near", 5, "remind")]


def test_an_edit_that_fails_in_nearly_the_same_way_is_caught():
    texts = [f"    return total + {n}\n" + "\n".join(LINES[:10]) for n in range(5)]
    calls = [
        (
            "edit_file",
            json.dumps({"path": "a.py", "old_string": text, "new_string": "pass"}),
            "old_string is not in a.py.",
        )
        for text in texts
    ]
    assert said(watched(calls, ok=False)) == [("near", 5, "remind")]
    assert said(watched(calls, ok=True)) == []


def test_the_persons_go_on_is_good_for_as_many_repeats_again():
    detector = LoopDetector()
    assert said(watched([A] * 8, detector))[-1] == ("exact", 8, "ask")
    detector.go_on()
    assert said(watched([A] * 7, detector)) == []
    assert said(watched([A], detector)) == [("exact", 16, "ask")]
    detector.go_on()
    assert said(watched([A] * 8, detector)) == [("exact", 24, "ask")]


def test_a_go_on_is_for_that_loop_alone():
    detector = LoopDetector()
    watched([A] * 8, detector)
    detector.go_on()
    assert said(watched([A, B, B, B], detector)) == [("exact", 3, "remind")]


def test_a_go_on_for_one_of_two_calls_in_turns():
    detector = LoopDetector()
    assert said(watched([A, B] * 7, detector))[-1] == ("cycle", 7, "ask")
    detector.go_on()
    assert said(watched([A, B] * 6, detector)) == []
    assert said(watched([A, B], detector)) == [("cycle", 14, "ask")]


def test_what_is_forgotten_was_not_seen():
    detector = LoopDetector()
    watched([A] * 11, detector)
    detector.forget()
    assert said(watched([A] * 2, detector)) == []
    assert said(watched([A], detector)) == [("exact", 3, "remind")]


def reads(detector: LoopDetector) -> list[Loop | None]:
    """Twenty files, with the same calls' ids each time."""
    texts = enumerate(LINES[:20])
    return [
        detector.observe("read_file", json.dumps({"path": f"{n}"}), text, ok=True, call_id=f"c{n}") for n, text in texts
    ]


def test_results_that_the_model_no_longer_sees_may_be_asked_for_again():
    detector = LoopDetector()
    assert said(reads(detector)) == []
    detector.forget_results([f"c{n}" for n in range(10)])
    assert said(reads(detector)) == []
    assert said(reads(detector)) == [("cycle", 15, "remind"), ("cycle", 25, "remind")]


def test_a_series_of_the_same_call_goes_on_when_its_first_results_are_gone():
    detector = LoopDetector()
    for n in range(11):
        detector.observe(*A, ok=True, call_id=f"c{n}")
        detector.forget_results([f"c{n}"])
    assert said(watched([A], detector)) == [("exact", 12, "stop")]


def test_the_same_long_words_before_every_call_are_caught_and_short_ones_are_not():
    detector = LoopDetector()
    words = "I will now look at the file again to understand what it does. " * 4
    loops = [detector.observe_reply(text) for _ in range(5) for text in (words, "")]
    assert said(loops) == [("text", 5, "remind")]
    assert all(detector.observe_reply("Now the next file.") is None for _ in range(40))


def test_other_words_between_break_the_series_of_replies():
    detector = LoopDetector()
    words = "I will now look at the file again to understand what it does. " * 4
    assert not any(detector.observe_reply(text) for _ in range(5) for text in (words, words, "Something else."))


def test_a_message_is_one_printable_line_of_bounded_length():
    call = ("bash\x1b[2J", '{"command": "' + "echo \u202e hi\\n; " * 5_000 + '"}', "r")
    loop = watched([call] * 3)[-1]
    assert loop is not None
    assert loop.message.isprintable()
    assert len(loop.message) < 400


@pytest.mark.parametrize("text", ["\ud800", "\0", "", "x" * 3_000_000, "\n" * 100_000])
def test_any_result_will_do(text):
    assert said(watched([("t", '{"a": "\\ud800"}', text)] * 3)) == [("exact", 3, "remind")]


@pytest.mark.long
def test_the_memory_is_bounded():
    detector = LoopDetector()
    calls = [("bash", json.dumps({"command": f"run {n} {n % 7}"}), window(n % 40, 900 + n % 40)) for n in range(1_000)]
    watched(calls, detector)
    assert len(detector._keys) == 100
