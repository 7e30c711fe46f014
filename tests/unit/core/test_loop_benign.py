"""Good work that looks a little like a loop: not even a reminder is allowed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

from kin_nb.core.context.loop_detector import LoopDetector

Call = tuple[str, str, str, bool]
WORDS = "alpha beta gamma delta users orders models views forms admin cache tasks mail search billing auth".split()  # noqa: SIM905
TWICE = [*WORDS, *(name[::-1] for name in WORDS)]
CODE = [f"    value_{n} = compute({n * 7919 % 1013}, name={WORDS[n % 16]!r})" for n in range(4_000)]
LICENSE = [f"# Licence line {n}: provided as is, without any warranty of any kind" for n in range(12)]
SUITE = (
    "===== test session starts =====\nplatform linux -- Python 3.11.4, pytest-8.3\nrootdir: /w\ncollected {n} items\n"
)
NUMBERS = random.Random(7)


def call(name: str, result: str, *, ok: bool = True, **arguments: object) -> Call:
    return name, json.dumps(arguments), result, ok


def bash(command: str, result: str, *, ok: bool = True) -> Call:
    return call("bash", result, ok=ok, command=command)


def numbered(first: int, lines: list[str]) -> str:
    return "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, first))


def edit(n: int, name: str = "src/app.py") -> Call:
    result = f"Edited {name}: line {n}."
    return call("edit_file", result, path=name, old_string=CODE[n], new_string=CODE[n].replace("compute", "work_out"))


def failing(names: list[str], seconds: float) -> str:
    body = "\n".join(f"FAILED tests/test_app.py::test_{name} - AssertionError: {name}" for name in names)
    return f"{SUITE.format(n=16)}\n{body}\n==== {len(names)} failed in {seconds:.2f}s ====\n[exit code 1]"


# Waiting.


def polls_of_a_job() -> Iterator[Call]:
    return (bash("cat job.log | tail -1", f"step {n}: {n * 5} % done, 00:{n:02} elapsed") for n in range(20))


def polls_of_a_growing_file() -> Iterator[Call]:
    return (bash("ls -l out.bin", f"-rw-r--r-- 1 me me {n * 4096} May  1 12:{n:02} out.bin") for n in range(1, 21))


def polls_of_git_status() -> Iterator[Call]:
    for n in range(1, 21):
        changed = "".join(
            f"\n\tmodified:   src/{name}_{k}.py" for k, name in enumerate(WORDS[: n % 16 + 1]) for _ in "a"
        )
        yield bash("git status", f"On branch main\nChanges not staged for commit:{changed}\n{n} files")


def sleeping_between_polls() -> Iterator[Call]:
    for n in range(20):
        yield bash("sleep 10", "[no output]")
        yield bash("tail -3 build.log", f"[{n * 5:3}%] Building object {n}\n[{n * 5 + 1:3}%] Linking {WORDS[n % 16]}")


def waiting_for_pods() -> Iterator[Call]:
    for n in range(15):
        rows = "\n".join(f"web-{k}  {'1/1 Running' if k < n else '0/1 Pending'}  0  {n * 10}s" for k in range(15))
        yield bash("kubectl get pods", f"NAME  READY STATUS  RESTARTS  AGE\n{rows}")


def a_server_that_starts_after_a_while() -> Iterator[Call]:
    yield from [bash("curl -s localhost:8000/health", "curl: (7) connection refused", ok=False)] * 2
    yield bash("curl -s localhost:8000/health", '{"status": "ok"}')


# Reading.


def pages_of_a_file() -> Iterator[Call]:
    for page in range(30):
        first = page * 100 + 1
        yield call("read_file", numbered(first, CODE[first : first + 100]), path="big.py", offset=first, limit=100)


def pages_with_some_overlap() -> Iterator[Call]:
    for page in range(30):
        yield bash(f"sed -n '{page * 80 + 1},{page * 80 + 100}p' big.py", "\n".join(CODE[page * 80 : page * 80 + 100]))


def pages_of_a_monotonous_log() -> Iterator[Call]:
    for page in range(20):
        rows = (f"2024-05-01 12:{page:02}:{n:02} INFO heartbeat ok" for n in range(50))
        yield bash(f"sed -n '{page * 50 + 1},{page * 50 + 50}p' app.log", "\n".join(rows))


def files_with_the_same_licence() -> Iterator[Call]:
    for n, name in enumerate(WORDS):
        text = [*LICENSE, "", "from django.apps import AppConfig", "", f"class {name.title()}:", f"    name = {name!r}"]
        yield call("read_file", numbered(1, [*text, *CODE[n : n + 2]]), path=f"src/{name}/apps.py")


def files_with_nothing_but_the_licence() -> Iterator[Call]:
    return (call("read_file", numbered(1, LICENSE), path=f"src/{name}/__init__.py") for name in WORDS)


def files_that_are_not_there() -> Iterator[Call]:
    return (
        call("read_file", f"src/{n}.py: there is no such file or folder.", ok=False, path=f"src/{n}.py") for n in WORDS
    )


def different_searches() -> Iterator[Call]:
    for n in range(40):
        word = f"{WORDS[n % 16]}_{WORDS[n * 7 % 16]}"
        found = "\n".join(f"src/{w}.py:{n * k}:    {word}({k})" for k, w in enumerate(WORDS[: n % 9]))
        yield call("grep", found or "No line matches.", pattern=rf"\b{word}{n}\(", path="src")


def searches_without_matches() -> Iterator[Call]:
    return (call("grep", "No line matches.", pattern=f"{word}\\d+", path="src") for word in WORDS)


def one_search_in_many_places() -> Iterator[Call]:
    for n, name in enumerate(WORDS):
        found = "\n".join(f"{name}/{k}.py:{n + k}:import os" for k in range(n % 5 + 1))
        yield call("grep", found, pattern="import os", path=f"src/{name}")


def listing_folders() -> Iterator[Call]:
    return (call("list_dir", f"__init__.py\n{name}.py\ntest_{name}.py", path=f"src/{name}") for name in WORDS)


def the_history_commit_by_commit() -> Iterator[Call]:
    for n in range(20):
        files = "\n".join(f" src/{name}_{n}.py | {n + k} ++--" for k, name in enumerate(WORDS[: n % 7 + 3]))
        yield bash(
            f"git show --stat HEAD~{n}", f"commit {n * 7919:040x}\nAuthor: me\n\n    Fix {WORDS[n % 16]}\n\n{files}"
        )


def more_and_more_of_the_log() -> Iterator[Call]:
    return (bash(f"git log --oneline -{n}", "\n".join(CODE[:n])) for n in (5, 10, 20, 40, 80, 160))


def items_of_an_api() -> Iterator[Call]:
    for n in range(20):
        item = {
            "id": n,
            "title": f"{WORDS[n % 16]} {WORDS[n * 3 % 16]} {n}",
            "created": f"2024-05-{n + 1:02}T12:00",
            "n": n * n,
        }
        item |= {"open": True, "labels": [], "assignee": None, "url": f"https://example.org/items/{n}", "kind": "item"}
        yield bash(f"curl -s localhost:8000/items/{n}", json.dumps(item, indent=2))


def items_on_one_line() -> Iterator[Call]:
    for n in range(20):
        user = {"login": WORDS[n % 16], "email": f"{WORDS[n % 16]}@example.org", "role": WORDS[n * 3 % 16]}
        item = {
            "id": n,
            "title": f"{WORDS[n * 5 % 16]} in {WORDS[n * 7 % 16]}",
            "created": f"2024-05-{n + 1:02}T12:00:00",
        }
        yield bash(
            f"curl -s localhost:8000/items/{n}",
            json.dumps(item | {"open": True, "labels": [], "assignee": None, "milestone": None, "user": user}),
        )


def rows_of_a_table() -> Iterator[Call]:
    for page in range(20):
        rows = "\n".join(f"{n}|{WORDS[n % 16]}|{n * 3}|true" for n in range(page * 50, page * 50 + 50))
        yield call("query", f"id|name|n|active\n{rows}", sql=f"SELECT * FROM t LIMIT 50 OFFSET {page * 50}")


# Changing and testing.


def edits_and_tests_with_other_failures() -> Iterator[Call]:
    for n in range(10):
        yield edit(n)
        yield bash("python -m pytest -q", failing(WORDS[n : n + 5], 0.4 + n / 100))


def edits_and_tests_with_the_same_failure() -> Iterator[Call]:
    for n in range(10):
        yield edit(n)
        yield bash("python -m pytest -q", failing(WORDS[:3], 0.4 + n / 100))


def fewer_and_fewer_failing_tests() -> Iterator[Call]:
    return (bash("python -m pytest -q", failing(WORDS[n:], 0.4)) for n in range(16))


def lint_is_clean_after_each_edit() -> Iterator[Call]:
    for n in range(20):
        yield edit(n)
        yield bash("ruff check .", "All checks passed!")


def each_test_file_by_itself() -> Iterator[Call]:
    for n, name in enumerate(WORDS):
        text = f"{SUITE.format(n=n + 3)}\ntests/test_{name}.py {'.' * (n + 3)} [100%]\n\n==== {n + 3} passed in 0.{n + 10}s ===="
        yield bash(f"cd /w && python -m pytest tests/test_{name}.py", text)


def each_test_file_by_a_long_command() -> Iterator[Call]:
    command = "cd /home/me/projects/shop/backend && . .venv/bin/activate && python -m pytest -x --tb=short -p no:cacheprovider"
    warnings = "warnings summary: 2 warnings, see https://docs.pytest.org/en/stable/how-to/capture-warnings.html"
    for n, name in enumerate(WORDS):
        text = f"{SUITE.format(n=7)}\ntests/unit/test_{name}.py ....... [100%]\n{warnings}\n==== 7 passed in 0.{n + 10}s ===="
        yield bash(f"{command} --strict-markers --strict-config --color=no tests/unit/test_{name}.py", text)


def each_numbered_test_file() -> Iterator[Call]:
    for n in range(1, 17):
        text = f"{SUITE.format(n=n + 3)}\ntests/test_{n}.py {'.' * (n + 3)} [100%]\n\n==== {n + 3} passed in 0.{n + 10}s ===="
        yield bash(f"cd /w && python -m pytest tests/test_{n}.py", text)


def one_name_changed_in_many_files() -> Iterator[Call]:
    for name in WORDS:
        path = f"src/{name}.py"
        yield call("edit_file", f"Edited {path}: line 3.", path=path, old_string="get_user(", new_string="find_user(")


def numbered_files_written() -> Iterator[Call]:
    for n in range(20):
        path, content = f"chapter_{n:02}.md", "\n".join(CODE[n * 20 : n * 20 + 20])
        yield call("write_file", f"Wrote {path}: 20 lines.", path=path, content=content)


def edits_of_one_file_from_top_to_bottom() -> Iterator[Call]:
    return (edit(n) for n in range(40))


def todos_ticked_off() -> Iterator[Call]:
    for n in range(12):
        todos = [{"content": name, "status": "completed" if k < n else "pending"} for k, name in enumerate(WORDS)]
        yield call("todo", f"16 todos: {n} completed, {16 - n} pending", todos=todos)
        yield edit(n)


def a_failing_command_fixed_step_by_step() -> Iterator[Call]:
    for n, name in enumerate(WORDS):
        lines = "\n".join(
            f'  File "/w/{w}.py", line {n * k + 3}, in {w}\n    {CODE[n * k]}' for k, w in enumerate(WORDS[:6])
        )
        yield bash(
            "python run.py",
            f"Traceback (most recent call last):\n{lines}\nImportError: {name}\n[exit code 1]",
            ok=False,
        )
        yield bash(f"pip install {name}", f"Successfully installed {name}-1.{n}")


def a_sweep_of_settings() -> Iterator[Call]:
    for n in range(12):
        epochs = "\n".join(
            f"epoch {k}: loss {NUMBERS.random():.4f}, accuracy {NUMBERS.random():.4f}" for k in range(10)
        )
        head = "\n".join(f"layer {k}: Dense(64), 4160 parameters" for k in range(90))
        yield bash(f"python train.py --seed {n}", f"{head}\n{epochs}")


def experiments_in_one_line() -> Iterator[Call]:
    return (bash(f'python -c "print({n} ** 2 % 7)"', str(n**2 % 7)) for n in range(30))


def commits_one_by_one() -> Iterator[Call]:
    for n, name in enumerate(WORDS):
        yield bash(f"git add src/{name}.py && git commit -qm 'Fix {name}'", "[no output]")
        yield bash("git status --short", "\n".join(f" M src/{w}.py" for w in WORDS[n + 1 :]) or "[no output]")


def processes_stopped_one_by_one() -> Iterator[Call]:
    return (bash(f"kill {4000 + n}", "[no output]") for n in range(20))


def a_file_looked_at_after_each_edit() -> Iterator[Call]:
    lines = CODE[:60]
    for n in range(15):
        yield edit(n)
        lines = [*lines[:n], lines[n].replace("compute", "work_out"), *lines[n + 1 :]]
        yield call("read_file", numbered(1, lines), path="src/app.py")


def the_same_call_a_few_times_with_other_work_between() -> Iterator[Call]:
    for n in range(12):
        yield bash("git diff --stat", "[no output]")
        yield call("read_file", numbered(1, CODE[n * 9 : n * 9 + 9]), path=f"src/{WORDS[n]}.py")


def two_looks_at_the_same_files() -> Iterator[Call]:
    pages = [
        call("read_file", numbered(1, CODE[n : n + 40]), path=f"src/{name}.py") for n, name in enumerate(WORDS[:10])
    ]
    return iter([*pages, edit(1), *pages])


def pages_of_the_web() -> Iterator[Call]:
    for n in range(12):
        head = "Docs\nHome\nGuide\nReference\nAbout\nSearch\n"
        yield call("web_fetch", head + "\n".join(CODE[n * 50 : n * 50 + 50]), url=f"https://example.org/docs/{n}")


def pictures_made_again_with_other_sizes() -> Iterator[Call]:
    return (
        bash(f"convert a.png -resize {n}x{n} b.png && du -b b.png", f"{n * n * 3}\tb.png") for n in range(10, 400, 10)
    )


def the_same_question_to_many_hosts() -> Iterator[Call]:
    for n in range(16):
        rows = "\n".join(f"/dev/sd{w[0]}{k}  {NUMBERS.randint(1, 99)}%  /mnt/{w}" for k, w in enumerate(WORDS[:9]))
        yield bash(f"ssh host{n} df -h", f"Filesystem Use% Mounted on\n{rows}")


# One by one through what is much alike.


def host(n: int) -> str:
    return "\n".join(
        [f"hostname: web-{n:02}", f"address: 10.0.0.{n}", *(f"setting_{k}: value {k}" for k in range(100))]
    )


def numbered_files_much_alike() -> Iterator[Call]:
    return (call("read_file", numbered(1, host(n).splitlines()), path=f"hosts/host_{n:02}.yaml") for n in range(40))


def named_files_all_the_same() -> Iterator[Call]:
    return (call("read_text", host(0), file_path=f"{name}.yaml") for name in TWICE)


def folders_all_the_same() -> Iterator[Call]:
    return (call("list_dir", "\n".join(WORDS * 4), path=f"release{n}") for n in range(40))


def numbered_files_much_alike_by_command() -> Iterator[Call]:
    return (bash(f"cat hosts/host_{n:02}.yaml", host(n)) for n in range(40))


def the_head_of_files_much_alike() -> Iterator[Call]:
    return (bash(f"head -n 60 'host {n}.yaml'; echo", host(n)) for n in range(40))


def files_much_alike_by_a_long_command() -> Iterator[Call]:
    command = "cd /home/me/projects/shop/backend && . .venv/bin/activate && python -m tools.decrypt --quiet --no-colour"
    for name in TWICE:
        yield bash(f"{command} --key-file=/home/me/.keys/deploy --output-format=yaml deploy/hosts/{name}.yaml", host(0))


def one_check_of_many_hosts() -> Iterator[Call]:
    return (bash(f"ssh web{n} systemctl status nginx", host(0)) for n in range(40))


def commits_much_alike() -> Iterator[Call]:
    return (bash(f"git show HEAD~{n}", host(n)) for n in range(40))


def addresses_that_answer_alike() -> Iterator[Call]:
    for n in range(30):
        yield call("web_fetch", host(n), url=f"https://example.org/hosts/{n}")
    yield from (bash(f"curl -s https://example.org/hosts/{n}", host(n)) for n in range(30))


def numbered_tests_that_fail_alike() -> Iterator[Call]:
    for n in range(30):
        yield bash(f"python -m pytest -q tests/test_mod{n}.py", failing(WORDS[:4], 0.4), ok=False)


def looking_and_editing_in_turns() -> Iterator[Call]:
    for n in range(30):
        yield call("read_file", host(n), path=f"host_{n}.yaml")
        yield call("edit_file", f"Edited host_{n}.yaml: line 3.", path=f"host_{n}.yaml", old_string="a", new_string="b")


SEQUENCES: dict[str, Callable[[], Iterator[Call]]] = {
    name: make
    for name, make in list(globals().items())
    if callable(make) and getattr(make, "__annotations__", {}).get("return") == "Iterator[Call]"
}


def test_there_are_many():
    assert len(SEQUENCES) >= 50


def test_good_work_is_not_disturbed(subtests):
    for name, sequence in SEQUENCES.items():
        with subtests.test(name=name):
            detector = LoopDetector()
            calls = list(sequence())
            loops = [detector.observe(tool, arguments, result, ok=ok) for tool, arguments, result, ok in calls]
            assert len(calls) >= 3
            assert [loop.message for loop in loops if loop] == []


def test_good_work_after_good_work_is_not_disturbed_either():
    detector = LoopDetector()
    order = list(SEQUENCES)
    random.Random(3).shuffle(order)
    loops = [detector.observe(t, a, r, ok=ok) for name in order for t, a, r, ok in SEQUENCES[name]()]
    assert [loop.message for loop in loops if loop] == []
