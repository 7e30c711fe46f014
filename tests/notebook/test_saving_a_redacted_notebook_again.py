"""A session notebook that was saved with something taken out, and saved again: from the log, and from the live notebook."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kin_nb.replay.commands.save import SaveCommand
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.saving.options import parse_save
from tests.model_server import tool_call
from tests.notebook.in_process_page import InProcessPage, shown


@pytest.fixture
def live(page: InProcessPage, monkeypatch) -> InProcessPage:
    """Two answers in a live notebook, of which the first names a customer; this process has its log."""
    monkeypatch.setenv("KIN_HOME", str(page.home / "kin"))
    page.answered("%%kin\nWho is the customer?", "It is ACME.")
    page.answered("%%kin\nThanks.", "You are welcome.")
    page.save()
    return page


def from_log(page: InProcessPage, target: Path, line: str = "") -> list[str]:
    (log,) = (page.home / "kin" / "sessions").glob("*/log.jsonl")
    return SaveCommand(log.parent.name, target, parse_save(line)[1]).run()


def test_healed_from_the_log_it_stays_redacted_or_nothing_is_written(live):
    live.command("%kin save --redact ACME")
    target = live.file.with_name("talk.kin.ipynb")
    assert "ACME" not in target.read_text()
    live.answered("%%kin\nAnd their address?", "ACME Street 1.")
    before = target.read_bytes()
    for line in ("", "--no-results", "--redact Thanks"):
        with pytest.raises(ReplayError, match=r"talk\.kin\.ipynb was saved with redactions \(cell 2, turn 1\)"):
            from_log(live, target, line)
        assert target.read_bytes() == before
    from_log(live, target, "--redact ACME")
    assert "ACME" not in target.read_text()
    live.open(target)
    assert set(live.run_all()) == {""}
    assert [shown(cell)[0] for cell in live.cells[1:]] == [
        "It is [redacted].",
        "You are welcome.",
        "[redacted] Street 1.",
    ]


def test_one_that_lost_a_record_gets_it_back_redacted(live):
    live.command("%kin save --redact ACME|Thanks")
    target = live.file.with_name("talk.kin.ipynb")
    live.open(target)
    del live.cells[2]["metadata"]["kin"]
    live.save()
    with pytest.raises(ReplayError, match="Save with --redact PATTERN again, or choose another name"):
        from_log(live, target)
    from_log(live, target, "--redact 'ACME|Thanks'")
    live.open(target)
    assert set(live.run_all()) == {""}
    assert [cell["source"] for cell in live.cells[1:]] == ["%%kin\nWho is the customer?", "%%kin\n[redacted]."]
    assert shown(live.cells[2])[0] == "You are welcome."


def test_saved_again_by_the_notebook_that_has_the_text_it_is_refused_too(live):
    live.command("%kin save --redact ACME")
    assert live.command("%kin save").startswith("Not saved: talk.kin.ipynb was saved with redactions (cell 2, turn 1)")
    assert live.command("%kin save --redact ACME").startswith("Saved ")
    assert live.command("%kin save other").startswith("Saved ")
    assert "ACME" in live.file.with_name("other.ipynb").read_text()


def test_without_results_it_stays_so(live):
    path = live.file.parent / "a.txt"
    path.write_text("The result.\n")
    live.server.enqueue("I look.", calls=[tool_call("read_file", path="a.txt")], chunk=1000)
    live.answered("%%kin\nRead it.", "Done.")
    live.save()
    live.command("%kin save --no-results")
    target = live.file.with_name("talk.kin.ipynb")
    from_log(live, target)  # nothing new comes in
    assert "The result." not in target.read_text()
    live.server.enqueue("Once more.", calls=[tool_call("read_file", path="a.txt")], chunk=1000)
    live.answered("%%kin\nAgain.", "Done again.")
    with pytest.raises(ReplayError, match=re.escape("was saved without results (cell 4, turn 3)")):
        from_log(live, target)
    from_log(live, target, "--no-results")
    assert "Done again." in target.read_text()
    assert "The result." not in target.read_text()
