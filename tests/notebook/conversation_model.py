"""What a prompt must carry, told from the JSON of the records on a page alone: nothing of kin_nb is used here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CLEARED = "A new conversation begins"
Message = tuple[str, str]
Raw = dict[str, Any]


class Finding(AssertionError):  # noqa: N818  (what a fuzzer finds)
    """A page did what it must not do. `kind`: the same for histories that show the same fault."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(f"{kind}: {what}")
        self.kind = kind


def session_of(cell: Raw) -> str:
    found = re.search(r"--session (\w+)", cell["source"].partition("\n")[0])
    return found[1] if found else ""


def shown(cell: Raw) -> list[Any]:
    """What a cell shows of records: no notices, nothing printed, no errors. A clear of nothing is no record."""
    found, is_saved = [], bool(cell["metadata"].get("kin", {}).get("records"))
    for output in cell["outputs"]:
        kind = output.get("metadata", {}).get("kin", {}).get("kind")
        text = output.get("data", {}).get("text/plain", "")
        cleared = text.startswith(CLEARED) and (is_saved or "kin_recording" in output["metadata"])
        if kind is not None and (kind not in {"notice", "progress"} or cleared):
            found.append(output["data"])
    return found


def records_in_outputs(outputs: Sequence[Raw]) -> list[Raw]:
    return [o["metadata"]["kin_recording"]["record"] for o in outputs if "kin_recording" in o.get("metadata", {})]


def last_turn(cell: Raw) -> Raw | None:
    """The turn that the outputs of a cell carry."""
    turns = [raw for raw in records_in_outputs(cell["outputs"]) if raw["type"] == "turn"]
    return turns[-1] if turns else None


@dataclass
class Known:
    """A cell's records, as a kernel knows them."""

    cell_id: str | None
    session: str
    records: list[Raw]


@dataclass
class Talk:
    """The conversations that one kernel has, as the page says: `cells` as of the file when it was read, and what was made."""

    cells: list[Known] = field(default_factory=list)
    records: dict[str, Raw] = field(default_factory=dict)
    heads: dict[str, Raw] = field(default_factory=dict)
    """By session: the record that it made last; of those that are live."""
    undone: dict[str, list[list[str]]] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    prompts: int = 0

    def read(self, nb: Raw) -> None:
        """`nb` as the kernel reads it; what was known already stays."""
        before, self.cells, self.heads = self.cells, [], {}
        kept: dict[str, list[Raw]] = {}
        for output in (output for cell in nb["cells"] for output in cell.get("outputs", [])):
            for each in output.get("metadata", {}).get("kin_kept", []):
                kept.setdefault(each["cell"], []).append(each["carried"]["record"])
        for cell in nb["cells"]:
            found = cell["metadata"].get("kin", {}).get("records", []) + records_in_outputs(cell.get("outputs", []))
            self._add(cell.get("id"), session_of(cell), found + kept.get(cell.get("id"), []))
        read = {raw["id"] for each in self.cells for raw in each.records}
        for each in before:
            self._add(each.cell_id, each.session, [raw for raw in each.records if raw["id"] not in read])

    def _add(self, cell_id: str | None, session: str, found: Sequence[Raw]) -> None:
        home = next((each for each in self.cells if cell_id and each.cell_id == cell_id), None)
        if home is None:
            self.cells.append(home := Known(cell_id, session, []))
        for raw in found:
            self.records[raw["id"]] = raw
            if all(raw["id"] != each["id"] for each in home.records):
                home.records.append(raw)

    def cell(self, cell_id: str) -> Known | None:
        return next((each for each in self.cells if each.cell_id == cell_id), None)

    def head(self, session: str) -> Raw | None:
        """Highest seq; of equals, the upper cell."""
        if session in self.heads:
            return self.heads[session]
        own = [raw for cell in self.cells if cell.session == session for raw in cell.records]
        return max(own, key=lambda raw: raw["seq"], default=None)

    def line(self, head: Raw | None) -> list[tuple[Raw, int]]:
        """(turn, the step before which it is cut) from the oldest on."""
        if head is None or head["type"] == "clear":
            return []
        ref = head.get("head") if head["type"] in {"undo", "redo"} else {"id": head["id"]}
        nearest, found = head.get("ancestors", []), []
        while ref is not None:
            raw = self.records.get(ref["id"])
            if raw is None or raw["type"] != "turn":
                here = [name for name in nearest if self.records.get(name, {}).get("type") == "turn"]
                ref = {"id": here[0]} if here else None
                continue
            found.append((raw, ref.get("step", -1)))
            ref, nearest = raw.get("parent"), raw.get("ancestors", [])
        return found[::-1]

    def ran(self, cell: Raw, requests: Sequence[Raw]) -> None:
        """`cell` ran, `requests` were sent. Raises Finding for one that carries another conversation than the page's."""
        session = session_of(cell)
        made = [raw for raw in records_in_outputs(cell["outputs"]) if raw["id"] not in self.records]
        if requests and not (made and made[-1]["type"] == "turn"):
            raise Finding("request without a record", cell["source"])
        self.made |= {raw["id"] for raw in made}
        for raw in made:
            self.records[raw["id"]] = raw  # by now; its place comes below
        for raw in made:
            before = self.head(session)
            if raw["type"] == "turn":
                self._turn(cell, raw, before, requests)
                self.undone[session] = []
            else:
                self._moved(session, raw, before)
            self.heads[session] = raw
            self._add(cell["id"], session, [raw])

    def _turn(self, cell: Raw, turn: Raw, before: Raw | None, requests: Sequence[Raw]) -> None:
        prompt = cell["source"].partition("\n")[2]
        fresh = "--new" in cell["source"].partition("\n")[0]
        expected = [] if fresh else list(_said(self.line(before)))
        expected.append(("user", prompt))
        for number, request in enumerate(requests):
            if number:
                expected.append(("assistant", turn["steps"][number - 1].get("content", "")))
            sent = [(m["role"], m["content"] or "") for m in request["messages"] if m["role"] in {"user", "assistant"}]
            self.prompts += 1
            if sent != expected:
                raise Finding("another conversation", f"{cell['source']!r} sent\n{sent}\ninstead of\n{expected}")

    def _moved(self, session: str, raw: Raw, before: Raw | None) -> None:
        was, now = ([turn["id"] for turn, _ in self.line(at)] for at in (before, raw))
        undone = self.undone.setdefault(session, [])
        count = len(raw.get("turns", ()))
        match raw["type"]:
            case "undo" if len(was) >= count:
                undone.append(was)
                if now != was[:-count]:
                    raise Finding("undo", f"{raw}: {was} -> {now}")
            case "redo" if undone:
                if (back := undone.pop()) != now:
                    raise Finding("redo", f"{raw}: {back} was undone, {now} is given back")
            case "clear":
                undone.clear()
            case _:
                undone.clear()


def _said(line: Sequence[tuple[Raw, int]]) -> Iterator[Message]:
    for turn, cut in line:
        yield "user", turn["prompt"]
        steps = turn.get("steps", [])
        for step in steps if cut == -1 else steps[: cut - 1]:
            yield "assistant", step.get("content", "")


def copy_of(page: Any) -> Any:
    """As it is after it was written and read."""
    return json.loads(json.dumps(page))


def read_page(path: Path) -> Raw:
    """A notebook's file, texts as one string each, whoever wrote it."""
    nb = json.loads(path.read_text())
    for cell in nb["cells"]:
        cell["source"] = "".join(cell["source"])
        for output in cell.setdefault("outputs", []):
            if "text" in output:
                output["text"] = "".join(output["text"])
            data = output.get("data", {})
            data.update({kind: "".join(text) for kind, text in data.items()})
    return nb
