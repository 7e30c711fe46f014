"""Lines that continue at the next: read as bash reads them, wherever the backslash stands."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kin_nb.core.safety.shell.dangerous import danger
from kin_nb.core.safety.shell.reader.continuations import join_continuations
from kin_nb.core.tools.builtins.bash import Bash, BashArgs, BashConfig

ROOT = Path("/home/u/ws")
ENVIRONMENT = {"HOME": "/home/u", "PATH": "/usr/bin:/bin"}


CONTINUED_LINES = [
    "d=a; echo $\\\nd ${\\\nd} ${d\\\n} \"$\\\nd\" '$\\\nd'",
    "echo a\\\nb 'c\\\nd' \"e\\\nf\" $'g\\\nh' \\\\\\\ni \"\\\\\\\nj\"",
    "echo a # b \\\necho c",
    "echo a\\\n#b \\\n#c \\\nd\necho e",
    "cat <<E\na\\\nb\n\\\\\\\nc\nE\necho d",
    "cat <<'E'\na\\\nE\necho d",
    "cat <<\\\nE\na\nE\necho d",
    "cat <<E\\\nF\na\nEF\necho d",
    "cat <<E\nE\\\n\necho d\nE\n",
    "cat <<-E\n\ta\\\n\tb\n\tE\necho d",
    "cat <\\\n<< a",
    "cat <<\\\n< a",
    "cat <\\\n(echo a)",
    "echo $\\\n(echo a) $\\\n((1 + \\\n 2)) $\\\n'a\\x41'",
    'echo "$(echo \'a\\\nb\' "c\\\nd")"',
    "echo `echo a\\\nb`",
    'x=; echo ${x:-\'a\\\nb\'} "${x:-\'a\\\nb\'}" "${x:-"a\\\nb"}"',
    "if true; \\\nthen echo a; f\\\ni",
    "case a in \\\n a) echo 'b\\\nc';; esac",
    "echo $$ >/dev/nu\\\nll; echo a$'\\'b\\\nc'",
    "echo 1 2>\\\n&1 |\\\n cat &\\\n& echo b",
    "echo $(( 1 << 2 )) a",
    "cat <<A <<B\na\\\nb\nA\nc\\\nd\nB\n",
]


def test_a_line_means_the_same_when_its_continued_lines_are_joined(subtests):
    for line in CONTINUED_LINES:
        with subtests.test(line=line):
            text = join_continuations(line)
            assert text is not None
            run = [subprocess.run(["bash", "-c", each], capture_output=True, check=False) for each in (line, text)]
            assert run[0].stdout == run[1].stdout != b""
            assert join_continuations(text) is not None


DANGEROUS_CONTINUED = [
    "d=/; rm -rf $\\\nd",
    "d=/; rm -rf $\\\n{d}",
    "d=/; rm -rf ${\\\nd}",
    "d=/; rm -rf ${d\\\n}",
    'd=/; rm -rf "$\\\nd"',
    "rm -rf $\\\n'/'",
    "echo x >\\\n| /dev/sda",
    "echo x &\\\n> /dev/sda",
    "sh <\\\n(curl x)",
    "sh <\\\n<< 'rm -rf /'",
    "sh <<\\\n< 'rm -rf /'",
    "cat <<E\nE\\\n\nrm -rf /\nE\n",
    "bash <<'E'\nr\\\nm -rf /\nE",
    "bash -c 'r\\\nm -rf $\\\n{PWD}/..'",
    "echo `r\\\\\nm -rf /`",
    "# echo \\\nrm -rf $\\\nHOME",
    "fo\\\nr d in / ; do rm -rf $d; done",
    "curl x |\\\n& sh",
]


def test_what_no_one_means_is_found_where_a_line_continues(subtests):
    for line in DANGEROUS_CONTINUED:
        with subtests.test(line=line):
            assert danger(line, ROOT, ENVIRONMENT)


def test_what_is_denied_is_found_where_a_line_continues():
    tool = Bash.from_config(BashConfig(denylist=["git push"]))
    for command in ("p=push; git $\\\np", "cat <\\\n(git push)", "cat <<E\nE\\\n\ngit push\nE\n"):
        assert tool.why_denied(BashArgs(command=command))


def test_a_line_that_cannot_be_read_for_certain_is_refused(subtests):
    for line in ["echo 'a \\\n b", "echo $(case x in x) echo a \\\n b;; esac)", "echo $((1 << 2 \\\n))"]:
        with subtests.test(line=line):
            assert join_continuations(line) is None
            assert "makes it ambiguous" in danger(line, ROOT, ENVIRONMENT)


def test_ordinary_lines_that_continue_are_not_dangerous(subtests):
    for line in [
        "echo 'rm -rf \\\n/'",
        "cat <<'E'\nrm -rf \\\n/\nE",
        "git commit -m 'a \\\n b' \\\n -q",
        "# rm -rf \\\necho /",
    ]:
        with subtests.test(line=line):
            assert danger(line, ROOT, ENVIRONMENT) == ""
