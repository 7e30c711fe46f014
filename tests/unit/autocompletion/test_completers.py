"""What is offered at the cursor."""

from __future__ import annotations

import pytest

from kin_nb.core.autocompletion.completers import CommandCompleter, Completion, MultiCompleter, PathCompleter
from kin_nb.core.autocompletion.file_indexer import FileIndexer
from kin_nb.core.autocompletion.path_prompt import path_mentions

FILES = [
    "src/main.py",
    "src/make.py",
    "src/deep/main_loop.py",
    "lib/src/main.py",
    "README.md",
    "a b.txt",
    "my dir/x y.py",
]
HIDDEN = [".github/workflows/ci.yml", ".env.example", "src/.hidden.py", "build/main.o", 'un"writ able']
COMMANDS = {"compact": "Shorten the history", "clear": "Forget it", "mode": "Change the mode", "plan": "Plan mode"}


@pytest.fixture
def root(tmp_path):
    for path in FILES + HIDDEN:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    return tmp_path


@pytest.fixture
def paths(root):
    return PathCompleter(FileIndexer(root))


def texts(completer, text: str) -> list[str]:
    return [completion.text for completion in completer.complete(text, len(text))]


def test_after_an_at_come_the_folders_then_the_files_of_the_root(paths):
    assert texts(paths, "look at @") == ["@lib/", '@"my dir/', "@src/", '@"a b.txt"', "@README.md"]


def test_after_a_slash_comes_what_is_in_that_folder(paths):
    assert texts(paths, "@src/") == ["@src/deep/", "@src/main.py", "@src/make.py"]
    assert texts(paths, "@./src/deep/") == ["@src/deep/main_loop.py"]
    assert texts(paths, '@"my dir/') == ['@"my dir/x y.py"']
    assert texts(paths, "@nowhere/") == texts(paths, "@/") == texts(paths, "@/etc/") == texts(paths, "@../") == []


def test_letters_are_looked_for_everywhere_the_best_first(paths):
    assert texts(paths, "@src/ma")[:2] == ["@src/main.py", "@src/make.py"]
    assert texts(paths, "@main") == ["@src/main.py", "@lib/src/main.py", "@src/deep/main_loop.py"]
    assert texts(paths, "@ml") == ["@src/deep/main_loop.py"]
    assert texts(paths, "@readme") == ["@README.md"]
    assert texts(paths, "@dir") == ['@"my dir/', '@"my dir/x y.py"']
    assert texts(paths, "@zzz") == []


def test_names_with_a_dot_come_only_when_a_dot_was_typed(paths):
    assert texts(paths, "@workflows") == texts(paths, "@hidden") == []
    assert texts(paths, "@.gi")[0] == "@.github/"
    assert texts(paths, "@.github/") == ["@.github/workflows/"]
    assert texts(paths, "@.github/workflows/c") == ["@.github/workflows/ci.yml"]
    assert "@src/.hidden.py" in texts(paths, "@src/.h")


def test_a_completion_says_what_it_is_and_where_it_begins(paths):
    assert paths.complete("see @READ and more", 9) == [Completion("@README.md", "README.md", "", 4)]
    assert paths.complete("see @li", 7)[0] == Completion("@lib/", "lib/", "folder", 4)


def test_every_completed_file_is_a_mention_of_that_file(paths, root):
    for typed in ("@m", "@a", "@e", "@.e", "@src/"):
        for completion in paths.complete(typed, len(typed)):
            if completion.description != "folder":
                assert [mention.path for mention in path_mentions(completion.text, root)] == [completion.display]


def test_elsewhere_nothing_is_offered(paths):
    for text in ("", "main", "me@main", "@main and", "@@main", '@"a b.txt" '):
        assert texts(paths, text) == []


def test_a_new_file_is_offered_at_once(paths, root):
    assert texts(paths, "@brandnew") == []
    (root / "brand_new.py").touch()
    assert texts(paths, "@brandnew") == ["@brand_new.py"]


def test_only_so_many_are_offered(root):
    few = PathCompleter(FileIndexer(root), most=2)
    assert len(texts(few, "@")) == len(texts(few, "@m")) == 2


def test_commands_are_completed_at_the_start_of_a_prompt_only():
    commands = CommandCompleter(COMMANDS)
    assert texts(commands, "/") == ["/mode", "/plan", "/clear", "/compact"]
    assert texts(commands, "/co") == ["/compact"]
    assert commands.complete("  /mo now", 5) == [Completion("/mode", "/mode", "Change the mode", 2)]
    for text in ("", "say /co", "/mode x", "/home/co", "co", "/xyz"):
        assert texts(commands, text) == []


def test_of_several_completers_the_first_with_an_answer_speaks(paths):
    both = MultiCompleter([CommandCompleter(COMMANDS), paths])
    assert texts(both, "/cl") == ["/clear"]
    assert texts(both, "@readme") == ["@README.md"]
    assert texts(both, "hello") == []
    assert MultiCompleter([]).complete("@", 1) == []
