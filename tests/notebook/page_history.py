"""One notebook that several people hand on, each with a kernel and without the others' logs: what a fuzzer plays."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from kin_nb.notebook.options import KinError
from kin_nb.replay.errors import ReplayError
from tests.model_server import ModelServer, tool_call
from tests.notebook.conversation_model import Finding, Raw, Talk, copy_of, last_turn, read_page, session_of, shown
from tests.notebook.in_process import Kernel

Action = tuple[str, int, int]
"""Its name, and two numbers that choose among what there is then: an action can be left out, and the others stay as they are."""

ACTIONS = {
    "ask": 10,
    "ask_same": 2,
    "ask_fresh": 2,
    "ask_named": 3,
    "ask_tool": 2,
    "fail": 2,
    "again": 4,
    "retry": 4,
    "live": 3,
    "go_live": 2,
    "undo": 4,
    "redo": 2,
    "clear": 2,
    "delete": 3,
    "move": 3,
    "copy": 2,
    "paste": 3,
    "restart": 1,
    "run_all": 2,
    "run_all_stops": 2,
    "own_cell_fails": 2,
    "save": 2,
    "kin_save": 2,
    "mail": 5,
}


def random_history(seed: int) -> list[Action]:
    rng = random.Random(seed)
    names = rng.choices(list(ACTIONS), ACTIONS.values(), k=rng.randint(5, 22))
    return [(name, rng.randrange(1000), rng.randrange(1000)) for name in ["ask", *names, "kin_save", "mail"]]


class PageHistory:
    """`people`: how many. `cells`: the page, as the front end of the person who has it shows it."""

    def __init__(self, folder: Path, server: ModelServer, people: int) -> None:
        self.server = server
        self.homes = [folder / f"person-{n}" for n in range(people)]
        self.guest = folder / "guest"
        for home in (*self.homes, self.guest):
            (home / "kin").mkdir(parents=True)
            (home / "work").mkdir()
        for home in self.homes:
            (home / "kin" / "config.toml").write_text(server.config_toml())
        self.owner, self.name = 0, "talk.ipynb"
        self.metadata: Raw = {}
        self.cells: list[Raw] = []
        self.lost: dict[str, list[Any]] = {}
        """By cell: what it showed before a Run All that stopped above it."""
        self.count = 0
        self.compared = self.prompts = 0
        self.always: set[str] = set()
        self.save()
        self.open(copy_of(self.nb))

    @property
    def file(self) -> Path:
        return self.homes[self.owner] / "work" / self.name

    @property
    def nb(self) -> Raw:
        return {"cells": self.cells, "metadata": self.metadata, "nbformat": 4, "nbformat_minor": 5}

    def play(self, history: Sequence[Action]) -> None:
        """Raises Finding."""
        try:
            for name, x, y in history:
                getattr(self, name)(x, y)
        finally:
            self.close()

    def close(self) -> None:
        self.prompts += self.talk.prompts
        self.talk.prompts = 0
        self.kernel.close()

    def open(self, nb: Raw) -> None:
        """The file of the person who has it now, with a new kernel."""
        self.cells, self.metadata = nb["cells"], nb["metadata"]
        self.start()

    def start(self) -> None:
        self.kernel, self.talk, self.is_read = Kernel(self.file.parents[1], self.file), Talk(), False
        self.always = set()

    # Running cells.

    def run(self, cell: Raw, *, agrees: bool = False, allowed: bool = True) -> BaseException | None:
        """`agrees`: the person answers "Ask the model". `allowed`: whether a model may be asked at all."""
        if not self.is_read or "%kin replay" in cell["source"]:
            self.talk.read(read_page(self.file))
            self.is_read = True
        before = len(self.server.requests)
        environ = {"KIN_RECORD": "new"} if agrees else {}
        cell["execution_count"] = self.kernel.shell.execution_count
        outputs, error = self.kernel.run(cell["source"], cell["id"], **environ)
        cell["outputs"] = outputs
        self.server._queue.clear()
        if error is not None and not isinstance(error, KinError | ReplayError | ZeroDivisionError):
            raise Finding(f"raises {type(error).__name__}", f"{cell['source']!r}: {error}") from error
        requests = self.server.requests[before:]
        if requests and not allowed:
            raise Finding("asks unasked", f"{cell['source']!r} sent {requests[0]['messages'][1:]}")
        self.talk.ran(cell, requests)
        return error

    def _answer(self) -> None:
        self.server._queue.clear()
        self.count += 1
        self.server.enqueue(f"Answer {self.count}.", chunk=1000)

    def _new(self, source: str, y: int = 0) -> Raw:
        """A cell at the end of the page, or (a fifth) anywhere."""
        self.count += 1
        cell = {"cell_type": "code", "id": f"cell-{self.count}", "metadata": {}, "source": source}
        cell |= {"outputs": [], "execution_count": None}
        first = 1 if self.cells and "%kin replay" in self.cells[0]["source"] else 0
        where = first + y % (len(self.cells) - first + 1) if y % 5 == 0 else len(self.cells)
        self.cells.insert(where, cell)
        return cell

    def _asked(self, cell: Raw, *, fails: bool = False) -> None:
        before = len(self.server.requests)
        error = self.run(cell, agrees=True)
        if len(self.server.requests) == before or (error is not None and not fails):
            raise Finding("cannot be asked", f"{cell['source']!r}: {error}")

    def ask(self, x: int, y: int) -> None:
        self._answer()
        self._asked(self._new(f"%%kin\nPrompt {self.count}.", y))

    def ask_same(self, x: int, y: int) -> None:
        """The text of another cell."""
        texts = [cell["source"] for cell in self.cells if cell["source"].startswith("%%kin\n")]
        if texts:
            self._answer()
            self.run(self._new(texts[x % len(texts)], y), agrees=True)

    def ask_fresh(self, x: int, y: int) -> None:
        self._answer()
        self._asked(self._new(f"%%kin --new\nPrompt {self.count}.", y))

    def ask_named(self, x: int, y: int) -> None:
        self._answer()
        self._asked(self._new(f"%%kin --session {('side', 'other')[x % 3 == 0]}\nPrompt {self.count}.", y))

    def ask_tool(self, x: int, y: int) -> None:
        self._answer()
        self.server._queue.clear()
        call = tool_call("write_file", path=f"{'abc'[x % 3]}-{self.count}.txt", content=f"{self.count}\n")
        self.server.enqueue("I write.", calls=[call], chunk=1000)
        self.server.enqueue(f"Answer {self.count}.", chunk=1000)
        self._asked(self._new(f"%%kin --mode auto-approve\nPrompt {self.count}.", y))

    def fail(self, x: int, y: int) -> None:
        cell = self._new(f"%%kin\nPrompt {self.count}.", y)
        self.server.enqueue(status=400)
        self._asked(cell, fails=True)

    def _answered(self) -> list[Raw]:
        return [cell for cell in self.cells if shown(cell)]

    def again(self, x: int, y: int) -> None:
        """An answered cell runs again: it shows the same, unless that is asked again by what it says."""
        if found := self._answered():
            cell = found[x % len(found)]
            before, turn = shown(cell), last_turn(cell)
            known = self._shows_again(cell, turn)
            if known is None:
                self._answer()
            self.run(cell, allowed=known is None)
            if known is not None and shown(cell) != before:
                raise Finding("run again", f"{cell['source']!r} showed {before}, and now {cell['outputs']}")
            self.compared += known is not None

    def _shows_again(self, cell: Raw, turn: Raw | None) -> Raw | None:
        """`turn`, if the cell must show it again."""
        line, session = cell["source"].partition("\n")[0], session_of(cell)
        if turn is None or not line.startswith("%%kin") or turn["outcome"] != "done" or session in self.always:
            return None
        if not self.is_read:
            return turn if cell["id"] in self._saved_ids(turn["id"]) else None
        known = self.talk.cell(cell["id"])
        if known is None or all(raw["id"] != turn["id"] for raw in known.records):
            return None
        again = any(option in line for option in ("--retry", "--live", "--new"))
        return None if again and turn["id"] in self.talk.made else turn

    def _saved_ids(self, record: str) -> set[str]:
        cells = read_page(self.file)["cells"]
        return {cell["id"] for cell in cells if (turn := last_turn(cell)) and turn["id"] == record}

    def _with_option(self, option: str, x: int) -> None:
        prompts = [cell for cell in self._answered() if cell["source"].startswith("%%kin")]
        if prompts:
            cell = prompts[x % len(prompts)]
            for other in ("--retry ", "--live ", "--new "):
                cell["source"] = cell["source"].replace(other, "")
            line, _, text = cell["source"].partition("\n")
            rest = " ".join(word for word in line.split()[1:] if word not in {"--retry", "--live", "--new"})
            cell["source"] = f"%%kin {option} {rest}".rstrip() + "\n" + text
            self._answer()
            self.run(cell)

    def retry(self, x: int, y: int) -> None:
        self._with_option("--retry", x)

    def live(self, x: int, y: int) -> None:
        self._with_option("--live", x)

    def _command(self, line: str) -> None:
        """In a cell that is not on the page."""
        cell = {"source": line, "id": "aside", "outputs": []}
        error = self.run(cell, allowed=False)
        if line.endswith("live") and error is None:
            self.always.add(session_of(cell))

    def go_live(self, x: int, y: int) -> None:
        self._command("%kin --session side live" if x % 4 == 0 else "%kin live")

    def _move(self, command: str, x: int, y: int) -> None:
        """Where it plays, the person goes live first (mostly)."""
        named = "--session side " if x % 4 == 0 else ""
        if y % 3:
            self._command(f"%kin {named}live")
        self.run(self._new(f"%kin {named}{command}", y), allowed=False)

    def undo(self, x: int, y: int) -> None:
        self._move(f"undo {1 + x % 3}", x, y)

    def redo(self, x: int, y: int) -> None:
        self._move("redo", x, y)

    def clear(self, x: int, y: int) -> None:
        self._move("clear", x, y)

    # Editing the page.

    def _own(self) -> list[Raw]:
        return [cell for cell in self.cells if "%kin replay" not in cell["source"]]

    def delete(self, x: int, y: int) -> None:
        if len(found := self._own()) > 1:
            self.cells.remove(found[x % len(found)])

    def move(self, x: int, y: int) -> None:
        if len(found := self._own()) > 1:
            cell = found[x % len(found)]
            self.cells.remove(cell)
            first = len(self.cells) - len(self._own())
            self.cells.insert(first + y % len(found), cell)

    def copy(self, x: int, y: int) -> None:
        if found := self._answered():
            self._insert(found[x % len(found)], y, renamed=True)

    def paste(self, x: int, y: int) -> None:
        """From the page as another person has it."""
        other = self.homes[(self.owner + 1 + x % (len(self.homes) - 1)) % len(self.homes)] / "work"
        for path in sorted(other.glob("*.ipynb")):
            if found := [cell for cell in read_page(path)["cells"] if shown(cell)]:
                cell = found[x % len(found)]
                if "%kin replay" not in cell["source"]:
                    self._insert(cell, y, renamed=any(each["id"] == cell["id"] for each in self.cells))
                return

    def _insert(self, cell: Raw, y: int, *, renamed: bool) -> None:
        made = deepcopy(cell)
        if renamed:
            self.count += 1
            made["id"] = f"copy-{self.count}"
        first = len(self.cells) - len(self._own())
        self.cells.insert(first + y % (len(self._own()) + 1), made)

    # The kernel and the file.

    def restart(self, x: int, y: int) -> None:
        self.save()
        self.close()
        self.start()

    def save(self, x: int = 0, y: int = 0) -> None:
        """Ctrl-S."""
        self.file.write_text(json.dumps(self.nb))

    def run_all(self, x: int, y: int) -> None:
        """Without a restart: it stops at the first error."""
        for cell in list(self.cells):
            self._answer()
            if self.run(cell) is not None:
                break

    def own_cell_fails(self, x: int, y: int) -> None:
        """An ordinary cell, anywhere on the page, stops Run All; it is repaired afterwards, and runs well."""
        first = len(self.cells) - len(self._own())
        self.count += 1
        cell = {"cell_type": "code", "id": f"own-{self.count}", "metadata": {}, "source": "1 / 0", "outputs": []}
        self.cells.insert(first + y % (len(self._own()) + 1), cell)
        self.run_all_stops(x, y, repaired=cell)

    def run_all_stops(self, x: int, y: int, repaired: Raw | None = None) -> None:
        """After a restart: all outputs go, and those below the first error are gone for good; then Ctrl-S."""
        self.restart(x, y)
        before = {cell["id"]: self.lost.get(cell["id"]) or shown(cell) for cell in self.cells}
        for cell in self.cells:
            cell["outputs"] = []
        for cell in self.cells:
            error = self.run(cell, allowed=False)
            self._check_same("played", cell, before[cell["id"]], error)
            if error is not None:
                break
        self.lost = {cell["id"]: before[cell["id"]] for cell in self.cells if not cell["outputs"]}
        if self.lost or repaired is not None:
            if repaired is not None:
                repaired["source"] = "value = 1"
            self.save()
            self.close()
            self.start()
            self.played(self.cells)

    def mail(self, x: int, y: int) -> None:
        """Ctrl-S, and the next person runs all of it."""
        self.save()
        self.close()
        sent = self.file
        self.owner = (self.owner + 1 + x % (len(self.homes) - 1)) % len(self.homes)
        if sent != self.file:
            shutil.copyfile(sent, self.file)
        self.open(read_page(self.file))
        self.played(self.cells)
        if y % 2:  # the page is opened anew: nothing of that was saved
            self.close()
            self.open(read_page(self.file))

    def played(self, cells: Sequence[Raw]) -> None:
        """Run All in a new kernel, past errors: no request, and each answer as it was."""
        before = {cell["id"]: self.lost.get(cell["id"]) or shown(cell) for cell in cells}
        self.lost = {}
        for cell in cells:
            cell["outputs"] = []
        for cell in cells:
            error = self.run(cell, allowed=False)
            self._check_same("played", cell, before[cell["id"]], error)

    def _check_same(self, how: str, cell: Raw, before: list[Any], error: BaseException | None) -> None:
        if before and shown(cell) != before:
            texts = [data["text/plain"] for data in before], [data["text/plain"] for data in shown(cell)]
            raise Finding(
                f"{how} otherwise", f"{cell['id']} {cell['source']!r}: {texts[0]} before, now {texts[1]} {error}"
            )
        self.compared += bool(before)

    def kin_save(self, x: int, y: int) -> None:
        """Ctrl-S and `%kin save`; a guest without a model plays what was written. A third continues with that file."""
        cell = self._new("%kin save")
        self.save()
        folder = self.file.parent
        stamps = {path: path.stat().st_mtime_ns for path in folder.glob("*.ipynb")}
        self.run(cell, allowed=False)
        self.cells.remove(cell)
        written = [path for path in folder.glob("*.ipynb") if stamps.get(path) != path.stat().st_mtime_ns]
        if not written:
            return
        nb = read_page(written[0])
        self._check_saved(nb, written[0].name)
        if x % 3 == 0:
            self.close()
            self.name = written[0].name
            self.open(nb)

    def _check_saved(self, nb: Raw, name: str) -> None:
        saved = {cell["id"]: cell for cell in nb["cells"]}
        for cell in self._answered():
            if cell["id"] not in saved:
                raise Finding("saved without", f"{cell['id']} {cell['source']!r}")
            self._check_same("saved", saved[cell["id"]], shown(cell), None)
        path = self.guest / "work" / name
        path.write_text(json.dumps(nb))
        kernel, played = Kernel(self.guest, path), copy_of(nb)
        try:
            for cell in played["cells"]:
                before, cell["outputs"] = shown(cell), []
                if cell["cell_type"] == "code":
                    cell["outputs"], error = kernel.run(cell["source"], cell["id"])
                    if error is not None and before:
                        raise Finding("a saved cell fails", f"{cell['id']} {cell['source']!r}: {error}")
                    self._check_same("save played", cell, before, error)
        finally:
            kernel.close()
            path.unlink()
