"""Changing a call before it is approved: its text, parts of an edit, two columns; on real kernels."""

from __future__ import annotations

import pytest
from notebook_client import LiveKernel, shown

from tests.model_server import tool_call

pytestmark = [pytest.mark.kernel, pytest.mark.one_kernel]  # test_approval.py clicks in every version

ASK = "%%kin\nDo it."
EDIT = {"path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}
LINES = [f"line {n}\n" for n in range(1, 31)]
NEW = "".join(["first\n", *LINES[1:14], "middle\n", *LINES[15:29], "last\n"])
OVERWRITE = tool_call("write_file", path="long.txt", content=NEW, overwrite=True)


@pytest.fixture
def asked(kin, model_server):
    """A cell whose agent makes that call, once its card is there."""

    def asked(call: dict) -> str:
        model_server.enqueue(calls=[call])
        model_server.enqueue("Done.")
        cell = kin.run(ASK)
        kin.card(cell)
        return cell

    return asked


@pytest.fixture
def long_file(tmp_path):
    file = tmp_path / "long.txt"
    file.write_text("".join(LINES))
    return file


def opened(nb: LiveKernel) -> dict[str, dict]:
    """Every widget as it was opened, with the states that came since, by its id."""
    states: dict[str, dict] = {}
    for message in nb.seen:
        if message["msg_type"] == "comm_open":
            states[message["content"]["comm_id"]] = dict(message["content"]["data"]["state"])
        elif message["msg_type"] == "comm_msg" and message["content"]["comm_id"] in states:
            states[message["content"]["comm_id"]] |= message["content"]["data"].get("state", {})
    return states


def type_into(nb: LiveKernel, text: str, **state: str) -> None:
    """What a field with this state sends when it is left."""
    nb.comm_msg(nb.widget(**state), {"method": "update", "state": {"value": text}, "buffer_paths": []})


def untick(nb: LiveKernel, label: str) -> None:
    nb.comm_msg(nb.widget(description=label), {"method": "update", "state": {"value": False}, "buffer_paths": []})


def in_tab_order(nb: LiveKernel) -> list[str]:
    """The labels of the newest card's controls, as they follow each other in the page, with those out of sight."""
    states = opened(nb)
    boxes = [state for state in states.values() if state["_model_name"] == "VBoxModel"]
    children = {child for state in states.values() for child in state.get("children", [])}
    root = next(
        identity for identity, s in reversed(states.items()) if s in boxes and f"IPY_MODEL_{identity}" not in children
    )

    def labels(identity: str) -> list[str]:
        state = states[identity.removeprefix("IPY_MODEL_")]
        inside = [label for child in state.get("children", []) for label in labels(child)]
        return [*([state["description"]] if state.get("description") else []), *inside]

    return labels(root)


def is_shown(nb: LiveKernel, comm_id: str) -> bool:
    """Whether the box that holds the widget is in sight, after what was clicked."""
    states = opened(nb)
    box = next(s for s in states.values() if f"IPY_MODEL_{comm_id}" in s.get("children", []))
    return states[box["layout"].removeprefix("IPY_MODEL_")]["display"] != "none"


def clicked(nb: LiveKernel, label: str) -> None:
    """A click whose effect the front end has seen: the button says another thing than before."""
    button = nb.widget(description=label)
    before = opened(nb)[button]["description"]
    nb.comm_msg(button, {"method": "custom", "content": {"event": "click"}})
    nb.until(lambda _: opened(nb)[button]["description"] != before)


def told(model_server) -> str:
    return model_server.requests[-1]["messages"][-1]["content"]


def test_a_command_is_edited_before_it_is_approved(kin, model_server, asked, tmp_path):
    cell = asked(tool_call("bash", command="touch asked"))
    clicked(kin, "Edit")
    type_into(kin, "touch mine", description="Command")
    kin.click("Approve")
    assert kin.done(cell)["content"]["status"] == "ok"
    assert (tmp_path / "mine").exists()
    assert not (tmp_path / "asked").exists()
    assert told(model_server) == ("[The user edited this call before it ran. It ran as: touch mine]\n[no output]")
    assert "edited by you before it ran" in shown(kin, cell)


def test_what_was_edited_is_approved_once_whatever_the_button_says(kin, model_server, asked, tmp_path):
    model_server.enqueue(calls=[tool_call("bash", command="touch asked")])
    model_server.enqueue(calls=[tool_call("bash", command="touch again")])
    model_server.enqueue("Done.")
    cell = kin.run(ASK)
    kin.card(cell, "touch asked")
    clicked(kin, "Edit")
    type_into(kin, "touch mine", description="Command")
    kin.click("Approve for this session: commands that start with `touch`")
    kin.card(cell, "touch again")
    kin.click("Reject")
    kin.done(cell)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == "" and path.is_file()] == ["mine"]


def test_an_edit_of_a_file_is_edited_in_full(kin, model_server, asked, tmp_path):
    cell = asked(tool_call("edit_file", **EDIT))
    field = kin.widget(_model_name="TextareaModel")
    assert opened(kin)[field]["value"] == "x = 2"
    assert opened(kin)[field]["description"] == "New string"
    assert not is_shown(kin, field)
    clicked(kin, "Edit")
    assert is_shown(kin, field)
    type_into(kin, "x = 3", description="New string")
    kin.click("Approve")
    kin.done(cell)
    assert (tmp_path / "a.py").read_text() == "x = 3\n"
    assert "-x = 2\n+x = 3" in told(model_server)


def test_opening_the_field_puts_the_cursor_into_it(kin, asked):
    cell = asked(tool_call("edit_file", **EDIT))
    field = kin.widget(_model_name="TextareaModel")
    kin.click("Edit")
    focus = {"method": "custom", "content": {"do": "focus"}}
    kin.until(lambda m: m["content"].get("comm_id") == field and m["content"].get("data") == focus)
    kin.click("Reject")
    kin.done(cell)


def test_what_was_typed_does_not_count_once_the_field_is_put_away(kin, model_server, asked, tmp_path):
    cell = asked(tool_call("edit_file", **EDIT))
    clicked(kin, "Edit")
    type_into(kin, "x = 3", description="New string")
    clicked(kin, "Edit")
    kin.click("Approve")
    kin.done(cell)
    assert (tmp_path / "a.py").read_text() == "x = 2\n"
    assert "edited" not in told(model_server).casefold().replace("edited a.py", "")


def test_a_field_that_was_left_as_it_was_is_no_edit_and_line_endings_stay(kin, asked, tmp_path):
    cell = asked(tool_call("write_file", path="b.txt", content="a\r\nb\r\n"))
    clicked(kin, "Edit")
    type_into(kin, "a\nb\n", description="Content")
    kin.click("Approve")
    kin.done(cell)
    assert (tmp_path / "b.txt").read_bytes() == b"a\r\nb\r\n"
    assert "edited by you" not in shown(kin, cell)


def test_edited_text_has_the_line_endings_that_it_had(kin, asked, tmp_path):
    cell = asked(tool_call("write_file", path="b.txt", content="a\r\nb\r\n"))
    clicked(kin, "Edit")
    type_into(kin, "a\nc\n", description="Content")
    kin.click("Approve")
    kin.done(cell)
    assert (tmp_path / "b.txt").read_bytes() == b"a\r\nc\r\n"


def test_rejecting_sends_no_edit(kin, model_server, asked, tmp_path):
    cell = asked(tool_call("bash", command="touch asked"))
    clicked(kin, "Edit")
    type_into(kin, "touch mine", description="Command")
    kin.type_note("neither")
    kin.click("Reject")
    kin.done(cell)
    assert told(model_server) == "The user refused this call, with the note: neither"
    assert not {"mine", "asked"} & {path.name for path in tmp_path.iterdir()}


def test_only_the_ticked_parts_of_an_edit_go_in(kin, model_server, long_file, asked):
    cell = asked(OVERWRITE)
    untick(kin, "Part 2 of 3")
    kin.click("Approve")
    kin.done(cell)
    assert long_file.read_text() == NEW.replace("middle", "line 15")
    assert "\n-middle\n+line 15\n" in told(model_server)
    assert "edited by you before it ran" in shown(kin, cell)


def test_each_part_shows_its_lines_and_the_whole_is_a_click_away(kin, long_file, asked):
    cell = asked(OVERWRITE)
    html = [state["value"] for state in opened(kin).values() if state["_model_name"] == "HTMLModel"]
    assert [text.count("@@ -") for text in html if "<summary>" not in text and "<pre" in text] == [1, 1, 1]
    (whole,) = [text for text in html if "Allow this?" in text]
    assert "<details><summary>The whole change" in whole
    assert whole.count("@@ -") == 3
    kin.click("Reject")
    kin.done(cell)


def test_no_part_ticked_is_a_refusal_that_the_agent_hears_of(kin, model_server, long_file, asked):
    cell = asked(OVERWRITE)
    for number in (1, 2, 3):
        untick(kin, f"Part {number} of 3")
    kin.click("Approve")
    kin.done(cell)
    assert told(model_server) == "The user refused this call, with the note: no part of it"
    assert long_file.read_text() == "".join(LINES)


def test_what_is_unticked_stays_out_while_the_field_is_open(kin, long_file, asked):
    cell = asked(OVERWRITE)
    untick(kin, "Part 2 of 3")
    box = kin.widget(description="Part 2 of 3")
    clicked(kin, "Edit")
    kin.until(lambda _: not is_shown(kin, box))
    kin.click("Approve")
    kin.done(cell)
    assert long_file.read_text() == NEW.replace("middle", "line 15")


def test_before_and_after_stand_side_by_side_on_demand(kin, long_file, asked):
    cell = asked(OVERWRITE)
    assert "<table" not in str(opened(kin))
    clicked(kin, "Side by side")
    (table,) = [i for i, state in opened(kin).items() if "<table" in str(state.get("value"))]
    assert is_shown(kin, table)
    assert 'scope="col"' in opened(kin)[table]["value"]
    clicked(kin, "Side by side")
    assert not is_shown(kin, table)
    kin.click("Reject")
    kin.done(cell)


def test_tab_goes_through_everything_in_the_order_of_reading(kin, long_file, asked):
    cell = asked(OVERWRITE)
    assert in_tab_order(kin) == [
        "Note to the agent",
        "Edit",
        "Side by side",
        "Content",
        *("Part 1 of 3", "Part 2 of 3", "Part 3 of 3"),
        "Approve",
        "Approve for this session: edits of long.txt",
        "Approve for this session: edits of files in the workspace",
        "Always: edits of long.txt",
        "Reject",
    ]
    kin.click("Reject")
    kin.done(cell)


def test_a_settled_card_has_closed_its_fields_too(kin, long_file, asked):
    cell = asked(OVERWRITE)
    own = {i for i, s in opened(kin).items() if s["_model_name"] in ("TextareaModel", "CheckboxModel", "ButtonModel")}
    kin.click("Reject")
    kin.done(cell)
    assert own <= {m["content"]["comm_id"] for m in kin.seen if m["msg_type"] == "comm_close"}


HIDDEN = "echo a\u202eb\u200b" + " " * 300 + "; touch made\necho second"


def test_a_command_is_shown_whole_and_literally_and_its_field_says_that_it_is_raw(kin, asked):
    cell = asked(tool_call("bash", command=HIDDEN))
    states = opened(kin)
    html = "".join(s["value"] for s in states.values() if s["_model_name"] == "HTMLModel")
    assert "echo a⟨U+202E⟩b⟨U+200B⟩" + " " * 300 + "; touch made\necho second" in html
    assert "cannot be seen" in html
    assert "\u202e" not in html
    assert states[kin.widget(_model_name="TextareaModel")]["value"] == HIDDEN
    kin.click("Reject")
    kin.done(cell)


def test_an_ordinary_field_says_nothing_of_hidden_characters(kin, asked):
    cell = asked(tool_call("bash", command="touch a\techo"))
    assert "cannot be seen" not in str(opened(kin))
    kin.click("Reject")
    kin.done(cell)


@pytest.fixture
def prompted(kin, model_server):
    """As `asked`, from a client that answers by input()."""

    def prompted(call: dict) -> tuple[str, str]:
        model_server.enqueue(calls=[call])
        model_server.enqueue("Done.")
        cell = kin.run(ASK, cell=None)
        return cell, kin.prompt()

    return prompted


def test_a_line_is_edited_by_input(kin, model_server, prompted, tmp_path):
    cell, prompt = prompted(tool_call("bash", command="touch asked"))
    assert "\ny = allow\ne = edit it, then allow\ns = " in prompt
    kin.answer("e")
    assert kin.prompt() == "edit: "
    kin.answer("touch mine")
    kin.done(cell)
    assert (tmp_path / "mine").exists()
    assert "It ran as: touch mine]" in told(model_server)


def test_an_empty_line_edits_nothing_and_is_asked_again(kin, model_server, prompted, tmp_path):
    cell, _ = prompted(tool_call("bash", command="touch asked"))
    kin.answer("e")
    kin.prompt()
    kin.answer("")
    assert kin.prompt().startswith("Nothing was changed. y = allow it unchanged\nn = refuse")
    kin.answer("y")
    kin.done(cell)
    assert (tmp_path / "asked").exists()
    assert "[The person" not in told(model_server)


@pytest.mark.parametrize("call", [tool_call("bash", command="touch a\ntouch b"), tool_call("edit_file", **EDIT)])
def test_by_input_more_than_a_line_is_not_edited_and_it_says_where_it_can_be(kin, model_server, prompted, call):
    cell, prompt = prompted(call)
    assert "edit it" not in prompt
    kin.answer("e")
    assert kin.prompt().startswith("Only one line can be edited here")
    kin.answer("no, thanks")
    kin.done(cell)
    assert told(model_server) == "The user refused this call, with the note: no, thanks"


def test_who_only_ever_answers_e_is_not_asked_forever(kin, model_server, prompted, tmp_path):
    cell, _ = prompted(tool_call("bash", command="touch a\ntouch b"))
    for _ in range(2):
        kin.answer("e")
        kin.prompt()
    kin.answer("e")
    kin.done(cell)
    assert not (tmp_path / "a").exists()
    assert told(model_server) == "The user refused this call, with the note: no answer"
