"""The line of each key of a TOML file."""

from __future__ import annotations

import tomllib

from kin_nb.core.config.toml_file import key_lines

TEXT = """\
# comment with [brackets] and = signs
a = 1
"quoted.key" = "x = [1]"  # [not.a.table]
b.c = 2
long = '''
d = 3
[not_a_table]
'''
list = [
  1, # ]
  "]",
  {e = 1},
]
text = \"\"\"
f = "\\\"\"\"
\"\"\"\"
[t . 'u v']
g = { h = 1, i = { j = 2 } }

[[m]]
k = 1
[m.sub]
l = 1
[[m]]
[[m.n]]
o = 1
[[m.n]]
o = 2"""


def test_each_key_and_table_has_its_line():
    tomllib.loads(TEXT)
    assert key_lines(TEXT) == {
        ("a",): 2,
        ("quoted.key",): 3,
        ("b",): 4,
        ("b", "c"): 4,
        ("long",): 5,
        ("list",): 9,
        ("text",): 14,
        ("t",): 17,
        ("t", "u v"): 17,
        ("t", "u v", "g"): 18,
        ("m",): 20,
        ("m", "0"): 20,
        ("m", "0", "k"): 21,
        ("m", "0", "sub"): 22,
        ("m", "0", "sub", "l"): 23,
        ("m", "1"): 24,
        ("m", "1", "n"): 25,
        ("m", "1", "n", "0"): 25,
        ("m", "1", "n", "0", "o"): 26,
        ("m", "1", "n", "1"): 27,
        ("m", "1", "n", "1", "o"): 28,
    }


def test_nothing_has_no_lines(subtests):
    for text in ["", "\n\n", "# only a comment"]:
        with subtests.test(text=text):
            assert key_lines(text) == {}
