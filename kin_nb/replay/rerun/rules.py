"""The equivalence rules: what programs print otherwise on every run. docs/session-notebook.md has them as a table.

A rule is for whole lines, or for words that nothing else looks like, and for command lines that name its program. Each was
seen to vary between two runs, and has pairs that are equivalent, and pairs that are not, in
tests/unit/replay/rerun/drift_table.jsonl.
"""

from __future__ import annotations

import re

from kin_nb.replay.rerun.rule import Rule


def _lines(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


_ITSELF = re.compile("")
"""The sign of a rule whose pattern no other program prints."""
_COUNTS = r"(?:\d+ (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|rerun)(?:, )?)+|no tests ran"
_SECONDS = r"\d+(?:\.\d+)?s(?: \(\d+:\d\d:\d\d\))?"
_TIME = r"\d+(?:\.\d+)? ?(?:ms|s|m|h)"
_PACKAGES = r"\d+ packages?"
_PYTHON = frozenset(("python", "ipython", "pytest", "py.test", "unittest"))
_PYTEST = frozenset(("pytest", "py.test"))
_CARGO = frozenset(("cargo",))
_GO = frozenset(("go",))

RULES: tuple[Rule, ...] = (
    Rule(
        1,
        "unittest",
        "the seconds in `Ran n tests in S s`, under its line of 70 dashes",
        _lines(r"^(-{70}\nRan \d+ tests? in )\d+\.\d+s$"),
        frozenset(("unittest",)),
        _ITSELF,
    ),
    Rule(
        2,
        "pytest",
        "the seconds in the summary line, and the `=` that fill it up",
        _lines(rf"^(?:=+ )?((?:{_COUNTS}) in ){_SECONDS}(?: =+)?$"),
        _PYTEST,
        _ITSELF,
    ),
    Rule(
        3,
        "Python",
        "the lines of `~` and `^` in a traceback, and the rest of the statement that they mark (Python 3.13 shows all of it)",
        _lines(r'^(  File "[^"\n]+", line \d+, in [^\n]+\n    [^\n]+)(?:\n {4}[^\n]*)*\n {4}[ ~^]*[~^]$'),
    ),
    Rule(
        4,
        "Python",
        "addresses of objects, ` at 0x7f01…>`; which of them are the same must be as it was",
        re.compile(r"(?<= at )(0x[0-9a-f]{5,16})(?=>)"),
        _PYTHON,
        _ITSELF,
        "numbered",
    ),
    Rule(
        5,
        "pytest",
        "the user and the number in its temporary folder, `/pytest-of-USER/pytest-N/`",
        re.compile(r"(/pytest-of-)[^/\s'\"]{1,64}(/pytest-)\d+(?=/)"),
        _PYTEST,
        _ITSELF,
    ),
    Rule(
        6,
        "pytest",
        "the rows under `slowest durations`: which tests are slowest is a matter of time",
        _lines(
            r"^(=+ slowest (?:\d+ )?durations =+\n)(?:\d+\.\d\ds (?:setup|call|teardown) +\S.*\n)*"
            r"(?:\n\(\d+ durations < [\d.]+s hidden\.  Use -vv to show these durations\.\)\n)?"
        ),
        _PYTEST,
        _ITSELF,
    ),
    Rule(
        7,
        "pytest",
        "the end of an address in an object that it shows cut, `<object o...7f01…>`; which are the same, as in R4",
        re.compile(r"(?<=\.\.\.)((?:0?x)?[0-9a-f]{6,12})(?=>)"),
        _PYTEST,
        counts="numbered",
    ),
    Rule(
        8,
        "unittest",
        "the rows under `Slowest test durations`",
        _lines(
            r"^(Slowest test durations\n-{70}\n)(?:\d+\.\d{3}s +\S.*\n)*"
            r"(?:\n?\(durations < 0\.001s were hidden; use -v to show these durations\)\n)?"
        ),
        frozenset(("unittest",)),
        _ITSELF,
    ),
    Rule(
        9,
        "go test",
        "the seconds of packages and tests, and `(cached)` in their place",
        _lines(
            r"^(ok  \t\S+\t)(?:\d+\.\d+s|\(cached\))((?:[\t ].*)?)$|^(FAIL\t\S+\t)\d+\.\d+s$"
            r"|^( *--- (?:PASS|FAIL|SKIP): \S+ )\(\d+\.\d\ds\)$"
        ),
        _GO,
        _ITSELF,
    ),
    Rule(
        10,
        "Go",
        "addresses on the heap, `0xc000…` of ten digits; which of them are the same must be as it was",
        re.compile(r"\b(0xc[0-9a-f]{9})\b"),
        _GO,
        counts="numbered",
    ),
    Rule(
        11,
        "Go",
        "the numbers of goroutines where a panic lists them; which of them are the same must be as it was",
        _lines(r"(?<=^goroutine )(\d+)(?= \[[^\]\n]+\]:$)"),
        _GO,
        _ITSELF,
        "numbered",
    ),
    Rule(
        12,
        "cargo test",
        "the seconds in `test result: …; finished in S s`, and in the line about doctests",
        _lines(
            r"^(test result: .*; finished in )\d+\.\d+s$"
            r"|^(all doctests ran in )\d+\.\d+s(; merged doctests compilation took )\d+\.\d+s$"
        ),
        _CARGO,
        _ITSELF,
    ),
    Rule(
        13,
        "cargo test",
        "the order of a run's `test NAME ... RESULT` lines: they run side by side",
        _lines(r"(?:^(?=.*\n)test \S.* \.\.\. (?:ok|FAILED|ignored.*)\n)+"),
        _CARGO,
        _lines(r"^test result: .*; finished in "),
        "sorted",
    ),
    Rule(
        14,
        "cargo build",
        "the time in `Finished … target(s) in S s`",
        _lines(r"^( +Finished .* target\(s\) in )(?:\d+m )?\d+(?:\.\d+)?s$"),
        _CARGO,
        _ITSELF,
    ),
    Rule(
        15,
        "Rust",
        "the thread's number in `thread 'NAME' (n) panicked at`, which older ones do not print",
        _lines(r"^(thread '[^'\n]+')(?: \(\d+\))?( panicked at )"),
        _CARGO,
        _ITSELF,
    ),
    Rule(
        16,
        "Jest",
        "the time after a test or a file, and in the line `Time:`",
        _lines(
            rf"^( *[✓✕] \S.*?)(?: \({_TIME}\))?$|^((?:PASS|FAIL) \S+)(?: \({_TIME}\))?$"
            rf"|^(Time: +){_TIME}(?:, estimated {_TIME})?$"
        ),
        frozenset(("jest",)),
        _lines(r"^Test Suites: .*\d+ total$"),
    ),
    Rule(
        17,
        "Vitest",
        "the time after a test or a file, and in the lines `Start at` and `Duration` at the end",
        _lines(
            rf"^( +[✓×❯] \S.*?)(?:(?<! ) +{_TIME})?$"  # noqa: RUF001  (its marks)
            rf"|^( +Start at  )\d\d:\d\d:\d\d(\n +Duration  ){_TIME}(?: \([^)\n]*\))?$"
        ),
        frozenset(("vitest",)),
        _lines(r"^ RUN  v\d"),
    ),
    Rule(
        18,
        "Mocha",
        "the time after a slow test, and in `n passing`",
        _lines(rf"^( +[✓✔] \S.*?)(?: \({_TIME}\))?$|^(  \d+ passing) \({_TIME}\)$"),
        frozenset(("mocha",)),
        _lines(rf"^  \d+ passing \({_TIME}\)$"),
    ),
    Rule(
        19,
        "node --test",
        "the milliseconds after a test, and in the lines `duration_ms`",
        _lines(
            r"^( *[✔✖﹣▶] \S.*?) \(\d+(?:\.\d+)?ms\)((?: # .*)?)$"
            r"|^( *duration_ms: |# duration_ms |ℹ duration_ms )\d+(?:\.\d+)?$"  # noqa: RUF001  (its marks)
        ),
        frozenset(("node",)),
        _lines(r"^(?:TAP version 13|ℹ tests \d+)$"),  # noqa: RUF001
    ),
    Rule(
        20,
        "npm",
        "the time in `added n packages in S s` and its like, and in the name of the log that an error points to",
        _lines(
            rf"^((?:up to date|(?:added|removed|changed) {_PACKAGES})"
            rf"(?:,? (?:and )?(?:added|removed|changed|audited) {_PACKAGES})* in ){_TIME}$"
            r"|^(npm (?:error|ERR!) .*/_logs/)[\w:-]{1,40}(-debug-\d+\.log)$"
        ),
        frozenset(("npm",)),
        _ITSELF,
    ),
    Rule(
        21,
        "pip",
        "`Downloading` or `Using cached` before a file, the bar under it, and the notice of a newer pip",
        _lines(
            r"^( *)(?:Downloading|Using cached)( \S+ \([^)\n]+\))(?:\n +━[━╸╺ ]* [\d.]+/[\d.]+ [kMG]?B .*)?$"
            r"|\n?\n\[notice\] A new release of pip is available: .*\n\[notice\] To update, run: .*$"
        ),
        frozenset(("pip", "pip3")),
    ),
    Rule(
        22,
        "bash's `time`",
        "the figures in its three lines `real`, `user`, `sys`, also with `-p`",
        _lines(
            r"^(real\t)\d+m\d+\.\d+s(\nuser\t)\d+m\d+\.\d+s(\nsys\t)\d+m\d+\.\d+s$"
            r"|^(real )\d+\.\d+(\nuser )\d+\.\d+(\nsys )\d+\.\d+$"
        ),
        frozenset(("time",)),
        _ITSELF,
    ),
    Rule(
        23,
        "GNU time",
        "the figures in its two lines",
        _lines(
            r"^[\d.]+(user )[\d.]+(system )[\d:.]+(elapsed )[\d?]+(%CPU) \(\d+avgtext\+\d+avgdata \d+maxresident\)k"
            r"(\n)\d+inputs\+\d+outputs \(\d+major\+\d+minor\)pagefaults \d+swaps$"
        ),
        frozenset(("time",)),
        _ITSELF,
    ),
    Rule(
        24,
        "git",
        "the id of the commit that a command made, in `[BRANCH ID] SUBJECT`: it depends on the time",
        _lines(r"^(\[[^\[\]\n]+ )[0-9a-f]{7,40}(\] )"),
        frozenset(("git",)),
    ),
    Rule(
        25,
        "git",
        "how many digits, from 7 on, a diff's `index a..b` shows: more in a larger repository",
        _lines(r"^(index [0-9a-f]{7})[0-9a-f]*(\.\.[0-9a-f]{7})[0-9a-f]*((?: \d{6})?)$"),
        frozenset(("git",)),
    ),
)
