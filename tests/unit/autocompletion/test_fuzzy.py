"""Which of the names that hold the typed letters come first."""

from __future__ import annotations

from kin_nb.core.autocompletion.completers import best_matches, fuzzy_match
from tests.table import each_row


def ranked(pattern: str, *texts: str) -> list[str]:
    return [match.text for match in best_matches(pattern, texts, most=100)]


@each_row(
    ("pattern", "best_first"),
    [
        ("main", ["main", "main.py", "do_main.py", "domain.py", "m_a_xi_n.py"]),  # whole, prefix, word, together, apart
        ("pp", ["pp.py", "path_prompt.py", "apply.py", "a_xp_xp.txt"]),
        ("pathpro", ["path_prompt.py", "xpath_xpro.py"]),
        ("fi", ["FileIndexer", "myFile", "profile", "f_xi"]),
        ("agent", ["core/agent.py", "agent/core.py"]),  # the name before its folders
        ("config", ["config/", "config.py", "config/a.py"]),  # a folder's `/` is no letter
        ("read", ["read.py", "reader.py", "a/reader.py"]),  # the shorter
        ("Main", ["Main.java", "main.java"]),  # the very case, when a capital was typed
        ("readme", ["README.md", "readme_first.md"]),  # no capital: any case is as good
        ("src/ma", ["src/main.py", "lib/src/main.py", "src/deep/main.py"]),
        ("cag", ["core/agent.py", "cobalt_gx.py", "xc/agent.py"]),
        ("ab", ["a_b", "xa_xb", "xa__xxb"]),  # fewer gaps
        ("prompt", ["path_prompt.py", "prompts/a.py", "xprompt.py", "xprompts/a.py"]),
        ("", ["a", "bb", "cc"]),
    ],
)
def test_the_better_match_comes_first(pattern, best_first):
    assert ranked(pattern, *best_first[::-1]) == best_first


@each_row(
    ("pattern", "text"),
    [("x", "abc"), ("ba", "abc"), ("aa", "abc"), ("a", ""), ("abcd", "abc"), ("a/b", "ab"), (".", "ab")],
)
def test_letters_that_are_not_there_in_order_match_nothing(pattern, text):
    assert fuzzy_match(pattern, text) is None
    assert ranked(pattern, text) == []


@each_row(
    ("pattern", "text", "marked"),
    [
        ("pp", "apply_path_prompt.py", "apply_[p]ath_[p]rompt.py"),
        ("prompt", "prompts/path_prompt.py", "prompts/path_[prompt].py"),
        ("kinp", "kin_path.py", "[kin]_[p]ath.py"),
        ("CA", "core/agent.py", "[c]ore/[a]gent.py"),
        ("a.b", "a.b", "[a.b]"),
        ("x", "İx", "İ[x]"),
        ("é", "É", "[É]"),
        ("aab", "a_ab", "[a]_[ab]"),
    ],
)
def test_positions_say_which_letters_matched(pattern, text, marked):
    match = fuzzy_match(pattern, text)
    assert match is not None
    shown = "".join(f"[{letter}]" if place in match.positions else letter for place, letter in enumerate(text))
    assert shown.replace("][", "") == marked
    assert "".join(text[place] for place in match.positions).lower() == pattern.lower()


def test_only_so_many_are_given_and_equals_come_in_alphabetical_order():
    assert [match.text for match in best_matches("a", ["a3", "a1", "a2"], most=2)] == ["a1", "a2"]


def test_a_long_pattern_that_nearly_fits_is_answered():
    assert fuzzy_match("a" * 60 + "b", "a" * 4_000) is None
    assert ranked("a" * 60 + "b", "a" * 4_000) == []
    assert fuzzy_match("a" * 60, "xa" * 2_000) is not None
