"""Session notebooks through jupytext's text formats and back: what survives, and what is announced before it is lost."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.jupytext import exclude_from_text, pairing_warnings
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import as_node, load_notebook
from kin_nb.replay.saving.build import empty_notebook, session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.writing import write_notebook
from tests.table import each_row
from tests.unit.replay.sessions import recording, turn

FORMATS = ["md", "md:myst", "py:percent", "py:light", "Rmd"]
PROMPTS = [
    "Say hi.",
    "Look at @df and @error, please\n\n# and this\n\n\nthen it's done",
    "Change this:\n\n    def f():\n        pass\n!ls\n%time x\nwhat?",
    'Use "quotes", `ticks` and """docstrings""".\n- a\n---\n+++\n<!-- #region -->',
]
KIN = {"name": "kin", "display_name": "Kin", "language": "python"}
NASTY = [
    *[
        "Say hi.",
        "",
        "  indented",
        "it's",
        '"""',
        "'''",
        'it\'s """',
        '"""doc"""',
        '# """',
        '\\"""',
        "```python",
        "```",
    ],
    *["````", "~~~", " ```", "    ```", "# %% cell", "#%%", " # %%", "# In[1]:", "# +", "# -", "# %time x", "%time x"],
    *["!ls", "cat a", "<!-- #region -->", "<!-- #endregion -->", "---", "+++ {}", "a: b", "@df", "\\", "def f():"],
    *["a\u2028b", "# region x", ":tag: x", "?x", "x?", "#", "é ü", "<div>", "$$", "# <markdowncell>"],
]


def saved(path: Path, prompts: list[str], *, kernel: dict[str, str] | None = None, **options: Any) -> Path:
    """A session notebook of these prompts, with cells of the user's own between them."""
    nb = empty_notebook()
    if kernel is not None:
        nb["metadata"]["kernelspec"] = kernel
    magic = "" if kernel is KIN else "%%kin --mode plan\n"
    for number, prompt in enumerate(prompts, 1):
        nb["cells"].append(new_markdown_cell(f"## Part {number}\n\nText.", id=f"text-{number}"))
        nb["cells"].append(new_code_cell(f"{magic}{prompt}", id=f"ask-{number}"))
    if kernel is not KIN:
        nb["cells"].append(new_code_cell("x = 1\n\n\nprint(x)", id="own"))
    how = "" if kernel is KIN else "--mode plan"
    turns = [turn(number, prompt, cell_id=f"ask-{number}", options=how) for number, prompt in enumerate(prompts, 1)]
    made = session_notebook(recording(*turns), source_nb=nb, options=SaveOptions(**options))
    return write_notebook(made, path)


def jupytext(arguments: list[str]) -> None:
    from jupytext.cli import jupytext  # takes a fifth of a second

    jupytext(arguments)


def text_of(path: Path, fmt: str) -> Path:
    return path.with_suffix(f".{fmt.partition(':')[0]}")


def paired(path: Path, fmt: str) -> Any:
    """The notebook after it was paired, its text was saved by an editor, and the two were synchronised."""
    jupytext(["--quiet", "--set-formats", f"ipynb,{fmt}", str(path)])
    text = text_of(path, fmt)
    newer = path.stat().st_mtime + 60
    text.write_text(text.read_text().replace("Part 1", "Part one"))
    os.utime(text, (newer, newer))
    jupytext(["--quiet", "--sync", str(text)])
    nb = load_notebook(path)
    assert "Part one" in str(nb["cells"])
    return nb


def sources(nb: Any) -> list[tuple[str, str]]:
    return [(cell["cell_type"], cell["source"].strip()) for cell in nb["cells"]]


# the Kin kernel is warned of py:light, below
@each_row(("fmt", "kernel"), [*((fmt, None) for fmt in FORMATS), *((fmt, KIN) for fmt in FORMATS if fmt != "py:light")])
def test_a_paired_notebook_keeps_its_prompts_and_records(fmt, kernel, tmp_path):
    path = saved(tmp_path / "talk.ipynb", PROMPTS, kernel=kernel)
    before = load_notebook(path)
    nb = paired(path, fmt)
    assert sources(nb)[1:] == [(kind, text.replace("Part 1", "Part one")) for kind, text in sources(before)][1:]
    assert read_recording(nb) == read_recording(before)
    assert "fingerprint" not in text_of(path, fmt).read_text()
    assert pairing_warnings(nb) == []


@each_row("fmt", FORMATS)
def test_made_from_a_text_file_again_with_update_it_keeps_its_prompts_and_records(fmt, tmp_path):
    path = saved(tmp_path / "talk.ipynb", PROMPTS)
    before, text = load_notebook(path), text_of(path, fmt)
    jupytext(["--quiet", "--to", fmt, "--output", str(text), str(path)])
    jupytext(["--quiet", "--update", "--to", "ipynb", str(text)])
    assert sources(load_notebook(path)) == sources(before)
    assert read_recording(load_notebook(path)) == read_recording(before)


@each_row("fmt", FORMATS)
def test_made_from_a_text_file_alone_it_keeps_its_prompts_and_says_that_the_records_are_gone(fmt, tmp_path):
    path = saved(tmp_path / "talk.ipynb", PROMPTS)
    before, text = load_notebook(path), text_of(path, fmt)
    jupytext(["--quiet", "--to", fmt, "--output", str(text), str(path)])
    jupytext(["--quiet", "--to", "ipynb", "--output", str(path), str(text)])
    assert sources(load_notebook(path)) == sources(before)
    with pytest.raises(RecordingError, match="has no"):
        read_recording(load_notebook(path))


@each_row("fmt", FORMATS)
def test_a_portable_one_keeps_its_recording_without_pairing_too(fmt, tmp_path):
    path = saved(tmp_path / "talk.ipynb", PROMPTS, portable=True)
    before, text = load_notebook(path), text_of(path, fmt)
    jupytext(["--quiet", "--to", fmt, "--output", str(text), str(path)])
    jupytext(["--quiet", "--to", "ipynb", "--output", str(path), str(text)])
    assert sources(load_notebook(path)) == sources(before)


@each_row("rounds", [15], long=[150])
@each_row("kernel", [None, KIN], ids=["python", "kin"])
@each_row("fmt", FORMATS)
def test_what_a_format_cannot_hold_is_announced(fmt, kernel, rounds):
    """Prompts of awkward lines: each comes back as it was, or the notebook warns."""
    chance, warned = random.Random(19), 0
    for _ in range(rounds):
        nb = _awkward(chance, kernel)
        nb["metadata"]["jupytext"]["formats"] = f"ipynb,{fmt}"
        if pairing_warnings(nb):
            warned += 1
            continue
        back = _back(nb, fmt)
        assert sources(back) == sources(nb)
        assert [cell["metadata"].get("kin") for cell in back["cells"]] == [
            cell["metadata"].get("kin") for cell in nb["cells"]
        ]
    assert warned == rounds if (fmt, kernel) == ("py:light", KIN) else 0 < warned < rounds


def _awkward(chance: random.Random, kernel: Any) -> Any:
    nb = new_notebook(metadata={"kernelspec": kernel or empty_notebook()["metadata"]["kernelspec"], "kin": {"x": 1}})
    exclude_from_text(nb)
    for number in range(3):
        lines = [chance.choice(NASTY) for _ in range(chance.randrange(1, 4))]
        prompt = "\n".join(lines) if any(line.strip() for line in lines) else "go"
        if kernel is KIN and prompt.lstrip()[0] in "%!?":
            prompt = f"Do {prompt}"  # else it is none
        cell = new_code_cell(prompt if kernel is KIN else f"%%kin\n{prompt}", metadata={"kin": {"records": [number]}})
        nb["cells"] += [new_markdown_cell(f"# {number}"), cell]
    return nb


def _back(nb: Any, fmt: str) -> Any:
    """As a contents manager reads a pair of files: the text, and from the notebook what the text does not hold."""
    from jupytext import reads, writes
    from jupytext.combine import combine_inputs_with_outputs

    text = writes(as_node(nb), fmt)
    return combine_inputs_with_outputs(reads(text, fmt), as_node(nb), {"extension": f".{fmt.partition(':')[0]}"})


def cells(*texts: str, formats: Any, kernel: str = "python3", **jupytext_settings: str) -> Any:
    metadata = {
        "kernelspec": {"name": kernel, "display_name": "K"},
        "jupytext": {"formats": formats, **jupytext_settings},
    }
    return new_notebook(cells=[new_code_cell(text) for text in texts], metadata=metadata)


@each_row(
    ("formats", "named"),
    [
        ("ipynb,py:sphinx", "py:sphinx"),
        ("ipynb,py:nomarker", "py:nomarker"),
        ("notebooks///ipynb,docs///nb.md:pandoc", "md:pandoc"),
        ("ipynb,qmd", "qmd"),
        ("ipynb,R:spin", "R:spin"),
    ],
)
def test_a_format_that_was_not_tested_is_named(formats, named):
    (warning,) = pairing_warnings(cells("%%kin\nHi.", formats=formats))
    assert warning == (
        f"jupytext pairs this notebook with {named}: reading that text back can lose prompts and recorded answers. Pair it "
        "with md, md:myst, py:percent, py:light or Rmd instead."
    )


@each_row(
    ("nb", "said"),
    [
        (cells("x", '%%kin\nadd a """', "%%kin\nan '''", formats="ipynb,md"), ["cells 2, 3 (a triple quote is left open)"]),
        (cells("%%kin\n# %% here", formats="ipynb,py"), ["cell 1 (a line begins a cell there, as `# %%` does)"]),
        (cells("%%kin\n# %% here", formats="a//ipynb;b//auto:light"), []),
        (cells("%%kin\n```\nx\n```", formats="ipynb,Rmd,md"), ["cell 1 (a line begins with ```)"]),
        (cells("%%kin\n- a:\n  ```\n", formats="ipynb,md:myst"), ["cell 1 (a line has ``` or ~~~ after blanks)"]),
        (
            cells("%%python\nx = 1", "Go on.", formats="ipynb,md", kernel="kin"),
            ["cell 1 (%%python is dropped, so its code would be a prompt)"],
        ),
        (cells("%%python\nx = 1", formats="ipynb,md:myst", kernel="kin"), []),
        (cells("Go.", formats="ipynb,py:light", kernel="kin"), ["pairs this notebook with py:light"]),
        (cells("%%kin\nx", formats="ipynb,md", custom_cell_magics="sql,kin"), ["prompts (custom_cell_magics names kin)"]),
        (cells("%%kin\nx", formats="ipynb,py:percent", custom_cell_magics="kin"), []),
        (cells("%%kin\n'''", formats="ipynb"), []),
        (cells("%%kin\n'''", formats=3), []),
        (new_notebook(metadata={"jupytext": {}}), []),
        (new_notebook(), []),
    ],
)  # fmt: skip
def test_cells_that_a_format_cannot_hold_are_named_with_the_reason(nb, said):
    warnings = pairing_warnings(nb)
    assert len(warnings) == len(said)
    assert all(part in warning for part, warning in zip(said, warnings, strict=True))


@each_row(
    ("before", "after"),
    [
        ({}, {"cell_metadata_filter": "-kin"}),
        ({"cell_metadata_filter": "-all"}, {"cell_metadata_filter": "-all"}),
        ({"cell_metadata_filter": "tags,-x"}, {"cell_metadata_filter": "tags,-x,-kin"}),
        (
            {"cell_metadata_filter": "kin", "custom_cell_magics": "kin"},
            {"cell_metadata_filter": "kin", "custom_cell_magics": "kin"},
        ),
    ],
)
def test_what_the_user_told_jupytext_still_holds(before, after):
    nb = new_notebook(metadata={"jupytext": before})
    exclude_from_text(nb)
    exclude_from_text(nb)
    assert nb["metadata"]["jupytext"] == after
