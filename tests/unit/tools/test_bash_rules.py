"""bash: what its allowlist and its denylist name."""

from __future__ import annotations

import pytest

from kin_nb.core.safety.shell.split import split
from kin_nb.core.tools.base import ToolPermission
from kin_nb.core.tools.builtins.bash import Bash, BashArgs, BashConfig


def bash(**config) -> Bash:
    return Bash.from_config(BashConfig(**config))


def denied(command: str, *patterns: str) -> bool:
    return bash(denylist=list(patterns), denylist_standalone=[]).check_allowlist_denylist(
        BashArgs(command=command)
    ) is (ToolPermission.NEVER)


def allowed(command: str, *patterns: str) -> bool:
    return bash(allowlist=list(patterns)).check_allowlist_denylist(BashArgs(command=command)) is ToolPermission.ALWAYS


@pytest.mark.parametrize(
    "command",
    [
        "vi x",
        "vi",
        "/usr/bin/vi x",
        "ls; vi x",
        "ls && vi x",
        "ls || vi x",
        "ls | vi -",
        "ls & vi x",
        "ls\nvi x",
        "(vi x)",
        "{ vi x; }",
        "echo $(vi x)",
        'echo "$(vi x)"',
        "echo `vi x`",
        "diff <(vi x) y",
        "EDITOR=x vi x",
        "x=$(vi x)",
        "if vi x; then ls; fi",
        "for f in *; do vi $f; done",
        "! vi x",
        "time vi x",
        "sudo vi x",
        "sudo -n vi x",
        "env A=1 vi x",
        "timeout 5 vi x",
        "xargs -n 1 vi",
        "bash -c 'ls; vi x'",
        "sh -ec 'vi x'",
        "eval vi x",
        "v\\i x",
        "'vi' x",
        "vi\\\n x",
        "cat <<EOF\ntext\nEOF\nvi x",
        "ls 2>&1; vi x",
        "ls > out; vi x",
        "ls #x\nvi x",
        "echo ${x:-1}; vi x",
        "echo $((1 + 2)); vi x",
    ],
)
def test_a_denied_command_is_found_wherever_it_stands_in_the_line(command):
    assert denied(command, "vi")
    assert not denied(command, "emacs")


@pytest.mark.parametrize(
    "command",
    [
        "vibe -p hi",
        "vi-x",
        "echo vi",
        "echo 'ls; vi x'",
        'echo "ls; vi x"',
        "ls # vi x",
        "cat <<EOF\nvi x\nEOF",
        "cat <<-'EOF'\n\tvi x\n\tEOF\n",
        "ls > vi",
        "ls \\; vi",
        "command -v vi",
        "grep -r vi .",
        "git commit -m 'a\nvi x'",
        "vi=1",
        "",
        " ",
        ";",
        "&&",
        "(",
        "'",
        '"',
        "$(",
        "<<",
        "\\",
    ],
)
def test_a_word_that_is_no_command_denies_nothing(command):
    assert not any(
        bash(denylist=["vi"]).why_denied(BashArgs.model_construct(command=c)) for c in (command, command * 2)
    )


def test_parentheses_without_end_are_read_all_the_same():
    assert denied("$(" * 5_000 + "vi x", "vi")
    assert denied("(" * 5_000 + "vi x", "vi")


def test_patterns_are_compared_by_words():
    assert denied("git push origin", "git push")
    assert denied("git push", "git push")
    assert not denied("git pushy", "git push")
    assert not denied("git", "git push")
    assert denied("git push --force", "git push --force*")
    assert denied("rm -rf /tmp/x", "rm -rf *")
    assert not denied("ls", "")


@pytest.mark.parametrize(
    "command",
    [
        "git -C . push",
        "git -C sub --no-pager push origin",
        "git --git-dir=x push",
        "git --git-dir x --work-tree y push",
        "git -c a=b push",
        "git --config-env=a=B push",
        "git --config-env a=B push",
        "git --namespace x push",
        "/usr/bin/git -C . push",
        "sudo -u root git -C . push",
        "env A=1 git -C . push",
        "timeout 5 git -C . push",
        "nohup git -C . push",
        "bash -c 'git -C . push'",
        "xargs git -C . push",
        "ls && git -P push",
        "git -c alias.p=push p origin",
        "git -c alias.p='!git push' p",
        "git -c ALIAS.p=push -C x p",
    ],
)
def test_the_denylist_sees_through_what_stands_before_gits_subcommand(command):
    assert denied(command, "git push")
    assert denied(command, "git push*")
    assert not denied(command, "git pull")
    assert not allowed(command, "git push", "git", "git *")


def test_what_is_no_subcommand_of_git_denies_nothing():
    assert not denied("git -C push status", "git push")
    assert not denied("git --git-dir push status", "git push")
    assert not denied("git log push", "git push")
    assert not denied("git -C", "git push")


def test_the_allowlist_takes_nothing_before_gits_subcommand_but_what_it_spells():
    assert allowed("git --no-pager log -3", "git log")
    assert allowed("git -P log", "git")
    assert allowed("git -C sub status", "git -C sub status")
    assert not allowed("git -C sub status", "git status")
    assert not allowed("git -c core.pager=x log", "git", "git *", "git log")
    assert not allowed("git --exec-path=x status", "git", "git status")


def test_interactive_programs_are_denied_with_the_reason():
    why = bash().why_denied(BashArgs(command="git add . && nano notes.txt"))
    assert why == "`nano` waits for a person at a terminal, and there is none here. Use a command that ends by itself."
    for command in ("vim x", "passwd", "screen -r", "tmux", "bash -i", "zsh -i -l", "gdb a.out"):
        assert "terminal" in bash().why_denied(BashArgs(command=command))


@pytest.mark.parametrize(
    "command", ["python", "python3", "ipython", "bash", "su", "/usr/bin/python3", "cd x && python"]
)
def test_an_interpreter_without_arguments_is_denied(command):
    assert "without arguments waits for a person" in bash().why_denied(BashArgs(command=command))


@pytest.mark.parametrize(
    "command",
    [
        "python x.py",
        "python -c 'print(1)'",
        "python3 <<EOF\nprint(1)\nEOF",
        "python3 < script.py",
        "echo 'print(1)' | python3",
        "python3 <<< 'print(1)'",
        "bash script.sh",
        "su -c ls",
        "which python",
        "echo a || python -V",
    ],
)
def test_an_interpreter_with_something_to_run_is_not_denied(command):
    assert bash().why_denied(BashArgs(command=command)) == ""


def test_a_pattern_of_ones_own_is_named_as_the_reason():
    why = bash(denylist=["git push"]).why_denied(BashArgs(command="git push"))
    assert why == '"git push" is in the denylist of [tools.bash]'


def test_nothing_is_allowed_by_itself():
    assert bash().check_allowlist_denylist(BashArgs(command="ls")) is None


def test_an_allowlist_allows_plain_commands_of_its_words():
    assert allowed("git status", "git status")
    assert allowed("git status --short", "git status")
    assert allowed("git log -3", "git *")
    assert allowed("git commit -m 'a b'", "git commit -m *")
    assert not allowed("git", "git *")
    assert not allowed("github status", "git")
    assert not allowed("'git log'", "git log")


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf x",
        "git status && rm x",
        "git log | sh",
        "git log > ~/.bashrc",
        "git log $(rm x)",
        'git log "$(rm x)"',
        "git log `rm x`",
        "git log $X",
        "git log *",
        "git status &",
        "git status\nrm x",
        "GIT_PAGER=x git log",
        "git log # x",
    ],
)
def test_an_allowlist_allows_nothing_but_plain_words(command):
    assert not allowed(command, "git", "git *", "*")


def test_the_denylist_beats_the_allowlist():
    tool = bash(allowlist=["git"], denylist=["git push"])
    assert tool.check_allowlist_denylist(BashArgs(command="git push")) is ToolPermission.NEVER
    assert tool.check_allowlist_denylist(BashArgs(command="git pull")) is ToolPermission.ALWAYS


def test_a_line_is_split_into_its_simple_commands():
    found = split("A=1 cat <in 2>err 'a b' | sort -u >out; echo \"x $(date +%s)\" &")
    assert [(c.words, c.has_input) for c in found] == [
        (["A=1", "cat", "a b"], True),
        (["sort", "-u"], True),
        (["date", "+%s"], False),
        (["echo", "x $"], False),
    ]


def test_an_allowed_command_does_not_reach_out_unless_its_pattern_spells_where():
    assert allowed("cat a.py", "cat")
    for command in ("cat /etc/passwd", "cat ../x", "cat .env", "cat a.py .env"):
        assert not allowed(command, "cat")
        assert not allowed(command, "cat *")
    assert not allowed("git log --output=x", "git log")
    assert allowed("cat /etc/hosts", "cat /etc/hosts")
    assert not allowed("cat /etc/hosts /etc/passwd", "cat /etc/hosts")
