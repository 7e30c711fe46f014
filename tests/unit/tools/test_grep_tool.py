"""grep: ripgrep, the fallback as a program and the fallback in this process give the same text for the same question."""

from __future__ import annotations

import itertools
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from kin_nb.core.tool_types import BaseToolConfig, ToolError
from kin_nb.core.tools.builtins import grep as grep_module
from kin_nb.core.tools.builtins import grep_fallback, grep_output
from kin_nb.core.tools.builtins.grep import Grep, GrepResult
from kin_nb.core.tools.builtins.grep_output import Matches

RIPGREP = shutil.which("rg")


class EachSearch:
    """The tool, asked once per way to search: ripgrep where it is installed, a program of ours, and this process."""

    def __init__(self, workdir: Path) -> None:
        self.tool = Grep.from_config(BaseToolConfig(workdir=workdir))
        self.to_model = self.tool.to_model

    async def results(self, **args: Any) -> list[GrepResult | str]:
        """The result of each way, or the text of its error."""
        found: list[GrepResult | str] = []
        for way in ("ripgrep", "program", "process"):
            if way == "ripgrep" and not RIPGREP:
                continue
            with pytest.MonkeyPatch.context() as patch:
                if way != "ripgrep":
                    patch.setattr(grep_module, "_RIPGREP", "no such program")
                if way == "program":
                    patch.setattr(grep_module, "search_in_process", lambda *_: False)
                try:
                    found.append(await self.tool.invoke(**args))
                except ToolError as error:
                    found.append(str(error))
        return found

    async def invoke(self, **args: Any) -> GrepResult:
        """The result, which is the same in each way. Raises ToolError where each of them does."""
        first, *others = await self.results(**args)
        assert others == [first] * len(others)
        if isinstance(first, str):
            raise ToolError(first)
        return first


@pytest.fixture
def grep(tmp_path: Path) -> EachSearch:
    return EachSearch(tmp_path)


@pytest.fixture
def no_ripgrep(tmp_path: Path, monkeypatch) -> Grep:
    monkeypatch.setattr(grep_module, "_RIPGREP", "no such program")
    return Grep.from_config(BaseToolConfig(workdir=tmp_path))


def put(root: Path, *paths: str, text: str = "needle\n") -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


async def lines(grep: Grep | EachSearch, pattern: str = "needle", **args) -> list[str]:
    return (await grep.invoke(pattern=pattern, **args)).matches.split("\n")


async def test_lines_come_as_path_line_text_in_the_order_of_their_paths(grep, tmp_path):
    put(tmp_path, "b.py", "a/z.py", "a-b/x", "a.py", "B.py", text="no\n  needle here\nneedle\r\n")
    names = ["B.py", "a/z.py", "a-b/x", "a.py", "b.py"]
    found = await lines(grep)
    assert sorted(found) == sorted(f"{name}:{line}" for name in names for line in ("2:  needle here", "3:needle"))
    assert found == [
        line for name in sorted(names, key=lambda n: n.split("/")) for line in found if line.startswith(f"{name}:")
    ]


async def test_nothing_found_is_a_sentence_not_an_error(grep, tmp_path):
    put(tmp_path, "a")
    result = await grep.invoke(pattern="absent")
    assert (result.match_count, result.was_truncated) == (0, False)
    assert grep.to_model(result) == "No line matches."


async def test_ignored_hidden_binary_and_installed_files_are_left_out(grep, tmp_path):
    put(
        tmp_path,
        "a.py",
        "build/x.py",
        "src/made.log",
        "src/kept.log",
        "node_modules/x.js",
        ".hidden/x",
        "src/.secret",
        "only/here",
    )
    put(tmp_path, "sub/only/here", "src/deep/local", "src/local")
    put(tmp_path, ".gitignore", text="# comment\n\nbuild/\n*.log\n!kept.log\n/only\n")
    put(tmp_path, "src/.gitignore", text="/local\n")
    (tmp_path / "blob").write_bytes(b"needle\n\0needle\n")
    (tmp_path / "link").symlink_to("a.py")
    files = ["a.py", "src/deep/local", "src/kept.log", "sub/only/here"]
    assert await lines(grep) == [f"{name}:1:needle" for name in files]
    assert await lines(grep, path="src") == ["src/deep/local:1:needle", "src/kept.log:1:needle"]


async def test_a_given_path_is_searched(grep, tmp_path):
    put(tmp_path, ".github/ci.yml", "node_modules/x.js", "a.py")
    assert await lines(grep, path=".github") == [".github/ci.yml:1:needle"]
    assert await lines(grep, path="node_modules") == ["node_modules/x.js:1:needle"]
    assert await lines(grep, path="a.py") == ["a.py:1:needle"]


async def test_sensitive_files_are_not_read_through_their_folder(grep, tmp_path):
    put(tmp_path, "a.py", "server.pem", "credentials.json", ".env", ".git/config")
    assert await lines(grep) == ["a.py:1:needle"]
    assert await lines(grep, glob="*.pem") == [""]
    assert await lines(grep, glob=".env") == [""]
    assert await lines(grep, path="server.pem") == ["server.pem:1:needle"]
    assert await lines(grep, path=".git") == [".git/config:1:needle"]


async def test_a_glob_narrows_and_does_not_include_ignored_files(subtests, grep, tmp_path):
    for glob, files in [
        ("*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("*.{py,md}", ["a.py", "d.md", "src/b.py", "src/deep/c.py"]),
        ("src/**/*.py", ["src/b.py", "src/deep/c.py"]),
        ("src/*.py", ["src/b.py"]),
        ("[ab].py", ["a.py", "src/b.py"]),
        ("src/**", ["src/b.py", "src/deep/c.py"]),
    ]:
        with subtests.test(glob=glob, files=files):
            put(tmp_path, "a.py", "src/b.py", "src/deep/c.py", "d.md", "ignored.py", "node_modules/x.py")
            put(tmp_path, ".gitignore", text="ignored.py\n")
            assert await lines(grep, glob=glob) == [f"{name}:1:needle" for name in files]


async def test_a_pattern_without_capitals_ignores_case(grep, tmp_path):
    put(tmp_path, "a", text="Needle\nneedle\n")
    assert await lines(grep, "needle") == ["a:1:Needle", "a:2:needle"]
    assert await lines(grep, "Needle") == ["a:1:Needle"]
    assert await lines(grep, r"\Weedle|\bneedle") == ["a:1:Needle", "a:2:needle"]


async def test_the_number_of_matches_is_capped_over_all_files(grep, tmp_path):
    put(tmp_path, "a", "b", text="needle\n" * 40)
    result = await grep.invoke(pattern="needle", max_matches=50)
    assert (result.match_count, result.was_truncated) == (50, True)
    assert result.matches.endswith("b:10:needle")
    assert grep.to_model(result).endswith("\nb:10:needle\n[50 of 80 matching lines shown; not shown: b (30)]")
    whole = await grep.invoke(pattern="needle", max_matches=80)
    assert (whole.was_truncated, whole.note) == (False, "")


async def test_matches_that_are_not_shown_are_listed_by_file(grep, tmp_path):
    for n in range(15):
        put(tmp_path, f"{n:02}", text="needle\n" * (n + 1))
    result = await grep.invoke(pattern="needle", max_matches=2)
    assert result.note == (
        "[2 of 120 matching lines shown; not shown: 14 (15), 13 (14), 12 (13), 11 (12), 10 (11), 09 (10), 08 (9), "
        "07 (8), 06 (7), 05 (6), and 4 more files]"
    )


async def test_counting_has_a_limit(grep, tmp_path, monkeypatch):
    monkeypatch.setattr(grep_output, "COUNTED", 50)
    put(tmp_path, "a", "b", text="needle\n" * 40)
    assert (await grep.invoke(pattern="needle", max_matches=10)).note == (
        "[10 of at least 50 matching lines shown; not shown: a (30), b (10)]"
    )
    assert (await grep.invoke(pattern="needle", max_matches=60)).note == "[50 of at least 50 matching lines shown]"
    assert (await grep.invoke(pattern="needle", files_only=True)).note == "[the search ended after 50 matching lines]"


async def test_lines_around_a_match_are_shown_as_grep_does(grep, tmp_path):
    put(tmp_path, "a", text="1\nneedle\r\n3\r\n4\nneedle\nneedle\n7\n8\n9\n10\nneedle")
    put(tmp_path, "b", text="needle\n")
    result = await grep.invoke(pattern="needle", context=1)
    assert grep.to_model(result).split("\n") == [
        *("a-1-1", "a:2:needle", "a-3-3", "a-4-4", "a:5:needle", "a:6:needle", "a-7-7"),
        *("--", "a-10-10", "a:11:needle", "--", "b:1:needle"),
    ]
    assert result.match_count == 5
    cut = await grep.invoke(pattern="needle", context=1, max_matches=1, path="a")
    assert grep.to_model(cut) == ("a-1-1\na:2:needle\na-3-3\n[1 of 4 matching lines shown; not shown: a (3)]")


async def test_context_is_cut_to_the_limit(grep, tmp_path):
    put(tmp_path, "a", text=("x" * 400 + "\n") * 10 + ("needle\n" + ("y" * 400 + "\n") * 20) * 20)
    result = await grep.invoke(pattern="needle", context=10)
    assert result.was_truncated
    assert len(grep.to_model(result)) <= 40_000
    assert re.search(r"not shown: a \(\d+\)\]$", result.note)


async def test_only_the_files_can_be_asked_for(grep, tmp_path):
    put(tmp_path, "a", "c", text="needle\nneedle\n")
    put(tmp_path, "b")
    assert grep.to_model(await grep.invoke(pattern="needle", files_only=True)) == "a (2)\nb (1)\nc (2)"
    cut = await grep.invoke(pattern="needle", files_only=True, max_matches=2)
    assert (cut.match_count, grep.to_model(cut)) == (2, "a (2)\nb (1)\n[2 of 3 files shown]")


async def test_plain_text_can_be_searched_for(grep, tmp_path):
    put(tmp_path, "a", text="f(a[0]) # & x-y ~z {1}|$^.*+?\\W\nother\n")
    for text in ("f(a[0]) # & x-y ~z {1}|$^.*+?\\W", "F(A", "|", "\\W", "x-y ~z"):
        expected = "No line matches" if text == "F(A" else "a:1:f(a[0])"
        assert grep.to_model(await grep.invoke(pattern=text, literal=True)).startswith(expected)


async def test_patterns_that_only_python_knows_work(subtests, grep, tmp_path):
    for pattern in [r"(?<=ne)edle", r"n(?!x)eedle", r"n(e)\1dle", r"\Aneedle\Z"]:
        with subtests.test(pattern=pattern):
            put(tmp_path, "a")
            assert await lines(grep, pattern) == ["a:1:needle"]


HINTS = [
    ({"pattern": "absent"}, ""),
    ({"pattern": r"^needle\|^pin\|x\+"}, r" \+ and \|: plain text here; 2 lines match ^needle|^pin|x+"),
    ({"pattern": r"other\|"}, ""),
    ({"pattern": r"\+ needle"}, ""),
    (
        {"pattern": "NEEDLE"},
        " Capitals make the search case-sensitive; without case 2 lines match: begin it with (?i).",
    ),
    (
        {"pattern": "NEEDLE.", "literal": True},
        " Capitals make the search case-sensitive; without case 1 line matches: write it in lower case.",
    ),
    ({"pattern": r"needle\n"}, r" The search works line by line: \n matches nothing."),
    ({"pattern": "needle", "glob": "*.rs"}, " No file was searched: the glob *.rs matches none there."),
    (
        {"pattern": "needle", "glob": "src/*.py"},
        (
            " No file was searched: the glob src/*.py matches none there. "
            "A glob with a / is relative to the workspace or to path; ** matches any folders."
        ),
    ),
    ({"pattern": "absent", "glob": "src/**/*.py"}, ""),
]


async def test_a_hint_explains_why_nothing_matches(subtests, grep, tmp_path):
    for args, why in HINTS:
        with subtests.test(args=args, why=why):
            put(tmp_path, "src/deep/a.py", text="needle\nNeedle. pin\n")
            assert grep.to_model(await grep.invoke(**args)) == f"No line matches.{why}"


async def test_long_lines_and_long_results_are_cut(grep, tmp_path):
    put(tmp_path, "a", text=("needle" + "x" * 100_000 + "\n") * 200)
    result = await grep.invoke(pattern="needle", max_matches=1000)
    assert result.was_truncated
    assert len(grep.to_model(result)) <= 40_000
    assert result.matches.startswith("a:1:needlexxx")


async def test_an_invalid_expression_is_an_error_with_a_correction(subtests, grep, tmp_path):
    for pattern, message in [
        ("def f(", r"missing ), unterminated subpattern at position 5|escape it: def f\(, or set literal."),
        ("f(a, g(b", r"missing ), unterminated subpattern at position 6|escape it: f\(a, g\(b, or set literal."),
        ("a)", r"unbalanced parenthesis at position 1|escape it: a\), or set literal."),
        ("*x", r"nothing to repeat at position 0|escape it: \*x, or set literal."),
        ("x[", r"unterminated character set at position 1|escape it: x\[, or set literal."),
        (r"\p{L}", r"bad escape \p at position 0|Correct it, or set literal."),
    ]:
        with subtests.test(pattern=pattern, message=message):
            put(tmp_path, "a")
            with pytest.raises(ToolError, match="The search failed: regex parse error") as error:
                await grep.invoke(pattern=pattern)
            assert all(part in str(error.value) for part in message.split("|"))


async def test_text_that_is_not_utf_8_is_shown(grep, tmp_path):
    (tmp_path / "latin").write_bytes(b"needle caf\xe9\n")
    assert await lines(grep) == ["latin:1:needle café"]


LONG = "needle: " + "é" * 6_000
ODD = {
    "UTF-8 with a mark": ("\ufeffneedle\nx\nneedle\n".encode(), ["a:1:needle", "a:3:needle"]),
    "no end of line": (b"x\nneedle", ["a:2:needle"]),
    "lines that end as in Windows": (b"x\r\nneedle\r\n", ["a:2:needle"]),
    "a long line of two-byte letters": (f"{LONG}\nx\nneedle\n".encode(), [f"a:1:{LONG[:500]} …", "a:3:needle"]),
    "a long line of four-byte letters": (
        ("needle: " + "\U0001f600" * 3_000 + "\n").encode(),
        ["a:1:needle: " + "\U0001f600" * 492 + " …"],
    ),
    "a long line of bytes": (b"needle" + b"\xe9" * 9_000 + b"\n", ["a:1:needle" + "é" * 494 + " …"]),
}


async def test_lines_are_found_again_however_the_file_is_written(subtests, grep, tmp_path):
    for what, (content, expected) in ODD.items():
        with subtests.test(what=what):
            (tmp_path / "a").write_bytes(content)
            (tmp_path / "b").write_text("needle\n")
            for result in await grep.results(pattern="needle"):  # ripgrep does not show the mark
                assert result.matches.replace("\ufeff", "").split("\n") == [*expected, "b:1:needle"]


@pytest.mark.skipif(not shutil.which("rg"), reason="needs ripgrep")
@pytest.mark.parametrize("order", ["le", "be"])
async def test_utf_16_with_a_mark_is_read_as_ripgrep_does(tmp_path, order):
    (tmp_path / "a").write_bytes("\ufeffx\nneedle é\ny\n".encode(f"utf-16-{order}"))
    grep = Grep.from_config(BaseToolConfig(workdir=tmp_path))
    assert await lines(grep, context=1) == ["a-1-x", "a:2:needle é", "a-3-y"]


async def test_a_file_that_changed_during_the_search_is_left_out_with_a_note(grep, tmp_path, monkeypatch):
    put(tmp_path, "a", "b")
    confirm, changes = Matches.leave_out_unconfirmed, itertools.count(1)

    def changed(found: Matches) -> None:
        put(tmp_path, "a", text="other\n" * next(changes) + "needle\n")
        confirm(found)

    monkeypatch.setattr(Matches, "leave_out_unconfirmed", changed)
    result = await grep.invoke(pattern="needle")
    assert (result.matches, result.match_count, result.was_truncated) == ("b:1:needle", 1, True)
    assert result.note == "[left out, because of changes during the search: 1 file]"


async def test_a_missing_path_and_a_pipe_are_refused(grep, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, reason in {"missing": "no such file", "pipe": "named pipe"}.items():
        with pytest.raises(ToolError, match=reason):
            await grep.invoke(pattern="x", path=path)


async def test_a_pattern_like_an_option_is_a_pattern(grep, tmp_path):
    put(tmp_path, "a", text="--files\n")
    assert await lines(grep, "--files") == ["a:1:--files"]


async def test_a_search_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(grep_module, "_RIPGREP", "no such program")
    monkeypatch.setattr(grep_module, "SECONDS", 0.3)
    put(tmp_path, "a", text="a" * 60 + "\n")
    with pytest.raises(ToolError, match=r"more than 0\.3 s"):
        await Grep.from_config(BaseToolConfig(workdir=tmp_path)).invoke(pattern="(a+)+b")


@pytest.fixture
def no_program(monkeypatch) -> None:
    """A search that needs a program fails the test."""
    monkeypatch.setattr(grep_module, "_RIPGREP", "no such program")

    async def refuse(*_):
        pytest.fail("a program was started")

    monkeypatch.setattr(grep_module, "run_process", refuse)


async def test_a_small_search_starts_no_program(subtests, no_program, tmp_path):
    for pattern in ["needle", r"n\w+e", "(needle|pin)", "need.?le", "[^x]eedle", r"\bneedle\b", "^needle$"]:
        with subtests.test(pattern=pattern):
            put(tmp_path, *(f"{n}.py" for n in range(20)))
            put(tmp_path, "other", text="other\n")
            grep = Grep.from_config(BaseToolConfig(workdir=tmp_path))
            assert (await grep.invoke(pattern=pattern)).match_count == 20


def test_a_pattern_that_may_take_long_runs_in_a_program(subtests):
    for pattern in [
        "(a+)+b",
        "(a|aa){9}",
        "a*a*a*b",
        r"(a)\1",
        "(?=a)a",
        "a{2,}b*c+",
        "(a)(b)(c)",
        "[[:alpha:]]",
        "[a&&b]",
        "a(",
    ]:
        with subtests.test(pattern=pattern):
            assert grep_module.longest_line(pattern) is None or not grep_module.search_in_process(
                Path("/"), "./", pattern, [], lambda _: True
            )


def search_here(root: Path, pattern: str) -> bool:
    return grep_module.search_in_process(root, "./", pattern, [], lambda _: False)


def test_a_search_that_gets_large_moves_to_a_program(tmp_path, monkeypatch):
    put(tmp_path, "long", text="a" * 300 + "\n")
    assert search_here(tmp_path, "a+b")
    assert not search_here(tmp_path, "a+b+c")
    put(tmp_path, "large", text="a\n" * 1_000_001)
    assert not search_here(tmp_path, "b")
    (tmp_path / "large").write_bytes(b"\0" * 3_000_000)  # binary: it is passed over
    assert search_here(tmp_path, "b")
    monkeypatch.setattr(grep_module, "IN_PROCESS_SECONDS", 0)
    assert not search_here(tmp_path, "a")


async def test_matches_before_the_move_are_not_counted_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(grep_module, "_RIPGREP", "no such program")
    put(tmp_path, "a")
    put(tmp_path, "b", text="needle\n" + "x" * 3_000_000)
    assert await lines(Grep.from_config(BaseToolConfig(workdir=tmp_path))) == ["a:1:needle", "b:1:needle"]


async def test_a_glob_with_a_slash_is_relative_to_the_workspace_or_the_folder(grep, tmp_path):
    (tmp_path / "src" / "click").mkdir(parents=True)
    (tmp_path / "src" / "click" / "core.py").write_text("needle\n")
    for glob in ("src/click/*.py", "click/*.py"):
        assert (await grep.invoke(pattern="needle", path="src", glob=glob)).match_count == 1
    assert (await grep.invoke(pattern="needle", path="src", glob="lib/*.py")).match_count == 0


HOSTILE = "*a" * 30 + "*b\n" + "**/a/" * 30 + "b\n" + "{a,a}" * 30 + "b\n" + "[z-a]\n[\n{x,[z-a]}\n[!]\n"


async def test_an_ignore_file_cannot_block_or_break_the_search(no_program, tmp_path):
    put(tmp_path, "a" * 120, "/".join("a" * 40) + "/c", "ignored.py")
    put(tmp_path, ".gitignore", text=HOSTILE + "ignored.*\n" + "#" * 300_000 + "\na*\n")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / ".gitignore")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / ".gitignore").symlink_to("/dev/zero")
    grep = Grep.from_config(BaseToolConfig(workdir=tmp_path))
    assert (await grep.invoke(pattern="needle")).match_count == 2


async def test_a_broken_glob_is_an_error_that_says_so(subtests, grep, tmp_path):
    for number, glob in enumerate(["[z-a]*.py", "[a", "[!]", "a\\", "{a,a}" * 30, "a" * 5000]):
        with subtests.test(number=number):
            put(tmp_path, "a.py")
            with pytest.raises(ToolError, match=r"The glob .* cannot be read: "):
                await grep.invoke(pattern="needle", glob=glob)


def fallback_with(old: str, new: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search with a copy of the program in which a limit is shorter."""
    source, place = Path(grep_fallback.__file__).read_text(), "str(Path(__file__).resolve().parents[4])"
    assert old in source
    assert place in source
    program = folder / "grep_fallback.py"
    program.write_text(source.replace(old, new).replace(place, repr(str(Path(grep_module.__file__).parents[4]))))
    monkeypatch.setattr(grep_module, "_FALLBACK", program)


async def test_an_expression_that_backtracks_without_end_is_stopped_at_its_line(no_ripgrep, tmp_path, monkeypatch):
    fallback_with("LINE_SECONDS = 2", "LINE_SECONDS = 0.2", tmp_path.parent, monkeypatch)
    put(tmp_path, "a.py", text="aaab\n")
    put(tmp_path, "b.py", text="x\n" * 3 + "a" * 60 + "b\n")
    with pytest.raises(ToolError) as raised:
        await no_ripgrep.invoke(pattern="(a+)+$")
    assert str(raised.value).startswith("The search was stopped: the pattern takes too long on a line of ./b.py.\n")
    assert "(a+)+" in str(raised.value)


async def test_the_processor_time_of_a_search_is_limited(no_ripgrep, tmp_path, monkeypatch):
    fallback_with("CPU_SECONDS = 60", "CPU_SECONDS = 1", tmp_path.parent, monkeypatch)
    put(tmp_path, "a.py", text=("a" * 22 + "b\n") * 100)
    with pytest.raises(ToolError, match="The search took more than 60 s"):
        await no_ripgrep.invoke(pattern="(a+)+$")


@pytest.mark.skipif(not shutil.which("rg"), reason="needs ripgrep")
async def test_ripgrep_takes_no_longer_for_such_an_expression(tmp_path):
    put(tmp_path, "b.py", text="a" * 60 + "b\n")
    found = await Grep.from_config(BaseToolConfig(workdir=tmp_path)).invoke(pattern="(a+)+$")
    assert found.match_count == 0


async def test_a_folder_that_changes_while_its_links_are_read_shows_nothing(grep, tmp_path, monkeypatch):
    put(tmp_path, "a/x", "b/x")
    is_sensitive = grep_output.Workspace.is_sensitive

    def changing(self, path: Path, *access: str) -> str | None:
        if path.parent.name == "a":
            raise OSError(22, "Invalid argument")
        return is_sensitive(self, path, *access)

    monkeypatch.setattr(grep_output.Workspace, "is_sensitive", changing)
    assert await lines(grep) == ["b/x:1:needle"]
