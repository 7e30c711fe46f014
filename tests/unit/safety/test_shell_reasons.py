"""What of a command is reported in reasons and summaries, which are recorded: never a piece of a secret."""

from __future__ import annotations

from pathlib import Path

from kin_nb.core.redaction import Redactor
from kin_nb.core.safety.shell import classify
from kin_nb.core.safety.shell.classification import shown
from kin_nb.core.tools.builtins.bash import Bash, BashArgs, BashConfig

SECRET = "q7Zp-Vx93Lm0Kt52Rw8Yb61Hd4Nc7Sf2Ga9Je3Uo5Xi1Tq6"
PHRASE = "correct horse battery staple and nothing else whatever it may be"


def said(command: str, root: Path) -> str:
    """As it is recorded: the reason and the summary, redacted afterwards."""
    tool = Bash.from_config(BashConfig(workdir=root))
    texts = (classify(command, root).reason, tool.preview(BashArgs(command=command)).summary)
    return "\n".join(map(Redactor([SECRET, PHRASE], root).text, texts))


def test_no_piece_of_a_secret_is_left_where_a_command_is_cut(subtests, tmp_path, monkeypatch):
    for value in [SECRET, f"'{PHRASE}'", f'"{PHRASE}"']:
        for command in [
            "DEPLOY_TOKEN={} ./deploy.sh",
            "export DEPLOY_TOKEN={}",
            "A=1 DEPLOY_TOKEN={}",
            "./deploy.sh --token {}",
            "curl -sS https://api.example.com/v1/things/and/more/things -H 'X-Deploy: '{}",
            "echo a; ./deploy.sh --and --some --more --words --before --the --secret --to --cut {}",
            "echo x > {}",
            "cat <<EOF\n{}\nEOF",
            "rm -rf / {}",
            "{}",
            "awk {}",
            "test {}",
            "ls $(cat {})",
            "cd {}; ls",
            "while true; do ls {}; done",
        ]:
            with subtests.test(value=value, command=command), monkeypatch.context() as patch:
                patch.setenv("DEPLOY_TOKEN", SECRET)
                patch.setenv("DEPLOY_PASSPHRASE", PHRASE)
                for filler in ("", "ls ab;", "ls a b c d e f g h i; "):
                    recorded = said(filler + command.replace("{}", value), tmp_path)
                    assert not any(
                        secret[:length] in recorded for secret in (SECRET, PHRASE) for length in (6, 12, 20)
                    ), recorded


def test_of_a_variable_that_is_set_the_name_is_reported_and_not_the_value(tmp_path):
    assert classify("DEPLOY_TOKEN=something-new ./deploy.sh", tmp_path).reason == "`DEPLOY_TOKEN=…` sets a variable"
    assert classify("export A=something-new", tmp_path).reason == "`export A=…` sets a variable"


def test_a_piece_of_a_line_is_cut_between_words(subtests):
    for number, (text, expected) in enumerate(
        [
            ("ls -la", "`ls -la`"),
            ("ls  -la\n", "`ls -la`"),
            ("grep -rn something some/folder another/folder", "`grep -rn something some/folder …`"),
            ("git commit -m 'a message that is rather long'", "`git commit -m …`"),
            (
                "/a/path/that/is/longer/than/what/is/shown/of/a/line",
                "`/a/path/that/is/longer/than/what/is/shown/of/a/line`",
            ),
            ("x" * 500, "`…`"),
        ]
    ):
        with subtests.test(number=number):
            assert shown(text) == expected


def test_a_summary_is_the_first_line_cut_between_words(subtests):
    for number, (command, summary) in enumerate(
        [
            ("ls -la", "ls -la"),
            ("ls\npwd", "ls …"),
            ("echo " + "ab " * 50, "echo " + " ".join(["ab"] * 32) + " …"),
            ("x" * 200, "…"),
        ]
    ):
        with subtests.test(number=number):
            assert Bash.from_config(BashConfig()).preview(BashArgs(command=command)).summary == summary
