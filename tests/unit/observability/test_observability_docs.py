"""The settings that the pages about the web and about observability show load as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kin_nb.core.config import KinConfig
from kin_nb.core.observability.file_observers import _HELP
from kin_nb.core.tools.builtins.web_fetch import WebFetchConfig
from kin_nb.core.tools.builtins.web_search import WebSearchConfig

DOCS = Path(__file__).parents[3] / "docs" / "how-to"
BLOCKS = [
    block
    for name in ("use-the-web.md", "observe-sessions.md")
    for block in re.findall(r"```toml\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.DOTALL)
]


@pytest.mark.parametrize("block", BLOCKS)
def test_the_settings_that_are_shown_load_without_a_warning(home, block, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (home / "config.toml").write_text(block)
    config = KinConfig.load()
    assert config.warnings == ()
    kinds = {"web_fetch": WebFetchConfig, "web_search": WebSearchConfig}
    for name, given in config.tools.items():
        assert given.model_fields_set <= set(kinds[name].model_fields)
        kinds[name].model_validate(given.model_dump(exclude_unset=True))


def test_every_counter_is_explained():
    text = (DOCS / "observe-sessions.md").read_text(encoding="utf-8")
    assert {name for name in _HELP if f"{name}{{" in text} == set(_HELP)
