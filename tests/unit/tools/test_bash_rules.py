"""bash: what its allowlist and its denylist name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kin_nb.core.safety.decision import ToolRequest
from kin_nb.core.safety.grants import scopes
from kin_nb.core.safety.shell import classify
from kin_nb.core.safety.shell.dangerous import danger
from kin_nb.core.safety.shell.reader.parser import parse_commands
from kin_nb.core.tool_types import ToolPermission
from kin_nb.core.tools.builtins.bash import Bash, BashArgs, BashConfig
from kin_nb.core.workspace import Workspace


def bash(**config) -> Bash:
    return Bash.from_config(BashConfig(**config))


def denied(command: str, *patterns: str) -> bool:
    return bash(denylist=list(patterns), denylist_standalone=[]).check_allowlist_denylist(
        BashArgs(command=command)
    ) is (ToolPermission.NEVER)


def allowed(command: str, *patterns: str) -> bool:
    return bash(allowlist=list(patterns)).check_allowlist_denylist(BashArgs(command=command)) is ToolPermission.ALWAYS


DENIED_IN_A_LINE = [
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
]


def test_a_denied_command_is_found_wherever_it_stands_in_the_line(subtests):
    for command in DENIED_IN_A_LINE:
        with subtests.test(command=command):
            assert denied(command, "vi")
            assert not denied(command, "emacs")


HARMLESS_WORDS = [
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
]


def test_a_word_that_is_no_command_denies_nothing(subtests):
    for command in HARMLESS_WORDS:
        with subtests.test(command=command):
            assert not any(
                bash(denylist=["vi"]).why_denied(BashArgs.model_construct(command=c)) for c in (command, command * 2)
            )


def test_parentheses_without_end_are_read_all_the_same():
    assert denied("$(" * 5_000 + "vi x", "vi")
    assert denied("(" * 5_000 + "vi x", "vi")


def test_a_program_of_gits_is_denied_by_its_own_name_too():
    assert denied("/usr/bin/git-lfs push", "git-lfs")
    assert denied("git-lfs push", "git lfs")


def test_patterns_are_compared_by_words():
    assert denied("git push origin", "git push")
    assert denied("git push", "git push")
    assert not denied("git pushy", "git push")
    assert not denied("git", "git push")
    assert denied("git push --force", "git push --force*")
    assert denied("rm -rf /tmp/x", "rm -rf *")
    assert not denied("ls", "")


GIT_GLOBAL_OPTIONS = [
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
    "git -c alias.p='-c a=b push' p",
]


def test_the_denylist_sees_through_what_stands_before_gits_subcommand(subtests):
    for command in GIT_GLOBAL_OPTIONS:
        with subtests.test(command=command):
            assert denied(command, "git push")
            assert denied(command, "git push*")
            assert not denied(command, "git pull")
            assert not allowed(command, "git push", "git", "git *")


def test_what_is_no_subcommand_of_git_denies_nothing():
    assert not denied("git -C push status", "git push")
    assert not denied("git --git-dir push status", "git push")
    assert not denied("git log push", "git push")
    assert not denied("git -C", "git push")


def test_the_allowlist_takes_nothing_before_gits_subcommand_but_what_it_spells(private, monkeypatch):
    monkeypatch.chdir(private)
    assert allowed("git --no-pager log -3", "git log")
    assert allowed("git -P log", "git")
    assert allowed("git -C sub status", "git -C sub status")
    assert not allowed("git -C sub status", "git status")
    assert not allowed("git -C sub -c core.fsmonitor=./x commit", "git -C sub")
    assert allowed("git -C sub add a", "git -C sub")
    assert not allowed("git -c core.pager=x log", "git", "git *", "git log")
    assert not allowed("git --exec-path=x status", "git", "git status")


def test_interactive_programs_are_denied_with_the_reason():
    why = bash().why_denied(BashArgs(command="git add . && nano notes.txt"))
    assert (
        why == "`nano` waits for input at a terminal, and there is no terminal here. Use a command that ends by itself."
    )
    for command in ("vim x", "passwd", "screen -r", "tmux", "bash -i", "zsh -i -l", "gdb a.out"):
        assert "terminal" in bash().why_denied(BashArgs(command=command))


def test_an_interpreter_without_arguments_is_denied(subtests):
    for command in ["python", "python3", "ipython", "bash", "su", "/usr/bin/python3", "cd x && python"]:
        with subtests.test(command=command):
            assert "without arguments waits for input" in bash().why_denied(BashArgs(command=command))


def test_an_interpreter_with_something_to_run_is_not_denied(subtests):
    for command in [
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
    ]:
        with subtests.test(command=command):
            assert bash().why_denied(BashArgs(command=command)) == ""


def test_a_pattern_of_ones_own_is_named_as_the_reason():
    why = bash(denylist=["git push"]).why_denied(BashArgs(command="git push"))
    assert why == '"git push" is in the denylist of [tools.bash]'


def test_nothing_is_allowed_by_itself():
    assert bash().check_allowlist_denylist(BashArgs(command="ls")) is None


def test_an_allowlist_allows_plain_commands_of_its_words(private, monkeypatch):
    monkeypatch.chdir(private)
    assert allowed("git status", "git status")
    assert allowed("git status --short", "git status")
    assert allowed("git log -3", "git *")
    assert allowed("git commit -m 'a b'", "git commit -m *")
    assert not allowed("git", "git *")
    assert not allowed("github status", "git")
    assert not allowed("'git log'", "git log")


def test_an_allowlist_allows_nothing_but_plain_words(subtests):
    for command in [
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
    ]:
        with subtests.test(command=command):
            assert not allowed(command, "git", "git *", "*")


def test_the_denylist_beats_the_allowlist():
    tool = bash(allowlist=["git"], denylist=["git push"])
    assert tool.check_allowlist_denylist(BashArgs(command="git push")) is ToolPermission.NEVER
    assert tool.check_allowlist_denylist(BashArgs(command="git pull")) is ToolPermission.ALWAYS


def test_a_line_is_split_into_its_simple_commands():
    found = parse_commands("A=1 cat <in 2>err 'a b' | sort -u >out; echo \"x $(date +%s)\" &")
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


WRAPPED_COMMANDS = [
    "git submodule foreach git push",
    "git submodule --quiet foreach --recursive 'git push'",
    "git -C sub submodule foreach 'ls; git push'",
    "git rebase -x 'git push' main",
    "git rebase -ix'git push' main",
    "git rebase --exec 'git push' HEAD~3",
    "git -C sub rebase -i -x ls --exec='git push'",
    "git bisect run git push",
    "git bisect run sh -c 'git push'",
    "git filter-branch --tree-filter 'git push' HEAD",
    "git difftool -x 'git push'",
    "git difftool --extcmd='git push'",
    "strace git push",
    "strace -f -o out -e trace=open git push",
    "strace -fo out git push",
    "ltrace -e x git push",
    "chroot /mnt git push",
    "chroot --userspec a:b /mnt git push",
    "parallel git push ::: a b",
    "parallel -j 4 git {} ::: push fetch",
    "parallel ::: ls 'git push'",
    "echo 'git push' | parallel",
    "echo push | parallel git",
    "setarch x86_64 -R git push",
    "setarch -R git push",
    "linux32 git push",
    "unshare -r git push",
    "unshare --mount --root /x git push",
    "nsenter -t 1 -m git push",
    "taskset -c 0-3 git push",
    "sudo --user root git push",
    "sudo -nu root git push",
    "timeout --signal KILL 5 git push",
    "env --unset A git push",
    "strace -f env A=1 git -C x push",
    "p() { git push; }; p",
    'function g { git "$@"; }; g push',
    'g() { git "$@"; }; h() { g "$@"; }; h push',
    "alias g=git; g push",
    "shopt -s expand_aliases\nalias g=git p='g push'\np",
    "alias git='git -C x'; git push",
    "{git,push}",
    "{git,push,origin}",
    "git {push,x}",
    "{git,-C,x,push}",
    "git-push origin",
    "/usr/lib/git-core/git-push",
    "git -calias.x=push x",
    "$'\\x67it' push",
    "$'\\x{67}it' push",
    "$'\\x{167}it' push",
    "git $'p\\u0075sh'",
    "env --chdir=x git push",
    "env -iC x git push",
]


def test_the_denylist_sees_through_what_runs_another_command(subtests):
    for command in WRAPPED_COMMANDS:
        with subtests.test(command=command):
            assert denied(command, "git push")
            assert denied(command, "git push*")


def test_what_runs_a_command_that_cannot_be_read_is_not_proven(subtests, tmp_path):
    for command in [
        "git submodule foreach $COMMAND",
        'git rebase -x "$(cat todo)" main',
        "git bisect run ./check.sh",
        "strace $COMMAND",
        "parallel < commands.txt",
        "parallel -a commands.txt",
        "unshare --root x ./y",
        "f() { $1; }; f ls",
        "alias l=ls; l",
    ]:
        with subtests.test(command=command):
            assert classify(command, tmp_path).kind == "unknown"


def test_an_option_of_what_runs_another_command_is_none(subtests):
    for command in [
        "git submodule status",
        "git rebase -X theirs push",
        "git log -x",
        "strace -o vi ls",
        "chroot vi ls",
    ]:
        with subtests.test(command=command):
            assert not denied(command, "vi")
            assert not denied(command, "theirs*")


@pytest.fixture
def private(workspace) -> Path:
    """The workspace, with a secret in it and a link that leads outside."""
    (workspace / ".env").write_text("PASSWORD=x\n")
    (workspace / "notes.txt").write_text("x\n")
    (workspace.parent / "outside.txt").write_text("x\n")
    (workspace / "link.txt").symlink_to("../outside.txt")
    git = ("git", "-C", str(workspace), "-c", "user.name=x", "-c", "user.email=x@y")
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-Af"], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    return workspace


UNPROVEN_LOOKS = [
    "grep -r -T '' .",
    "grep -T '' link.txt",
    "/usr/bin/grep -T '' link.txt",
    "tail --pid 999999999 -f link.txt",
    "git log -p --output-indicator-new=+",
    "git log -p --text",
    "git diff --no-index sub .",
    "git --no-pager diff --no-index sub .",
    "git cat-file -p HEAD:.env",
    "date -s 2001-01-01",
    "ps eww",
]


def test_an_entry_for_what_only_looks_covers_what_is_proven_to_read(subtests, private):
    for command in UNPROVEN_LOOKS:
        with subtests.test(command=command):
            program = command.split()[0]
            tool = Bash.from_config(
                BashConfig(workdir=private, allowlist=[program, "git log", "git diff", "git *", "*"])
            )
            assert tool.check_allowlist_denylist(BashArgs(command=command)) is None


def test_a_prefix_for_what_only_looks_covers_what_is_proven_to_read(subtests, private):
    for command in UNPROVEN_LOOKS:
        with subtests.test(command=command):
            tool = Bash.from_config(BashConfig(workdir=private))
            args = BashArgs(command=command)
            offered = scopes(ToolRequest("bash", args, "1", tool.accesses(args)))
            assert [grant.label for grant in offered] == ["exactly this command"]


def test_what_is_proven_to_read_is_covered_by_its_entry_and_offers_its_beginning(subtests, private):
    for command in ["git status", "git log --oneline -3", "ls -la", "grep -n foo notes.txt", "cat notes.txt"]:
        with subtests.test(command=command):
            program, *words = command.split()
            beginning = f"{program} {words[0]}" if program == "git" else program
            tool, args = Bash.from_config(BashConfig(workdir=private, allowlist=[beginning])), BashArgs(command=command)
            assert tool.check_allowlist_denylist(args) is ToolPermission.ALWAYS
            offered = scopes(ToolRequest("bash", args, "1", tool.accesses(args)))
            assert offered[0].label == f"commands that start with `{beginning}`"


def test_an_entry_that_spells_the_whole_line_covers_it(private):
    tool = Bash.from_config(BashConfig(workdir=private, allowlist=["tail -f notes.txt"]))
    assert tool.allows("tail -f notes.txt", BashArgs(command="tail -f notes.txt"))
    assert not tool.allows("tail -f notes.txt", BashArgs(command="tail -f notes.txt link.txt"))


def test_an_entry_for_a_known_program_covers_the_options_that_its_beginning_does(subtests):
    for entry, covered, option in [
        ("pytest", "pytest -q", "--basetemp=data"),
        ("black", "black --check .", "--config=x"),
        ("pytest *", "pytest -q", "--basetemp=data"),
        ("uv run", "uv run pytest -x", "--pastebin=all"),
        ("/usr/bin/mypy", "/usr/bin/mypy a.py", "--python-executable=x"),
        ("git", "git merge x", "--strategy=x"),
        ("git", "git --no-pager merge x", "-sx"),
    ]:
        with subtests.test(entry=entry, covered=covered, option=option):
            assert allowed(covered, entry)
            assert not allowed(f"{covered} {option}", entry)


def test_an_entry_may_spell_an_option():
    assert allowed("pytest --basetemp=data tests", "pytest --basetemp=data")
    assert not allowed("pytest --basetemp=src tests", "pytest --basetemp=data")
    assert allowed("gh pr view --json title", "gh pr view"), "of other programs nothing is listed"


def test_an_entry_covers_of_a_known_program_what_is_known_or_spelled_whole(subtests):
    for entry, command in [
        ("make test", "make test -E '$(shell cat .env >&2)'"),
        ("make test", "make test SHELL=./x"),
        ("make test", "make test -f x.mk"),
        ("make test", "make test deploy"),
        ("make", "make -E x"),
        ("make *", "make test SHELL=./x"),
        ("/usr/bin/make test", "/usr/bin/make test -f x.mk"),
        ("just test", "just test -f x"),
        ("uv run make test", "uv run make test SHELL=./x"),
        ("npm run", "npm run --node-options=--require=./evil.js build"),
        ("git", "git bisect run ./evil.sh"),
        ("git push", "git push origin other"),
        ("uv run", "uv run -p ./evil pytest"),
        ("uv run", "uv run --with x pytest"),
        ("cargo", "cargo -C sub test"),
    ]:
        with subtests.test(entry=entry, command=command):
            assert not allowed(command, entry)


LINKED = [
    "ruff check --select ALL e.py",
    "ruff format lnk/mine.py",
    "touch lnk/new.txt",
    "touch dangling",
    "python -m compileall lnk",
    "pytest e.py::test_x",
    "pytest --ignore=lnk",
    "pytest -klnk/x",
]


@pytest.fixture
def linked(private) -> Path:
    (private.parent / "outside").mkdir()
    (private / "lnk").symlink_to("../outside")
    (private / "e.py").symlink_to(".env")
    (private / "dangling").symlink_to("../new.txt")
    (private / "inside.py").symlink_to("notes.txt")
    return private


def test_an_entry_does_not_cover_what_links_lead_out_or_to_secrets(subtests, linked):
    for command in [*LINKED, "gh pr view lnk/x"]:
        with subtests.test(command=command):
            program = "python -m compileall" if command.startswith("python") else command.split()[0]
            for entry in (program, f"{program} *"):
                assert not Bash.from_config(BashConfig(workdir=linked)).allows(entry, BashArgs(command=command))
            assert allowed(command, command)


def test_no_grant_of_a_beginning_covers_what_links_lead_out_or_to_secrets(subtests, linked):
    for command in LINKED:
        with subtests.test(command=command):
            assert granted(linked, command) == ["exactly this command"]


def test_links_within_the_workspace_and_new_files_are_covered(subtests, linked):
    for command in ["ruff check inside.py", "touch new.txt", "pytest -q tests/x", "mypy a.py e"]:
        with subtests.test(command=command):
            program = command.split()[0]
            assert Bash.from_config(BashConfig(workdir=linked)).allows(program, BashArgs(command=command))
            label = "tests: pytest in this project" if program == "pytest" else f"commands that start with `{program}`"
            assert granted(linked, command)[0] == label


def granted(root: Path, command: str) -> list[str]:
    tool, args = Bash.from_config(BashConfig(workdir=root)), BashArgs(command=command)
    return [grant.label for grant in scopes(ToolRequest("bash", args, "1", tool.accesses(args)), Workspace(root))]


def test_what_prints_its_files_is_covered_only_where_it_does_not(subtests, workspace):
    for covered, prints in [
        ("prettier --check .", "prettier ."),
        ("prettier -u -w a.js", "prettier -u a.js"),
        ("prettier --write .", "prettier -- -w a.js"),
        ("clang-format -i a.c", "clang-format a.c -i=false"),
        ("clang-format --dry-run a.c", "clang-format a.c"),
        ("gofmt -l .", "gofmt a.go -l"),
        ("gofmt -s -w .", "gofmt -l -l=false ."),
        ("gofmt -l a.go", "gofmt -d -l a.go"),
    ]:
        with subtests.test(covered=covered, prints=prints):
            program = covered.split()[0]
            assert allowed(covered, program)
            assert not allowed(prints, program)
            assert granted(workspace, covered)[0] == f"commands that start with `{program}`"
            assert granted(workspace, prints) == ["exactly this command"]


def test_an_entry_covers_common_lines(subtests):
    for entry, command in [
        ("make test", "make test"),
        ("make", "make test"),
        ("just test", "just test"),
        ("uv run make test", "uv run make test"),
        ("git push", "git push"),
        ("git", "git add a.py"),
        ("npm", "npm test"),
        ("npm run", "npm run build"),
        ("pytest", "pytest -q tests/x"),
        ("ruff", "ruff check ."),
        ("mypy", "mypy src"),
        ("cargo", "cargo test"),
        ("python tools/x.py", "python tools/x.py a b"),
    ]:
        with subtests.test(entry=entry, command=command):
            assert allowed(command, entry)


def test_a_shift_or_an_open_here_document_hides_no_line(subtests):
    for before in [
        "((x=1<<2))",
        "(( x = 1 << 2 ))",
        "((x=1<<2)); ls",
        "((\nx=1<<2))",
        "(((x)<<2))",
        "if ((x=1<<2)); then\n:; fi",
        "for ((i=1<<2; i<9; i++)); do\n:; done",
        "echo $[1<<2]",
        "echo $[ 1 << 2 ]",
        "echo ']' $[b[1]<<2]",
        "a[1<<2]=3",
        "[[ 1<<2 ]]",
        "cat <<'a\nb'",
        "cat <<EOF\ntext",
        "(" * 60 + "x=1<<2" + ")" * 60,
    ]:
        with subtests.test(before=before):
            for line in ("git push", "git pu\\\nsh", "git push\n2", "echo it; git push"):
                assert denied(f"{before}\n{line}", "git push")
            assert danger(f"{before}\nrm -rf /", Path("/work"))


def test_what_a_here_document_says_is_no_command(subtests):
    for line in [
        "cat <<EOF\ngit push\nEOF",
        "[ -f x ] && cat <<EOF > y\ngit push\nEOF",
        "case $x in [a-z]) cat <<EOF;; esac\ngit push\nEOF",
        "echo ${a[0]} $((1 << 2)) <<EOF\ngit push\nEOF",
        "(cat <<EOF)\ngit push\nEOF",
    ]:
        with subtests.test(line=line):
            assert not denied(line, "git push")


def test_here_documents_without_end_are_read_in_time():
    assert denied("".join(f"sh <<a{n}\n$(cat <<b{n}\n" for n in range(300)) + "git push", "git push")
