"""Which `@path` in a prompt means a file."""

from __future__ import annotations

import pytest

from kin_nb.core.autocompletion.path_prompt import path_mentions, typed_mention, written_mention
from tests.table import each_row

FILES = ["a.py", "b.py", "a b.txt", "src/main.py", "docs/x.md", ".env", "we,ird.txt", "dots..", "p(1).txt", "@x/i.ts"]

ODD = ["trailing ", " leading", 'quo"te', "~user", "~", "-x", "#x", "it's", "x.", "é", "narrow\u202fblank"]


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    for path in FILES:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    (tmp_path / "outside.txt").touch()
    (root / "link").symlink_to(tmp_path / "outside.txt")
    (root / "dangling").symlink_to(tmp_path / "nowhere")
    return root


@each_row(
    ("text", "paths"),
    [
        ("@a.py", ["a.py"]),
        ("see @a.py and @src/main.py", ["a.py", "src/main.py"]),
        ("fix @a.py, then @b.py.", ["a.py", "b.py"]),
        ("(@a.py) [@b.py] <@a.py>; '@b.py'", ["a.py", "b.py", "a.py", "b.py"]),
        ("@a.py,@b.py", ["a.py", "b.py"]),
        ("@nothing,@b.py", ["b.py"]),
        ("why is @a.py's x 1? And @b.py?!", ["a.py", "b.py"]),
        ("@a.py:12 fails", ["a.py"]),
        ("`@a.py` and\n```\n@b.py\n```", ["a.py", "b.py"]),
        ('read @"a b.txt".', ["a b.txt"]),
        ('say "@a.py"', ["a.py"]),
        ("all of @src/, all of @docs", ["src/", "docs"]),
        ("@we,ird.txt, @dots.., @p(1).txt, @.env", ["we,ird.txt", "dots..", "p(1).txt", ".env"]),
        ("@./a.py @src/../a.py", ["./a.py", "src/../a.py"]),
        ("@@x/i.ts", ["@x/i.ts"]),
        ("请看@a.py", ["a.py"]),
        ("@a.py" + ")" * 50, ["a.py"]),
    ],
)
def test_what_names_a_file_is_a_mention(root, text, paths):
    mentions = path_mentions(text, root)
    assert [mention.path for mention in mentions] == paths
    for mention in mentions:
        assert text[mention.start : mention.end] in {f"@{mention.path}", f'@"{mention.path}"'}


@each_row(
    "text",
    [
        *("me@a.py", "me.too@a.py", "x-@a.py", "@@a.py", "/@a.py"),
        *("`@property`", "```python\n@dataclass\nclass A: ...\n```", "@overload"),
        *("@", "@ a.py", "@.", "@./", "@..", "@/"),
        *('@"a b.txt', '@"a\nb.txt"', '@""', "@a.pyc", "@a", "@A b.txt"),
        *("@../outside.txt", "@link", "@dangling", "@/etc/passwd", "@~", "@~root/x", "@src/../../outside.txt"),
        *("@a\0.py", "@" + "a" * 5_000, "@a.py/b", "@\udce9"),
    ],
)
def test_what_names_no_file_of_the_workspace_is_none(root, text):
    assert path_mentions(text, root) == []


def test_an_absolute_path_into_the_workspace_is_a_mention(root):
    assert [mention.path for mention in path_mentions(f"@{root}/a.py", root)] == [f"{root}/a.py"]


def test_a_mention_at_the_end_of_a_long_pasted_text_is_found(root):
    assert (
        path_mentions("@, " * 20_000 + "@," * 5_000 + '@"x ' * 5_000 + "a" * 100_000 + " @a.py", root)[0].path == "a.py"
    )


@each_row(
    ("before_cursor", "typed"),
    [
        ("@", (0, "")),
        ("see @src/ma", (4, "src/ma")),
        ('see @"a b', (4, "a b")),
        ('see @"', (4, "")),
        ("@a.py @b", (6, "b")),
        ("x\n@b", (2, "b")),
        *[(text, None) for text in ("", "a", "me@a", "@a.py ", '@"a b"', '@"a\nb', "a@@", "/@a")],
        ("@@", (0, "@")),
    ],
)
def test_the_mention_being_typed_ends_at_the_cursor(before_cursor, typed):
    assert typed_mention(before_cursor) == typed


@each_row("path", FILES + ODD)
def test_a_written_mention_is_read_back(root, path):
    (root / path).touch()
    written = written_mention(path)
    assert written is not None
    for text in (written, f"{written} and", f"see {written}\nand"):
        assert [mention.path for mention in path_mentions(text, root)] == [path]


@pytest.mark.parametrize("path", ['a "b"', '"a"', "a\nb"])
def test_a_path_that_no_mention_can_hold_is_not_written(path):
    assert written_mention(path) is None
