"""What is recorded comes after all that the notebook holds: the answer that a cell gave last is the one that it shows."""

from __future__ import annotations

from tests.notebook.in_process_page import shown


def test_with_record_mode_all_the_new_answer_counts(page, model_server):
    page.answered("%%kin\nHello.", "Hi.")
    page.answered("%%kin\nThe last.", "The end.")
    page.save()
    page.command("%kin save")
    page.open(page.file.with_name("talk.kin.ipynb"))
    last = page.cells[-1]
    model_server.enqueue("Another end.")
    assert page.run(last, KIN_RECORD="all") == ""
    assert page.restart_and_run_all() == [""] * 3
    assert shown(last)[0] == "Another end."
