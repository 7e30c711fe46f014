"""One small turn against its golden files. To renew one after a change that is meant: delete it and run twice."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kin_nb.core.records import FileChange, RecordedCall, RecordedDecision, RecordedStep, TurnRecord
from kin_nb.render import Output, render_call, render_reply, render_summary_line, render_turn
from tests.table import each_row

GOLDEN = Path(__file__).parent / "golden"
PATCH = """--- a/src/app.py
+++ b/src/app.py
@@ -1,2 +1,3 @@
 def total(rows):
-    return sum(r.price for r in rows)
+    \"\"\"0 for no rows.\"\"\"
+    return sum(row.price for row in rows)
"""

TURN = TurnRecord(
    turn=3,
    prompt="fix total",
    model="devstral",
    cost="0.0123",
    milliseconds=8234,
    outcome="done",
    steps=(
        RecordedStep(
            content="Let me look at `total` first.",
            reasoning="The test fails.\n\n- read\n- edit",
            prompt_tokens=12_000,
            completion_tokens=300,
            milliseconds=1500,
            calls=(
                RecordedCall(
                    id="call-1",
                    name="read_file",
                    arguments='{"path": "src/app.py"}',
                    summary="src/app.py",
                    decision=RecordedDecision(verdict="allow", by="workspace", reason="only reads the workspace"),
                    status="ok",
                    output="def total(rows):\n    return sum(r.price for r in rows)\n",
                    milliseconds=3,
                ),
                RecordedCall(
                    id="call-2",
                    name="bash",
                    arguments='{"command": "pytest -q\\nls"}',
                    summary="pytest -q",
                    decision=RecordedDecision(verdict="allow", by="person", reason="may change files"),
                    status="ok",
                    exit=1,
                    output="\x1b[31mF\x1b[0m\nassert 1 < 0 & $HOME",
                    milliseconds=420,
                ),
            ),
        ),
        RecordedStep(
            prompt_tokens=345,
            completion_tokens=378,
            calls=(
                RecordedCall(
                    id="call-3",
                    name="edit_file",
                    arguments='{"path": "src/app.py"}',
                    summary="src/app.py",
                    decision=RecordedDecision(verdict="allow", by="person", reason="edits", scope="session"),
                    status="ok",
                    output="1 replacement",
                    files=(FileChange(path="src/app.py", before="a" * 64, after="b" * 64, patch=PATCH),),
                ),
            ),
        ),
        RecordedStep(content="## Done\n\n| file | change |\n|---|---|\n| `src/app.py` | fixed |\n"),
    ),
)


@pytest.mark.parametrize(("mime", "suffix"), [("text/html", "html"), ("text/plain", "txt")])
def test_a_small_turn_draws_its_golden_cards(mime: str, suffix: str) -> None:
    drawn = "\n\n".join(output.data[mime] for output in render_turn(TURN)) + "\n"
    golden = GOLDEN / f"turn.{suffix}"
    if not golden.exists():
        golden.write_text(drawn, encoding="utf-8")
        pytest.fail(f"{golden.name} was missing and has been written: look at it, then run again")
    assert drawn == golden.read_text(encoding="utf-8")


def test_a_turn_is_its_replies_and_calls_in_order_and_the_summary_line_last() -> None:
    kinds = [
        (o.metadata["kin"]["kind"], o.metadata["kin"].get("step"), o.metadata["kin"].get("id"))
        for o in render_turn(TURN)
    ]
    assert kinds == [
        ("reply", 1, None),
        ("call", 1, "call-1"),
        ("call", 1, "call-2"),
        ("call", 2, "call-3"),  # step 2 said nothing, so it has no reply card
        ("reply", 3, None),
        ("receipt", None, None),
    ]


def test_the_live_functions_draw_what_the_whole_turn_draws() -> None:
    live: list[Output] = []
    for number, step in enumerate(TURN.steps, 1):
        live += [render_reply(step, turn=3, number=number)] if step.content else []
        live += [render_call(call, turn=3, step=number) for call in step.calls]
    assert [*live, render_summary_line(TURN)] == render_turn(TURN)


def test_a_record_read_back_from_a_notebook_draws_the_same_bytes() -> None:
    again = TurnRecord.model_validate(json.loads(json.dumps(TURN.model_dump(mode="json"), sort_keys=True)))
    assert render_turn(again) == render_turn(TURN)


def test_durations_of_calls_and_replies_are_in_the_metadata_only() -> None:
    slower = TurnRecord.model_validate_json(
        re.sub(r'"milliseconds":\d+', '"milliseconds":98765', TURN.model_dump_json())
    )
    assert [o.data for o in render_turn(slower)][:-1] == [o.data for o in render_turn(TURN)][:-1]
    assert render_turn(slower)[1].metadata["kin"]["seconds"] == 98.765


def test_every_output_has_html_then_plain_text_and_a_kind() -> None:
    for output in render_turn(TURN):
        assert list(output.data) == ["text/html", "text/plain"]
        assert output.metadata["kin"]["turn"] == 3
        json.dumps(output.metadata)


def test_importing_the_cards_imports_nothing_heavy() -> None:
    script = (
        "import sys, kin_nb.render; print({'nh3', 'markdown_it', 'pygments', 'IPython', 'nbformat'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_styles_are_few_and_survive_jupyterlabs_sanitizer() -> None:
    """It keeps these properties with plain colours, and drops whatever holds var(...) (apputils 4.7)."""
    html = "".join(output.data["text/html"] for output in render_turn(TURN))
    styles = set(re.findall(r'style="([^"]*)"', html))
    assert len(styles) <= 16
    for declaration in ";".join(styles).split(";"):
        assert re.fullmatch(
            r"border-left:3px solid #[0-9a-f]{3,6}|padding-left:8px|white-space:pre-wrap|word-break:break-word|margin:4px 0"
            r"|margin-left:0|text-align:(left|right)|color:var\(--kin-[a-z]{2}\)"
            r"|--kin-[a-z]{2}:color-mix\(in srgb,#[0-9a-f]{6} 75%,currentColor\)"
            r"|background:#[0-9a-f]{8}|color:#[0-9a-f]{6}|border-left-color:var\(--jp-[a-z-]+[01],#[0-9a-f]{3,6}\)",
            declaration,
        )


def test_where_a_themes_colours_are_dropped_each_card_keeps_its_own() -> None:
    for output in render_turn(TURN):
        for style in re.findall(r'style="(border[^"]*var[^"]*)"', output.data["text/html"]):
            own, theme = re.search(
                r"border-left:3px solid (#\w+);border-left-color:var\(--jp-[\w-]+,(#\w+)\)", style
            ).groups()
            assert own == theme


@each_row(
    ("changes", "line"),
    [
        ({}, "3 model requests · 3 tool calls · 12,345 tokens in, 678 out · $0.0123 · 8.2 s · done"),
        ({"cost": ""}, "3 model requests · 3 tool calls · 12,345 tokens in, 678 out · 8.2 s · done"),
        ({"steps": (), "cost": "", "mode": "auto_approve"}, "auto-approve mode · 0 model requests · 8.2 s · done"),
        ({"steps": (), "cost": "", "mode": "my_own"}, "my_own mode · 0 model requests · 8.2 s · done"),
        (
            {"steps": TURN.steps[1:2], "cost": ""},
            "1 model request · 1 tool call · 345 tokens in, 378 out · 8.2 s · done",
        ),
        (
            {"steps": (), "cost": "", "outcome": "error", "message": "no key"},
            "0 model requests · 8.2 s · error: no key",
        ),
        (
            {"steps": (), "cost": "", "outcome": "interrupted"},
            "0 model requests · 8.2 s · interrupted\nNext: continue in a new cell",
        ),
        (
            {"steps": (), "cost": "", "outcome": "stopped", "message": "turn limit", "milliseconds": 125_400},
            "0 model requests · 2 min 05 s · stopped: turn limit",
        ),
    ],
)
def test_the_summary_line_tells_the_recorded_figures_in_html_and_in_plain(
    changes: dict[str, object], line: str
) -> None:
    output = render_summary_line(TURN.model_copy(update=changes))
    assert output.data["text/plain"] == line
    assert f"<small>{line.replace(chr(10), f'<br>{chr(10)}')}</small>" in output.data["text/html"]
