"""Export a session as ordinary cells that need no kin_nb (`--plain`): commands, files and Python as code, the rest as Markdown.

`apply_change` is copied into the exported notebook, so it uses nothing from here. Nothing in the Markdown runs in a viewer."""

from __future__ import annotations

import inspect
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from kin_nb.core.file_history.file_changes import backwards, patched
from kin_nb.core.file_history.file_state import file_name
from kin_nb.core.records import FileChange, RecordedCall, TurnRecord, sha256
from kin_nb.core.redaction import SECRET, WORKSPACE
from kin_nb.render import clean, one_line
from kin_nb.render.diff import without_header
from kin_nb.render.summary import PYTHON, describe_call
from kin_nb.replay.binding_cells import RAISES_TAG, catching_errors, is_binding_cell
from kin_nb.replay.book import active_steps
from kin_nb.replay.cell_keys import conversation_command, is_kin_kernel, prompt_key
from kin_nb.replay.format.notebook_codec import read_saved
from kin_nb.replay.format.redacted_text import REDACTED_TAG
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.build import FAILED_TAG, ExecutedCell, session_notebook

if TYPE_CHECKING:
    from markdown_it.token import Token


_SAFE_LINK = re.compile(r"(https?://|mailto:)|(?![\w+.-]*:|//)", re.IGNORECASE)
_ODD = re.compile(r"javascript:|\\(href|class|style|cssId|require|unicode|html)\b", re.IGNORECASE)
"""Also what only some viewers act on: in maths."""


def safe_markdown(text: str) -> str:
    """Return untrusted text as safe Markdown: in a code fence if it has raw HTML, images, or links other than http and mail."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  (on first use)

    text = clean(text).strip("\n")
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    # another viewer may make a link of it
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # noqa: ARG005
    harmless = not _ODD.search(text) and all(map(_is_harmless, _all(parser.parse(text))))
    return text if harmless else fenced(text, "markdown")


def fenced(text: str, language: str = "text") -> str:
    """Return a code block that shows `text` verbatim."""
    text = clean(text).strip("\n")
    fence = _ticks(text, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def code_span(text: str) -> str:
    """Format one line as inline code."""
    text = one_line(text) or " "
    ticks = _ticks(text, 1)
    blank = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{ticks}{blank}{text}{blank}{ticks}"


def _ticks(text: str, least: int) -> str:
    return "`" * max(least, *(len(run) + 1 for run in re.findall("`+", text)), least)


def _all(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _all(token.children or ())


def _is_harmless(token: Token) -> bool:
    if token.type == "link_open":
        return bool(_SAFE_LINK.match(str(token.attrGet("href") or "")))
    return token.type not in {"html_block", "html_inline", "image"}


_FOLDER, _LINK, _RUNS = "040000", "120000", "100755"
_TIME_WAS_UP = 124
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_NAME = re.compile(r"[\w./][\w./-]*", re.ASCII)
_PLAIN_TEXT = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]*")
_STRIPPED = re.compile(r"^(?:[ \t]+$|[^\S\n]*(?:>>>|\.\.\.|\[nav\]|\[ins\]|In \[))", re.MULTILINE)
"""Lines that IPython changes in any cell: blanks alone, and what it takes for a prompt that was pasted along."""


@dataclass(frozen=True)
class PlainCell:
    """A cell of the exported notebook. `fails`: it ended in an error when it was recorded, and may fail again."""

    kind: Literal["code", "markdown"]
    source: str
    fails: bool = False


def plain_call(call: RecordedCall, folder: str) -> Iterator[PlainCell]:
    """Return the cells for a call; none for a call without an effect. `folder`: the workspace, relative to the notebook."""
    if call.is_repeated:
        return  # run once, with the call before it
    text = _code_that_ran(call)
    why = _why_not_run(call, text)
    if text and not why:
        yield _bash(call, text, folder) if call.name == "bash" else _python(call, text, folder)
        return
    if text and (call.status == "ok" or call.files):
        yield _note(call, f"is not included: {why}.{' Its file changes are.' if call.files else ''}")
    yield from _files(call, folder)
    if call.not_covered and not text:
        yield _note(call, "may have had effects that were not recorded, and is not included.")


def plain_undone(calls: Sequence[RecordedCall], folder: str) -> Iterator[PlainCell]:
    """Return cells for the Python of undone calls, if any: undo does not restore variables.

    Before them, the file changes that the code may read are applied; after them, they are reverted. Commands do not run
    again.
    """
    own = [call for call in calls if not call.is_repeated]
    ran = [bool(text := _code_that_ran(call)) and call.name == PYTHON and not _why_not_run(call, text) for call in own]
    if not any(ran):
        return
    made: list[FileChange] = []
    for call, runs in list(zip(own, ran, strict=True))[: len(ran) - ran[::-1].index(True)]:
        if runs:
            yield _python(call, _code_that_ran(call), folder)
            made += call.files
        else:
            yield from _files(call, folder)
            made += [change for change in call.files if not _why_not(change)]
    yield from _files_undone(made, folder)


def _files_undone(made: Sequence[FileChange], folder: str) -> Iterator[PlainCell]:
    lines: list[str] = []
    for change in _backwards(made):
        why = _why_not(change)
        if why:
            yield PlainCell("markdown", f"{code_span(change.path)} was undone, but stays changed here: {why}.")
        else:
            lines += _lines(change, folder)
    if lines:
        yield _changing("# undone: what that changed in files", lines)


def _backwards(made: Sequence[FileChange]) -> Iterator[FileChange]:
    """Return the inverse changes, last to first. A file that did not exist before is removed, whatever it contains."""
    first: dict[str, FileChange] = {}
    for change in made:
        first.setdefault(file_name(change.path), change)
    removed: set[str] = set()
    for change in reversed(made):
        name = file_name(change.path)
        if first[name].before is not None or first[name].before_mode:
            patch = None if change.patch is None else backwards(change.patch)
            yield _turned(change, change.before, change.before_mode, patch)
        elif name not in removed:
            removed.add(name)
            if change.after is not None or change.after_mode:
                yield _turned(change, None, "", None)


def _turned(change: FileChange, to: str | None, mode: str, patch: str | None) -> FileChange:
    fields = {"before": change.after, "after": to, "patch": patch, "before_mode": change.after_mode, "after_mode": mode}
    return change.model_copy(update=fields)


def _why_not_run(call: RecordedCall, text: str) -> str:
    if call.status != "ok":
        return f"it ended as {call.status}"
    if call.exit == _TIME_WAS_UP:
        return "it ran into its timeout, and here it would not end"
    return "it contains text that the recording does not have" if SECRET in text or _SURROGATE.search(text) else ""


def _code_that_ran(call: RecordedCall) -> str:
    """Return the command or the code that ran; "" for other calls."""
    key = {"bash": "command", PYTHON: "code"}.get(call.name, "")
    try:
        arguments = json.loads(call.arguments if call.edited_arguments is None else call.edited_arguments)
    except (ValueError, RecursionError):
        return ""
    text = arguments.get(key) if isinstance(arguments, dict) else None
    return text if isinstance(text, str) else ""


_BASH = """\
import subprocess

subprocess.run(["bash", "-c", {}], cwd={!r}, stdin=subprocess.DEVNULL, check={})"""


def _bash(call: RecordedCall, command: str, folder: str) -> PlainCell:
    """Return a `%%bash` cell. Braces, because bash gets the cell as standard input, which the command must not read."""
    if not _stays(command):
        return PlainCell("code", _BASH.format(_by_line(command), folder or ".", not call.exit))
    go = f"cd {_quoted(folder)} || exit\n" if folder else ""
    may_fail = " --no-raise-error" if call.exit else ""
    command = command.replace(WORKSPACE, ".").strip("\n")
    end = "\n\n" if command.endswith("\\") else "\n"
    return PlainCell("code", f"%%bash{may_fail}\n{go}{{\n{command}{end}}} < /dev/null")


def _python(call: RecordedCall, code: str, folder: str) -> PlainCell:
    return PlainCell("code", code.replace(WORKSPACE, folder or ".").strip("\n"), fails=bool(call.exit))


def _files(call: RecordedCall, folder: str) -> Iterator[PlainCell]:
    lines: list[str] = []
    for change in call.files:
        why = _why_not(change)
        if why:
            yield _note(call, f"changed {code_span(change.path)}, which is not included: {why}.")
        elif len(call.files) == 1 and _is_new_text(change, folder):
            yield from _written(change, folder)
        else:
            lines += _lines(change, folder)
    if lines:
        yield _changing(one_line(f"# {call.name}: {describe_call(call)}"), lines)


def _changing(head: str, lines: list[str]) -> PlainCell:
    needs = ["from pathlib import Path\n"] if any(line.startswith("Path(") for line in lines) else []
    return PlainCell("code", "\n".join([head, *needs, *lines]))


def _why_not(change: FileChange) -> str:
    """Return why this change cannot be made from the record; "" if it can."""
    name = file_name(change.path)
    if name.startswith(("/", "~")) or ".." in name.split("/") or WORKSPACE in name or SECRET in name:
        return "it is outside the workspace"
    if change.before == change.after or change.after is None:
        return ""
    if change.patch is None:
        return "the recording has no text of it (binary, over 256 KB, or a file that holds secrets)"
    if change.before is None and sha256(made := patched("", change.patch)) == change.after:
        return "it leads out of the workspace" if change.after_mode == _LINK and not _is_near(made) else ""
    if _LINK in {change.after_mode, change.before_mode}:
        return "it is or was a link, and its target is not recorded"
    if change.before is None or SECRET in change.patch or WORKSPACE in change.patch:
        return "a secret or a path was redacted in its text"
    return ""


def _is_near(target: str) -> bool:
    return not target.startswith(("/", "~")) and ".." not in target.split("/")


def _is_new_text(change: FileChange, folder: str) -> bool:
    """Whether `%%writefile` writes exactly this file: it ends the text with one newline, and expands variables in names."""
    if change.before is not None or change.after is None or change.after_mode not in {"", "100644"}:
        return False
    text = patched("", change.patch or "")
    return _stays(text) and text.endswith("\n") and bool(_PLAIN_NAME.fullmatch(_joined(folder, change.path)))


def _written(change: FileChange, folder: str) -> Iterator[PlainCell]:
    path = _joined(folder, change.path)
    if "/" in change.path:
        yield PlainCell("code", f"%mkdir -p {path.rpartition('/')[0]}")
    yield PlainCell("code", f"%%writefile {path}\n{patched('', change.patch or '')}")


def _lines(change: FileChange, folder: str) -> Iterator[str]:
    """Return statements that make the change, in a possible order."""
    path = _literal(_joined(folder, file_name(change.path)))
    if change.after is None and not change.after_mode:
        yield f"Path({path}).rmdir()" if change.before_mode == _FOLDER else f"Path({path}).unlink()"
        return
    if change.after_mode == _FOLDER:
        yield f"Path({path}).mkdir(parents=True, exist_ok=True)"
        return
    if change.after_mode == _LINK:
        yield f"Path({path}).parent.mkdir(parents=True, exist_ok=True)"
        yield f"Path({path}).symlink_to({_literal(patched('', change.patch or ''))})"
        return
    if change.before != change.after:
        yield f"apply_change({path}, {_block(without_header(change.patch or ''))})"
    if (change.before_mode == _RUNS) != (change.after_mode == _RUNS):
        yield f"Path({path}).chmod(0o{'755' if change.after_mode == _RUNS else '644'})"


def _block(patch: str) -> str:
    """Return a string literal that keeps the lines readable, where possible."""
    patch = re.sub(r"^ $", "", patch, flags=re.MULTILINE)
    return f"r'''\n{patch}'''" if "'''" not in patch and _stays(patch) else _by_line(patch)


def _by_line(text: str) -> str:
    return "\n".join(["(", *(f"    {line!a}" for line in re.findall(r"[^\n]*\n|[^\n]+", text)), ")"])


def _stays(text: str) -> bool:
    """Whether IPython passes the text on unchanged within a cell."""
    return bool(_PLAIN_TEXT.fullmatch(text)) and not _STRIPPED.search(text)


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if _PLAIN_TEXT.fullmatch(text) else ascii(text)


def _joined(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder else path


def _quoted(path: str) -> str:
    """Return the path, in shell quotes only if it needs them."""
    return path if _PLAIN_NAME.fullmatch(path) else "'" + path.replace("'", "'\\''") + "'"


def _note(call: RecordedCall, what: str) -> PlainCell:
    about = describe_call(call)
    return PlainCell("markdown", f"{code_span(call.name)}{f' {code_span(about)}' if about else ''} {what}")


def apply_change(path: str, patch: str) -> None:
    """Apply a unified diff to the text file at `path`. Raises ValueError if the lines to change are missing."""
    import re  # noqa: PLC0415  (it travels alone)
    from pathlib import Path  # noqa: PLC0415

    file = Path(path)
    text = file.read_bytes().decode() if file.exists() else ""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    hunks = re.split(r"(?m)^@@ -(\d+)(?:,(\d+))? .*\n", patch)
    moved = 0
    for start, length, body in zip(hunks[1::3], hunks[2::3], hunks[3::3], strict=True):
        rows = re.findall(r"(?m)^([ +-]|(?=\n))(.*\n)(\\.*\n)?", body)
        old, new = ([row[: -1 if end else None] for mark, row, end in rows if mark in side] for side in (" -", " +"))
        at = int(start) - (length != "0") + moved
        if lines[at : at + len(old)] != old or (not old and lines):
            places = [n for n in range(len(lines)) if old and lines[n : n + len(old)] == old]
            if len(places) != 1:
                raise ValueError(f"{path}: not once in the file, so not changed:\n{''.join(old) or '(an empty file)'}")
            moved, at = moved + places[0] - at, places[0]
        lines[at : at + len(old)] = new
        moved += len(new) - len(old)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes("".join(lines).encode())


_KIN_LINE = re.compile(r"[ \t]*%(kin|(re)?load_ext[ \t]+kin_nb)\b")
_PROMPT = re.compile(r"\n*%%kin\b")
_PYTHON3 = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
_INTRODUCTION = """\
**A session of a coding agent, as ordinary cells.** It was exported from a session notebook of kin_nb and does not need kin_nb:
commands and changes of the agent are code cells, prompts and replies are text. Read the cells before you run them: no one has
reviewed them. They run once, from the top, if {where} is as it was when the session began."""


def plain_notebook(recording: Recording, source_nb: Any = None, cells: Sequence[ExecutedCell] | None = None) -> Any:
    """Return the session as a notebook (NotebookNode) that needs no kin_nb: without records, prompts and cards.

    `source_nb`: the notebook of the session, or the `cells` that ran; its other cells stay. Undone turns are left out, with
    a note, except for their Python: undo does not restore variables.
    """
    nb = session_notebook(recording, source_nb=source_nb, cells=cells)
    folder = _folder(recording)
    standing = active_steps(recording)
    held = read_saved(nb).records_by_cell
    taken = {cell["id"] for cell in nb["cells"]}
    ids = (name for n in count(1) if (name := f"plain-{n}") not in taken)
    plain: list[Any] = []
    for index, cell in enumerate(nb["cells"]):
        cell["metadata"].pop("kin", None)
        turns = [record for record in held.get(index, ()) if isinstance(record, TurnRecord)]
        if turns:
            made = [each for turn in turns for each in _turn(turn, standing.get(turn.id), folder)]
        elif is_binding_cell(nb, cell) or conversation_command(nb, cell) is not None:
            continue
        else:
            made = list(_own(nb, cell))
            if made == [cell]:
                plain.append(cell)
                continue
        plain += [_notebook_cell(each, ids) for each in made]
    changes = any("apply_change(" in cell["source"] for cell in plain)
    nb["cells"] = [_notebook_cell(each, ids) for each in _head(folder, changes=changes)] + plain
    _drop_metadata(nb, source_nb)
    return nb


def _folder(recording: Recording) -> str:
    path = posixpath.normpath(recording.meta.workspace.path or ".")
    return "" if path == "." else f"./{path}" if path.startswith("-") else path


def _head(folder: str, *, changes: bool) -> Iterator[PlainCell]:
    where = f"the folder {code_span(folder)}" if folder else "the notebook's folder"
    yield PlainCell("markdown", _INTRODUCTION.format(where=where))
    lines = []
    if folder:
        missing = f"Folder {folder} not found. The cells below work on its files: run this notebook next to it."
        lines += ["from pathlib import Path\n", f"if not Path({folder!r}).is_dir():"]
        lines += [f"    raise FileNotFoundError({missing!r})"]
    if changes:
        source = re.sub(r"  # noqa[^\n]*", "", inspect.getsource(apply_change))
        lines += ["\n", source.rstrip()] if lines else [source.rstrip()]
    if lines:
        yield PlainCell("code", "\n".join(lines))


def _turn(turn: TurnRecord, standing: int | None, folder: str) -> Iterator[PlainCell]:
    """Return the cells of a turn. `standing`: the number of steps that were not undone; None: all were undone."""
    attached = f"\n\nAttached: {', '.join(map(code_span, turn.attached))}" if turn.attached else ""
    yield PlainCell("markdown", f"**Prompt {turn.turn}**\n\n{fenced(turn.prompt)}{attached}")
    stays = standing or 0
    for step in turn.steps[:stays]:
        if step.content.strip():
            yield PlainCell("markdown", safe_markdown(step.content))
        for call in step.calls:
            yield from plain_call(call, folder)
    if standing is None or stays < len(turn.steps):
        what = "This turn was undone" if standing is None else "The rest of this turn was undone"
        python = list(plain_undone([call for step in turn.steps[stays:] for call in step.calls], folder))
        why = "its Python stays, since undo does not bring variables back; all else" if python else "what the agent did"
        yield PlainCell("markdown", f"{what}: {why} is left out.")
        yield from python
    elif turn.outcome != "done":
        why = f": {code_span(turn.message)}" if turn.message else ""
        yield PlainCell("markdown", f"This turn ended as {turn.outcome}{why}.")


def _own(nb: Any, cell: Any) -> Iterator[Any]:
    """Return a cell of the user: unchanged if it has no line for kin_nb, otherwise the rest of it."""
    source = cell["source"]
    if cell["cell_type"] != "code":
        yield cell
        return
    asked = prompt_key(nb, cell) is not None
    if asked:
        text = _PROMPT.sub("", source, count=1).partition("\n")[2] if _PROMPT.match(source) else source
        yield PlainCell("markdown", f"**A prompt that was never run**\n\n{fenced(text)}")
        return
    if _PROMPT.match(source) or (is_kin_kernel(nb) and source.lstrip().startswith("/")):
        return  # it only gave the session a command
    lines = source.split("\n")
    if is_kin_kernel(nb) and lines[0].split() == ["%%python"]:
        lines = lines[1:]
    cell["outputs"] = [output for output in cell["outputs"] if "kin" not in (output.get("metadata") or {})]
    if any(output["output_type"] == "error" for output in cell["outputs"]):
        cell["metadata"]["tags"] = list(dict.fromkeys([*cell["metadata"].get("tags", []), RAISES_TAG]))
    if source.startswith("%%") or not any(_KIN_LINE.match(line) for line in lines):
        cell["source"] = "\n".join(lines)
        yield cell
    elif any(line.strip() for line in lines if not _KIN_LINE.match(line)):
        cell["source"] = "\n".join(f"# {line}" if _KIN_LINE.match(line) else line for line in lines)
        yield cell


def _notebook_cell(plain: PlainCell, ids: Iterator[str]) -> Any:
    from nbformat.v4 import new_code_cell, new_markdown_cell  # noqa: PLC0415  (first use)

    if plain.kind == "markdown":
        return new_markdown_cell(plain.source, id=next(ids))
    caught = catching_errors(plain.source) if plain.fails else None
    tags = {"tags": [RAISES_TAG]} if plain.fails and caught is None else {}
    return new_code_cell(caught or plain.source, id=next(ids), metadata=tags)


def _drop_metadata(nb: Any, source_nb: Any) -> None:
    """Remove kin_nb's metadata, keep the user's; a notebook of the Kin kernel becomes one of the Python kernel."""
    if is_kin_kernel(nb):
        nb["metadata"]["kernelspec"] = dict(_PYTHON3)
    nb["metadata"].pop("kin", None)
    for cell in nb["cells"]:
        tags = cell["metadata"].get("tags")
        if isinstance(tags, list):
            cell["metadata"]["tags"] = [tag for tag in tags if tag not in (FAILED_TAG, REDACTED_TAG)]
    theirs = source_nb["metadata"].get("jupytext") if source_nb is not None else None
    settings = {key: _without_us(value) for key, value in theirs.items()} if isinstance(theirs, dict) else {}
    nb["metadata"]["jupytext"] = {key: value for key, value in settings.items() if value}
    if not nb["metadata"]["jupytext"]:
        del nb["metadata"]["jupytext"]


def _without_us(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return ",".join(word for word in value.split(",") if word.strip() not in {"kin", "-kin"})
