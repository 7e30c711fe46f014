"""A tool call as a card: its summary in the first line, then its changes, code or arguments, then its result."""

from __future__ import annotations

from kin_nb.core.records import RecordedCall
from kin_nb.core.text import counted
from kin_nb.render.approval import QUESTION, answer_block, question_block
from kin_nb.render.card import AMBER, BLUE, GREY, RED, CardPart, Output, card
from kin_nb.render.changes import LEFT_OUT, NO_TEXT, file_part
from kin_nb.render.summary import PYTHON, Arguments, call_summary, is_refusal_reason, status_words
from kin_nb.render.text import (
    CARD_LIMIT,
    NOTHING,
    clean,
    clip,
    escape,
    fill,
    indent,
    inline_code_html,
    join,
    line_count,
    one_line,
    pre,
)
from kin_nb.render.tool_parts import (
    READ_FILE,
    Checklist,
    code_part,
    read_part,
    strip_notes,
    subagent_html,
    subagent_text,
    uncovered_part,
)

_OPEN_OUTPUT_LINES = 12
_OPEN_DIFF_LINES = 40
_HOW_TO_ANSWER = (
    "Answer in the running notebook: with the buttons here, or with y or n in the input box. "
    "Interrupt the kernel to end the turn instead."
)
_HOW_TO_ANSWER_A_QUESTION = _HOW_TO_ANSWER.replace("with y or n in the input box", "in the input box")
_QUIET = ("variables", "notebook")
"""Tools whose arguments say nothing that their line and their output do not."""
_COLORS = {"ok": GREY, "pending": BLUE, "error": RED, "refused": AMBER, "interrupted": AMBER}


def render_call(call: RecordedCall, *, turn: int, step: int, tail: str = "", waiting: bool = False) -> Output:
    """Return the card of a call in any state.

    `tail` is what a running call has printed so far; its end is shown. `waiting`: a person is being asked; the whole
    call is shown, uncut. A settled call shows at most 2,000 characters of its output and 10,000 of each diff.
    """
    arguments = Arguments.read(call.edited_arguments or call.arguments)
    output = clean(tail[-CARD_LIMIT:] if call.status == "pending" else call.shown_to_model).strip("\n")
    if call.name == PYTHON and call.status == "ok":
        output = strip_notes(output, call)
    if is_refusal_reason(call, output):
        output = ""
    name, subject = one_line(call.name), call_summary(call, arguments)
    said = status_words(call, waiting=waiting, printing=bool(output))
    if (todos := Checklist.of(call, arguments.values)) is not None:
        subject, said = "", [*todos.fact, *(word for word in said if word != "done")]
        lines, unfolded = 0, len(todos.items) <= _OPEN_OUTPUT_LINES
        parts = [*_waiting(waiting), todos.part]
    else:
        lines = line_count(output)
        unfolded = _is_unfolded(call, arguments, lines)
        parts = _parts(call, arguments, subject, clip(output), waiting=waiting)
    unfolded = unfolded or waiting
    fact = " · ".join(said)
    folded = "" if unfolded or not lines else f" · {counted(lines, 'line')}"
    about = fill(" <code>{}</code>", escape(subject)) if subject else NOTHING
    html = card(
        fill("<b>{}</b>{} · {}{}", escape(name), about, inline_code_html(fact), escape(folded)),
        join("", (part.html for part in parts)),
        label="tool call",
        color=AMBER if waiting else _COLORS[call.status],
        unfolded=unfolded,
    )
    first = f"[{name}] {subject} · {fact}" if subject else f"[{name}] · {fact}"
    return Output.of(
        html,
        "\n".join([first, *(indent(part.text) for part in parts)]),
        kind="call",
        turn=turn,
        step=step,
        id=one_line(call.id),
        tool=name,
        status="waiting" if waiting else call.status,
        exit=call.exit,
        seconds=None if call.milliseconds is None else round(call.milliseconds / 1000, 3),
    )


def _is_unfolded(call: RecordedCall, arguments: Arguments, output_lines: int) -> bool:
    """Whether the card is open: for failures, questions, small diffs and short outputs of commands."""
    if call.name == QUESTION or call.status in ("error", "refused", "interrupted") or call.exit:
        return True
    if call.uncovered and call.name != PYTHON:  # nearly all code binds variables
        return True
    if call.status == "pending":
        return output_lines > 0
    if call.files:
        return sum(line_count(file.patch or "") for file in call.files) <= _OPEN_DIFF_LINES
    runs = arguments.command is not None or call.name == PYTHON
    return runs and output_lines <= _OPEN_OUTPUT_LINES


def _parts(call: RecordedCall, arguments: Arguments, subject: str, output: str, *, waiting: bool) -> list[CardPart]:
    if call.name == QUESTION and (question := question_block(arguments.values, subject)) is not None:
        return _question(call, question, output, waiting=waiting)
    parts = [*_waiting(waiting), *_asked(call, arguments, subject, waiting=waiting)]
    if call.edited_arguments is not None:
        parts.append(_asked_for(Arguments.read(call.arguments)))
    why_no_lines = LEFT_OUT if call.withheld else NO_TEXT
    parts += [file_part(file, subject, why_no_lines) for file in call.files]
    if call.subagent is not None:
        parts.append(CardPart(subagent_html(call.subagent), subagent_text(call.subagent)))
    # A patch that went in says more than the sentence that the model got about it.
    is_report = arguments.command is not None or call.subagent is not None or call.name == PYTHON
    if output and (is_report or not call.files or call.status != "ok"):
        parts.append(_output(call, arguments, output))
    if call.not_covered:
        parts.append(uncovered_part(call))
    return parts


def _waiting(waiting: bool) -> list[CardPart]:
    return [CardPart(fill("{}\n", escape(_HOW_TO_ANSWER)), _HOW_TO_ANSWER)] if waiting else []


def _asked(call: RecordedCall, arguments: Arguments, subject: str, *, waiting: bool) -> list[CardPart]:
    """Return what ran, unless the first line says it: a command, code, or the arguments of other tools."""
    code = arguments.code_of(call)
    if code is not None:
        return [code_part(code.strip("\n"), waiting=waiting)] if code.strip() != subject else []
    if arguments.command is not None:
        return [CardPart.block(f"$ {arguments.command.rstrip()}")] if arguments.command.strip() != subject else []
    if call.files or not arguments.pretty or (call.name in _QUIET and call.status == "ok"):
        return []
    return [CardPart.block(arguments.pretty if waiting else clip(arguments.pretty))]


def _output(call: RecordedCall, arguments: Arguments, output: str) -> CardPart:
    path = arguments.values.get("path")
    return read_part(output, path) if call.name == READ_FILE and isinstance(path, str) else CardPart.block(output)


def _question(call: RecordedCall, question: str, output: str, *, waiting: bool) -> list[CardPart]:
    how = _HOW_TO_ANSWER_A_QUESTION
    texts = (
        question if waiting else clip(question),
        answer_block(output) if output and call.status == "ok" else output,
    )
    return [
        *([CardPart(fill("{}\n", escape(how)), how)] if waiting else []),
        *(CardPart.block(text) for text in texts if text),
    ]


def _asked_for(arguments: Arguments) -> CardPart:
    question_block, head = clip(arguments.command or arguments.pretty), "The model asked for"
    html = fill("<details><summary>{}</summary>\n{}</details>\n", escape(head), pre(question_block))
    return CardPart(html, f"{head}\n{indent(question_block)}")
