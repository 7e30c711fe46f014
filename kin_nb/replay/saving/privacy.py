"""Redact a session notebook when it is saved, and report the redactions (docs/reference/redaction.md).

Secrets are always removed, matches of `--redact` on request: from the records, every cell's text, and the outputs.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from kin_nb.core.config import ConfigError, KinConfig
from kin_nb.core.config.secrets import secret_values
from kin_nb.core.records import Record, RecordedCall, SessionRecord, TurnRecord, UndoRecord, canonical_json, sha256
from kin_nb.core.redaction import REDACTED, SECRET, Redactor, is_prose, redact_json, texts_in_json
from kin_nb.core.text import listed
from kin_nb.replay.binding_cells import IGNORE_OUTPUT_TAG
from kin_nb.replay.cell_keys import conversation_command, conversation_key, flow_key, prompt_key, session_name
from kin_nb.replay.format.output_records import BACKUP_KEY, backed_up_records, raw_output_records
from kin_nb.replay.format.output_records import RECORD_KEY as CARRIED
from kin_nb.replay.format.redacted_text import COLOR, REDACTED_TAG, has_redaction_marks
from kin_nb.replay.recording import Recording, SessionMeta, record_label
from kin_nb.replay.saving.build import WIDGET_REFERENCE, WIDGETS_KEY, is_generated
from kin_nb.replay.saving.markup import clean_markup

_MOST_LINES = 12
_SESSION = "--session"
_AS_THEY_ARE = frozenset(
    {
        *(
            "type",
            "sha",
            "key",
            "cell_id",
            "id",
            "ancestors",
            "fingerprint",
            "before",
            "after",
            "before_mode",
            "after_mode",
        ),
        *(
            "status",
            "outcome",
            "stop_reason",
            "verdict",
            "by",
            "scope",
            "name",
            "profile",
            "mode",
            "media_type",
            "withheld",
        ),
        *("whole", "session", "kin_nb", "system_prompt_sha", "tools_sha", "commit", "format"),
    }
)
"""Fields of records and cards with fixed words of this format, or hashes: left as they are when the value looks like one."""
_KNOWN = re.compile(r"[\w.:/+-]{0,200}", re.ASCII)
"""A valid value of such a field: one word."""
_JSON = frozenset({"arguments", "edited_arguments"})
_VERBATIM_OR_NOT_AT_ALL = frozenset({"provider_data"})
"""A provider's own data, such as signatures: recorded without secrets, and useless once changed."""
_BY_JUPYTER = frozenset({"output_type", "name", "execution_count"})
_BY_WIDGETS = frozenset(
    f"{of}_{what}"
    for of in ("model", "_model", "_view")
    for what in ("name", "module", "module_version", "count", "id")
)
"""Fields of their state in which ipywidgets names classes and versions."""
_WIDGETS_NAME = re.compile(r"[\w@./^~*-]{0,200}", re.ASCII)
_BUFFER = frozenset({"data", "encoding", "path"})
_ENCODED = re.compile(r"(?:image/(?!svg)|audio/|video/|application/(?:pdf|octet-stream))")
"""Kinds of output in base64, where a match would be a coincidence."""
_MARKUP = ("text/html", "image/svg")
_PROMPT = re.compile(r"(?P<magic>\s*%%kin\b)(?P<options>[^\n]*)(?P<end>\n?)(?P<body>.*)", re.DOTALL)
_WORD = re.compile(r"[^\s=]+")

R = TypeVar("R", bound=Record)


def known_secrets() -> Callable[[str], str]:
    """Return a function that redacts the secrets known on this machine, and well-known key formats, in a text; paths stay."""
    try:
        values = secret_values(KinConfig.load())
    except ConfigError:  # key formats are known without settings
        values = []
    root = Path("/")
    return Redactor(values, root, home=root).text


class NotebookRedactor:
    """Redact secrets and matches of `patterns`; `report` lists what was redacted, and where.

    `secrets`: a function that redacts secrets (core.safety.secrets), none by default: records are already free of them.
    """

    def __init__(self, patterns: Sequence[re.Pattern[str]] = (), secrets: Callable[[str], str] = str) -> None:
        self._patterns, self._secrets = patterns, secrets
        self._gone: Counter[tuple[str, str]] = Counter()
        self._left: list[str] = []
        self.code: list[int] = []
        """The numbers, from 1, of cells whose code was redacted."""

    def text(self, text: str, where: str) -> str:
        """Redact `text`, also where color codes split a match: a text that is redacted loses its colors."""
        bare = COLOR.sub("", text) if "\x1b" in text else text
        if bare != text and (clean := self._cleaned(bare, where)) != bare:
            return clean
        return self._cleaned(text, where)

    def plain(self, text: str) -> str:
        """Redact `text` for a report that names places by itself."""
        return self.text(text, "")

    def output(self, output: dict[str, Any], where: str) -> dict[str, Any]:
        """Redact an output in each of its formats; pictures stay as they are."""
        clean = {}
        for key, item in output.items():
            if key == "data" and isinstance(item, dict):
                clean[key] = {kind: self._shown(kind, each, f"{where}, {kind}") for kind, each in item.items()}
            elif key == "metadata" and isinstance(item, dict):
                theirs = self._everything({k: each for k, each in item.items() if k != "kin"}, f"{where}, metadata")
                clean[key] = theirs | {k: self.value(each, where) for k, each in item.items() if k == "kin"}
            else:
                clean[key] = item if key in _BY_JUPYTER else self.value(item, f"{where}, {key}")
        return clean

    def attachments(self, attachments: dict[str, Any], where: str) -> dict[str, Any]:
        """Redact a cell's attachments in each text format; JupyterLab stores them as base64."""
        return {
            name: {kind: self._attached(kind, item, f"{where}, {kind}") for kind, item in bundle.items()}
            if isinstance(bundle, dict)
            else bundle
            for name, bundle in attachments.items()
        }

    def value(self, value: Any, where: str) -> Any:
        """Redact every text in a JSON value, except fixed fields without user text; `where` is extended by field names."""
        if isinstance(value, str):
            return self.text(value, where)
        if isinstance(value, list | tuple):
            return [self.value(item, where) for item in value]
        if not isinstance(value, dict):
            return value
        where += f", {value['name']}" if "arguments" in value and "name" in value else ""
        picture = isinstance(value.get("data"), str) and "media_type" in value
        return {
            key: item if picture and key == "data" else self._field(key, item, where) for key, item in value.items()
        }

    def widgets(self, value: Any, where: str) -> Any:
        """Redact the state of displayed widgets; ipywidgets' own names in it stay."""
        if isinstance(value, dict):
            return {
                k: item if _is_named_by_widgets(k, item) else self.widgets(item, where) for k, item in value.items()
            }
        if isinstance(value, list):
            return [self.widgets(item, where) for item in value]
        return value if isinstance(value, str) and WIDGET_REFERENCE.fullmatch(value) else self._everything(value, where)

    def report_only(self, value: Any, where: str) -> None:
        """Report matches without redacting them: `value` belongs to other programs."""
        looking = NotebookRedactor(self._patterns, self._secrets)
        looking._everything(value, where)
        self._left += looking._lines()

    def report(self) -> list[str]:
        """Return a line for each place, grouped by kind; empty when nothing was found. No line contains the redacted text."""
        found = {"Redacted:": self._lines(), "Not redacted, in metadata of other programs:": self._left}
        lines = [line for title, lines in found.items() if lines for line in (title, *_indented(lines))]
        return [*lines, _changed_code(self.code)] if self.code else lines

    def _lines(self) -> list[str]:
        return [f"{where}: {count} {_plural(what, count)}" for (where, what), count in self._gone.items()]

    def _shown(self, kind: str, item: Any, where: str) -> Any:
        if _ENCODED.match(kind):
            return item
        if isinstance(item, str) and kind.startswith(_MARKUP):  # as displayed first: matches may be escaped
            look = NotebookRedactor(self._patterns, self._secrets).plain
            item = clean_markup(item, lambda text: self.text(text, where), look=look)
        return self._everything(item, where)

    def _attached(self, kind: str, item: Any, where: str) -> Any:
        clean = self._shown(kind, item, where)
        if clean != item or not isinstance(item, str) or _ENCODED.match(kind):
            return clean
        try:
            text = base64.b64decode(item, validate=True).decode()
        except ValueError:
            return clean
        clean = self._shown(kind, text, where)
        return item if clean == text else base64.b64encode(clean.encode()).decode()

    def _everything(self, value: Any, where: str) -> Any:
        """Redact every text in a JSON value, keys too: any part of a program's output may be the user's."""
        if isinstance(value, str):
            return self.text(value, where)
        if isinstance(value, dict):
            clean: dict[str, Any] = {}
            for key, item in value.items():
                name = self.text(key, where)
                clean[name if name not in clean else f"{name} {len(clean) + 1}"] = self._everything(item, where)
            return clean
        return [self._everything(item, where) for item in value] if isinstance(value, list) else value

    def _cleaned(self, text: str, where: str) -> str:
        clean = self._secrets(text)
        if clean != text:
            self._gone[where, "secret"] += max(1, clean.count(SECRET) - text.count(SECRET))
        for pattern in self._patterns:
            clean, count = pattern.subn(REDACTED, clean)
            if count:
                self._gone[where, f"match of {pattern.pattern}"] += count
        return clean

    def _verbatim_or_nothing(self, text: str, where: str) -> str:
        """Return `text`, or "" when it has a match of a pattern, or a secret (in prose, not in opaque data)."""
        texts = [text, *texts_in_json(text)]
        found = [f"match of {each.pattern}" for each in self._patterns if any(map(each.search, texts))]
        if any(is_prose(each) and self._secrets(each) != each for each in texts[1:]):
            found.append("secret")
        self._gone.update((where, what) for what in found)
        return "" if found else text

    def _field(self, key: str, item: Any, where: str) -> Any:
        if key in _AS_THEY_ARE and _is_known(item):
            return item
        if key in _VERBATIM_OR_NOT_AT_ALL and isinstance(item, str):
            return self._verbatim_or_nothing(item, f"{where}, {key}")
        if key in _JSON and isinstance(item, str):
            return redact_json(item, lambda text: self.text(text, f"{where}, {key}"))
        holds_more = isinstance(item, dict) or (isinstance(item, list) and any(isinstance(each, dict) for each in item))
        return self.value(item, where if holds_more else f"{where}, {key}")


def _is_known(item: Any) -> bool:
    if isinstance(item, list | tuple):
        return all(isinstance(each, str) and _KNOWN.fullmatch(each) for each in item)
    return isinstance(item, str) and _KNOWN.fullmatch(item) is not None


def _indented(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _MOST_LINES
    rest = [f"and {more} more {'place' if more == 1 else 'places'}"] if more > 0 else []
    return [f"  {line}" for line in (*lines[:_MOST_LINES], *rest)]


def _changed_code(cells: Sequence[int]) -> str:
    named = listed(list(map(str, cells)), _MOST_LINES)
    return f"Code was redacted and may fail now: cell {named}. Run the notebook once before you share it."


def clean_notebook(nb: Any, recording: Recording, cleaner: NotebookRedactor) -> Recording:
    """Redact `nb` in place, and return the redacted recording. Turns stay with the cells that asked them."""
    keys: dict[str, str] = {}
    for number, cell in enumerate(nb["cells"], 1):
        before = prompt_key(nb, cell)
        ordinary = conversation_key(nb, cell) is None
        if not is_generated(cell) and (clean := _clean_source(cleaner, nb, cell, f"cell {number}")) != cell["source"]:
            cell["source"] = clean
            cleaner.code += [number] if cell["cell_type"] == "code" and ordinary else []
        if cell["cell_type"] == "code":
            where = f"cell {number}, outputs"
            cell["outputs"] = [_clean_output(cleaner, output, where) for output in _joined(cell.get("outputs", []))]
            _tag_redacted(cell, ordinary=ordinary)
        if isinstance(cell.get("attachments"), dict):
            cell["attachments"] = cleaner.attachments(cell["attachments"], f"cell {number}, attachments")
        theirs = {key: item for key, item in cell.get("metadata", {}).items() if key != "kin"}
        cleaner.report_only(theirs, f"cell {number}, metadata")
        after = prompt_key(nb, cell)
        if before and after and before != after:
            keys |= _renamed(before, after, recording)
    if WIDGETS_KEY in nb["metadata"]:
        nb["metadata"][WIDGETS_KEY] = cleaner.widgets(nb["metadata"][WIDGETS_KEY], WIDGETS_KEY)
    theirs = {key: item for key, item in nb["metadata"].items() if key not in ("kin", WIDGETS_KEY)}
    cleaner.report_only(theirs, "notebook metadata")
    return replace(
        recording,
        records=tuple(_clean_record(cleaner, record, keys) for record in recording.records),
        unknown_records=tuple(
            canonical_json(cleaner.value(json.loads(text), "a record of a later version"))
            for text in recording.unknown_records
        ),
        meta=_clean_meta(cleaner, recording.meta),
        saved_shas=None,
        session_names={
            record: cleaner.text(name, "the name of a session") for record, name in recording.session_names.items()
        },
    )


def _clean_meta(cleaner: NotebookRedactor, meta: SessionMeta) -> SessionMeta:
    """Redact the metadata. A branch name with a match becomes unknown: a redaction mark is not a branch name."""
    where, branch = "notebook metadata", meta.workspace.branch
    if branch and cleaner.text(branch, f"{where}, branch") != branch:
        meta = meta.model_copy(update={"workspace": meta.workspace.model_copy(update={"branch": None})})
    return _clean(cleaner, SessionMeta, meta, where)


def _clean_record(cleaner: NotebookRedactor, record: SessionRecord, keys: Mapping[str, str]) -> SessionRecord:
    clean = _clean(cleaner, type(record), record, record_label(record))
    return clean.model_copy(update={"key": keys[clean.key]}) if clean.key in keys else clean


def _clean_output(cleaner: NotebookRedactor, output: dict[str, Any], where: str) -> dict[str, Any]:
    """Redact an output. Of its records only the ids are kept: the recording has the records."""
    metadata = output.get("metadata")
    if not isinstance(metadata, dict):
        return cleaner.output(output, where)
    clean = cleaner.output(
        {**output, "metadata": {key: item for key, item in metadata.items() if key not in (CARRIED, BACKUP_KEY)}}, where
    )
    cell = {"outputs": [output]}
    for carried in raw_output_records(cell):
        clean["metadata"][CARRIED] = _id_alone(carried)
    kept = [
        {"cell": each["cell"], "carried": _id_alone(each["carried"])} for each in backed_up_records({"cells": [cell]})
    ]
    if kept:
        clean["metadata"][BACKUP_KEY] = kept
    return clean


def _id_alone(carried: dict[str, Any]) -> dict[str, Any]:
    record = carried.get("record")
    return {"record": {"id": record.get("id")}} if isinstance(record, dict) else {}


def clean_outputs(nb: Any, cleaner: NotebookRedactor) -> None:
    """Redact the outputs of `nb` in place, as a save does."""
    from nbformat import from_dict  # noqa: PLC0415  (first use)

    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [from_dict(cleaner.output(output, "outputs")) for output in _joined(cell["outputs"])]


def _joined(outputs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the pieces of each stream: a match may be split over two of them."""
    joined: list[dict[str, Any]] = []
    for output in outputs:
        stream = output["output_type"] == "stream" and output["name"]
        if stream and joined and (joined[-1]["output_type"], joined[-1].get("name")) == ("stream", stream):
            joined[-1] = {**joined[-1], "text": "".join([*joined[-1]["text"], *output["text"]])}
        else:
            joined.append(output)
    return joined


def _is_named_by_widgets(key: str, item: Any) -> bool:
    if key == "buffers":
        return isinstance(item, list) and all(isinstance(each, dict) and each.keys() <= _BUFFER for each in item)
    return key in _BY_WIDGETS and (not isinstance(item, str) or _WIDGETS_NAME.fullmatch(item) is not None)


def _tag_redacted(cell: Any, *, ordinary: bool) -> None:
    """Make nbval skip a cell with a redacted output: it prints both texts when they differ."""
    tags = cell.get("metadata", {}).get("tags", [])
    if not cell.get("outputs") or not isinstance(tags, list):
        return
    if REDACTED_TAG in tags:
        tags = [tag for tag in tags if tag not in (REDACTED_TAG, IGNORE_OUTPUT_TAG)]
    if ordinary and IGNORE_OUTPUT_TAG not in tags and has_redaction_marks(json.dumps(cell["outputs"])):
        tags = [*tags, REDACTED_TAG, IGNORE_OUTPUT_TAG]
    if tags != cell["metadata"].get("tags", []):
        cell["metadata"]["tags"] = tags


def _renamed(before: str, after: str, recording: Recording) -> dict[str, str]:
    """Map the old keys of turns of a cell whose text was `before` to new keys."""
    keys, number = {before: after}, 1
    known = {turn.key for turn in recording.turns}
    while (key := flow_key(before, number)) in known:
        keys[key] = flow_key(after, number)
        number += 1
    return keys


def _clean_source(cleaner: NotebookRedactor, nb: Any, cell: Any, where: str) -> str:
    """Redact a cell's source. A prompt keeps `%%kin` and its option names; of a command only a name is redacted."""
    source: str = cell["source"]
    if conversation_command(nb, cell) is not None:
        name = session_name(cell)
        start = source.index(name, source.index(_SESSION) + len(_SESSION)) if name else 0
        return f"{source[:start]}{cleaner.text(name, where)}{source[start + len(name) :]}" if name else source
    prompt = _PROMPT.fullmatch(source) if cell["cell_type"] == "code" else None
    if prompt is None:
        return cleaner.text(source, where)
    options = _WORD.sub(
        lambda word: word[0] if word[0].startswith("-") else cleaner.text(word[0], where), prompt["options"]
    )
    return f"{prompt['magic']}{options}{prompt['end']}{cleaner.text(prompt['body'], where)}"


def without_results(recording: Recording) -> Recording:
    """Replace the results of tool calls by hashes: their outputs, their pictures, and the contents of files."""
    return replace(recording, records=tuple(map(_without_results, recording.records)), saved_shas=None)


def _without_results(record: SessionRecord) -> SessionRecord:
    if isinstance(record, UndoRecord):
        return record.model_copy(update={"files": _without_patches(record.files)})
    return turn_without_results(record) if isinstance(record, TurnRecord) else record


def turn_without_results(turn: TurnRecord) -> TurnRecord:
    steps = (
        step.model_copy(update={"calls": tuple(_without_result(call) for call in step.calls)}) for step in turn.steps
    )
    return turn.model_copy(update={"steps": tuple(steps)})


def _without_result(call: RecordedCall) -> RecordedCall:
    gone: dict[str, Any] = {"images": (), "files": _without_patches(call.files)}
    if call.status in ("ok", "error") and call.output:  # else it says why there is no result
        gone |= {"output": "", "hint": "", "no_undo": "", "withheld": sha256(call.result)}
    return call.model_copy(update=gone)


def _without_patches(files: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(file.model_copy(update={"patch": None}) for file in files)


def _clean(cleaner: NotebookRedactor, model: type[R], record: R, where: str) -> R:
    before = json.loads(canonical_json(record.model_dump(exclude_defaults=True)))
    after = _by_step(cleaner, before, where) if model is TurnRecord else cleaner.value(before, where)
    return record if after == before else model.model_validate(after)


def _by_step(cleaner: NotebookRedactor, turn: dict[str, Any], where: str) -> dict[str, Any]:
    rest = cleaner.value({key: item for key, item in turn.items() if key != "steps"}, where)
    steps = [cleaner.value(step, f"{where}, step {n}") for n, step in enumerate(turn.get("steps", []), 1)]
    return {**rest, "steps": steps} if steps else rest


def _plural(what: str, count: int) -> str:
    first, _, rest = what.partition(" ")
    return what if count == 1 else f"{first}{'es' if first.endswith('h') else 's'} {rest}".rstrip()
