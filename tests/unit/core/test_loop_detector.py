"""What counts as a loop, at which counts it is reported, and the messages."""

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


def observe(calls: Calls, detector: LoopDetector | None = None, *, ok: bool = True) -> list[Loop | None]:
    detector = detector or LoopDetector()
    return [detector.observe(*call, ok=ok) for call in calls]


def reported(loops: list[Loop | None]) -> list[tuple[str, int, str]]:
    return [(loop.kind, loop.count, loop.action) for loop in loops if loop]


def test_the_same_call_leads_to_two_reminders_a_question_and_a_stop():
    loops = observe([A] * 12)
    assert reported(loops) == [
        ("exact", 3, "remind"),
        ("exact", 5, "remind"),
        ("exact", 8, "ask"),
        ("exact", 12, "stop"),
    ]
    assert [place for place, loop in enumerate(loops, 1) if loop] == [3, 5, 8, 12]


def test_each_call_after_a_stop_is_another_stop():
    assert reported(observe([A] * 14))[-2:] == [("exact", 13, "stop"), ("exact", 14, "stop")]


def test_a_reminder_names_the_call_the_count_and_what_to_do():
    (loop,) = filter(None, observe([A] * 3))
    assert loop.message == (
        'You repeat yourself: the same call 3 times in a row, each with the same result: bash {"command": "ls"}. '
        "Nothing new comes of it: use what you know, try another way, or say what you need."
    )


def test_the_message_for_the_user_is_a_sentence_that_needs_no_answer():
    asked, stopped = [loop.message for loop in observe([A] * 12) if loop and loop.action != "remind"]
    what = 'each with the same result: bash {"command": "ls"}'
    assert asked == f"the model repeats itself: the same call 8 times in a row, {what}"
    assert stopped == f"the model repeats itself: the same call 12 times in a row, {what}; write what to do instead"


def test_the_spelling_of_json_arguments_does_not_matter():
    spellings = ['{"a": 1, "b": "x"}', '{"b":"x","a":1}', '{ "b" : "\\u0078", "a" : 1 }']
    assert reported(observe([("t", spelling, "r") for spelling in spellings])) == [("exact", 3, "remind")]


def test_arguments_that_are_not_json_are_compared_as_text():
    assert reported(observe([("t", "{oops", "r")] * 3)) == [("exact", 3, "remind")]
    assert reported(observe([("t", "[" * 100_000, "r")] * 3)) == [("exact", 3, "remind")]
    assert reported(observe([("t", "", "r"), ("t", "{}", "r"), ("t", " ", "r")])) == []


def test_a_cycle_is_reported_by_its_rounds(subtests):
    for cycle, calls in [
        ([A, B], [6, 10, 16, 24]),
        ([A, B, C], [9, 15, 24, 36]),
        ([A, A, B, C], [10, 16, 25, 37]),
        ([A, B, B, C, B], [10, 16, 25, 37]),
    ]:
        with subtests.test(cycle=cycle, calls=calls):
            loops = observe((cycle * 12)[: calls[-1]])
            assert [place for place, loop in enumerate(loops, 1) if loop] == calls
            assert reported(loops) == [
                ("cycle", 3, "remind"),
                ("cycle", 5, "remind"),
                ("cycle", 8, "ask"),
                ("cycle", 12, "stop"),
            ]


def test_alternating_calls_are_found():
    assert reported(observe([A, B] * 6)) == [("cycle", 3, "remind"), ("cycle", 5, "remind")]
    assert reported(observe([A, B, C] * 5)) == [("cycle", 3, "remind"), ("cycle", 5, "remind")]


def test_a_cycle_names_its_calls():
    loop = observe([A, B] * 3)[-1]
    assert loop is not None
    calls = 'bash {"command": "ls"}, read_file'
    assert f"the same 2 calls over and over, 3 rounds, each with the same result: {calls}" in loop.message


def test_a_cycle_between_other_calls_is_found():
    others = [("bash", json.dumps({"command": f"echo {word}"}), word) for word in ("x", "y", "z")]
    assert reported(observe([*others, A, B, A, B, A, B, *others])) == [("cycle", 3, "remind")]


def test_another_call_breaks_the_series():
    assert reported(observe([A, A, B, A, A, C, A, A])) == []


def test_known_calls_in_any_order_are_a_cycle():
    calls = [("read_file", json.dumps({"path": name}), f"text of {name}") for name in "abcdefgh"]
    order = [0, 1, 2, 3, 4, 5, 6, 7, 2, 5, 0, 7, 1, 3, 6, 4, 0, 2, 6, 1, 5, 7, 4, 3, 1, 0, 2, 7, 3, 5, 6, 4] * 3
    loops = observe([calls[number] for number in order])
    assert reported(loops)[-1][2] == "stop"
    assert "the same 8 calls over and over, 12 rounds" in list(filter(None, loops))[-1].message


def test_of_a_long_cycle_eight_calls_are_a_round_and_five_are_named():
    calls = [("read_file", json.dumps({"path": f"{n}"}), f"text {n}") for n in range(20)]
    loops = observe(calls * 2)
    assert [(place, loop.count) for place, loop in enumerate(loops, 1) if loop] == [(36, 3)]
    (loop,) = filter(None, loops)
    assert loop.message.count("read_file") == 5


def test_the_same_call_with_another_result_is_no_repeat():
    polls = [("bash", '{"command": "cat progress"}', f"{percent} % done") for percent in range(0, 100, 5)]
    assert reported(observe(polls)) == []


def test_results_that_differ_in_times_and_addresses_alone_are_near_repeats():
    results = [f"{TRACEBACK}\n<Thing at 0x7f3a{n:08x}>\n1 failed in 0.{n}s (pid {4000 + n})" for n in range(10, 40)]
    loops = observe(("bash", '{"command": "pytest"}', result) for result in results)
    assert reported(loops) == [("near", 5, "remind"), ("near", 10, "remind"), ("near", 20, "ask"), ("near", 30, "stop")]


def test_growing_line_numbers_with_nearly_the_same_result_are_near_repeats():
    assert reported(observe(read(offset) for offset in range(1, 31))) == [
        ("near", 5, "remind"),
        ("near", 10, "remind"),
        ("near", 20, "ask"),
        ("near", 30, "stop"),
    ]
    commands = [("bash", json.dumps({"command": f"sed -n {n},{n + 9}p a.py"}), window(n, n + 9)) for n in range(1, 13)]
    assert reported(observe(commands)) == [("near", 5, "remind"), ("near", 10, "remind")]


def test_growing_numbers_in_a_command_are_near_repeats(subtests):
    for command in [
        "sed -n '{0},{1}p' src/a1.py",
        "nl -ba a.py | sed -n {0},{1}p",
        "head -n {1} a.py | tail -n 10",
        "tail -n+{0} a.py | head",
        "awk 'NR>={0} && NR<={1}' a.py",
        "python -c 'print(lines[{0}:{1}])'",
        "curl -s 'https://example.org/items?page={0}'",
    ]:
        with subtests.test(command=command):
            calls = [
                ("bash", json.dumps({"command": command.format(n, n + 9)}), window(n, n + 9)) for n in range(1, 13)
            ]
            assert reported(observe(calls)) == [("near", 5, "remind"), ("near", 10, "remind")]


def test_calls_about_different_files_are_never_near_repeats(subtests):
    for path in ["path", "file_path", "url"]:
        with subtests.test(path=path):
            calls = [("read", json.dumps({path: f"a{n}", "offset": 1}), window(1, 50)) for n in range(40)]
            assert reported(observe(calls)) == []
            assert reported(observe([*calls, *([calls[-1]] * 2)])) == [("exact", 3, "remind")]


def test_arguments_of_any_form_are_compared(subtests):
    for arguments in ["[{n}]", '"a{n}"', "{n}", "{{oops {n}", '{{"path": {n}}}', '{{"command": [{n}]}}']:
        with subtests.test(arguments=arguments):
            calls = [("t", arguments.format(n=n), window(1, 50)) for n in range(5)]
            assert reported(observe(calls)) == [("near", 5, "remind")]


def test_alternating_near_repeats_are_found():
    calls = [call for n in range(1, 7) for call in (read(n), B)]
    assert reported(observe(calls)) == [("near", 5, "remind")]


def test_a_reworded_search_with_the_same_matches_is_a_near_repeat():
    pattern = "def +(compute_the_whole_value_of|read_every_single_line_of|write_every_single_line_of)_%s"
    calls = [
        ("grep", json.dumps({"pattern": pattern % end, "path": "src/package"}), TRACEBACK)
        for end in ("it", "it ", "it.", "it:", "it;")
    ]
    assert reported(observe(calls)) == [("near", 5, "remind")]


def test_an_edit_that_fails_in_nearly_the_same_way_is_a_near_repeat():
    texts = [f"    return total + {n}\n" + "\n".join(LINES[:10]) for n in range(5)]
    calls = [
        (
            "edit_file",
            json.dumps({"path": "a.py", "old_string": text, "new_string": "pass"}),
            "old_string is not in a.py.",
        )
        for text in texts
    ]
    assert reported(observe(calls, ok=False)) == [("near", 5, "remind")]
    assert reported(observe(calls, ok=True)) == []


def test_an_allowed_loop_is_asked_about_after_as_many_more_rounds():
    detector = LoopDetector()
    assert reported(observe([A] * 8, detector))[-1] == ("exact", 8, "ask")
    detector.allow()
    assert reported(observe([A] * 7, detector)) == []
    assert reported(observe([A], detector)) == [("exact", 16, "ask")]
    detector.allow()
    assert reported(observe([A] * 8, detector)) == [("exact", 24, "ask")]


def test_only_the_present_loop_is_allowed():
    detector = LoopDetector()
    observe([A] * 8, detector)
    detector.allow()
    assert reported(observe([A, B, B, B], detector)) == [("exact", 3, "remind")]


def test_a_known_call_in_an_allowed_loop_makes_it_another_loop():
    detector = LoopDetector()
    observe([B, *[A] * 8], detector)
    detector.allow()
    assert reported(observe([B, *[A, B] * 4], detector)) == [("cycle", 8, "ask")]


def test_an_allowed_cycle_is_asked_about_after_as_many_more_rounds():
    detector = LoopDetector()
    assert reported(observe([A, B] * 8, detector))[-1] == ("cycle", 8, "ask")
    detector.allow()
    assert reported(observe([A, B] * 7, detector)) == []
    assert reported(observe([A, B], detector)) == [("cycle", 16, "ask")]


def test_after_forget_the_count_begins_again():
    detector = LoopDetector()
    observe([A] * 11, detector)
    detector.forget()
    assert reported(observe([A] * 2, detector)) == []
    assert reported(observe([A], detector)) == [("exact", 3, "remind")]


def read_twenty(detector: LoopDetector) -> list[Loop | None]:
    """Twenty files, with the same ids of calls each time."""
    texts = enumerate(LINES[:20])
    return [
        detector.observe("read_file", json.dumps({"path": f"{n}"}), text, ok=True, call_id=f"c{n}") for n, text in texts
    ]


def test_results_that_the_model_no_longer_sees_may_be_asked_for_again():
    detector = LoopDetector()
    assert reported(read_twenty(detector)) == []
    detector.forget_results([f"c{n}" for n in range(20)])
    assert reported(read_twenty(detector)) == []
    assert reported(read_twenty(detector)) == [("cycle", 3, "remind")]


def test_old_results_may_go_while_the_same_call_is_repeated():
    detector = LoopDetector()
    loops = []
    for n in range(12):
        loops.append(detector.observe(*A, ok=True, call_id=f"c{n}"))
        detector.forget_results([f"c{n - 1}"])
    assert reported(loops)[-1] == ("exact", 12, "stop")


def test_a_message_is_one_printable_line_of_bounded_length():
    call = ("bash\x1b[2J", '{"command": "' + "echo \u202e hi\\n; " * 5_000 + '"}', "r")
    loop = observe([call] * 3)[-1]
    assert loop is not None
    assert loop.message.isprintable()
    assert len(loop.message) < 400


def test_any_result_is_accepted(subtests):
    for number, text in enumerate(["\ud800", "\0", "", "x" * 3_000_000, "\n" * 100_000]):
        with subtests.test(number=number):
            assert reported(observe([("t", '{"a": "\\ud800"}', text)] * 3)) == [("exact", 3, "remind")]


@pytest.mark.long
def test_the_memory_is_bounded():
    detector = LoopDetector()
    calls = [("bash", json.dumps({"command": f"run {n} {n % 7}"}), window(n % 40, 900 + n % 40)) for n in range(1_000)]
    observe(calls, detector)
    assert len(detector._call_ids) == 100
