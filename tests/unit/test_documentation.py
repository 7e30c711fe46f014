"""What the documentation shows works as written: settings load without a warning, Python runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.config.custom_modes import load_mode
from kin_nb.core.paths import kin_home
from kin_nb.core.tools.manager import ToolManager
from tests.table import each_row

ROOT = Path(__file__).parents[2]


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / name).read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    kin_home().mkdir()
    return kin_home()


def configure(home, server, api_style="openai"):
    provider = f"{{name = 'p', api_base = '{server.url}', api_style = '{api_style}'}}"
    model = "{name = 'm', provider = 'p'}"
    (home / "config.toml").write_text(f"active_model = 'm'\nproviders = [{provider}]\nmodels = [{model}]\n")


@each_row("block", blocks("reference/settings.md", "toml") + blocks("how-to/use-mcp-servers.md", "toml"))
def test_settings_load_without_a_warning(home, block):
    (home / "config.toml").write_text(block)
    assert KinConfig.load().warnings == ()


def test_all_the_settings_together_load_too(home):
    blocks_ = blocks("reference/settings.md", "toml")
    scalars = [block.partition("\n[")[0] for block in blocks_]
    tables = [f"[{block.partition(chr(10) + '[')[2]}" for block in blocks_ if "\n[" in block]
    (home / "config.toml").write_text("\n".join([*scalars, *tables]).replace("\n[[session", "\n[session"))
    assert KinConfig.load().get_active_model().alias == "mine"


def test_the_tool_is_found_without_a_warning(home):
    (home / "tools").mkdir()
    (home / "tools" / "word_count.py").write_text(blocks("how-to/write-a-tool.md", "python")[0])
    manager = ToolManager(KinConfig.load())
    assert manager.warnings == []
    assert "word_count" in manager.available_tools()


async def test_the_middleware_is_asked(model_server, home):
    scope: dict = {}
    exec(blocks("how-to/extend-kin-nb.md", "python")[0], scope)
    configure(home, model_server)
    agent = Agent(KinConfig.load())
    agent.middleware_pipeline.add(scope["OfficeHours"]())
    agent.stats.set_prices(1.0, 1.0)
    agent.stats.session_prompt_tokens = 600_000
    model_server.enqueue("Done.")
    async for _ in agent.act("go"):
        pass
    assert "Half a dollar is spent" in model_server.requests[0]["messages"][-1]["content"]
    await agent.aclose()


async def test_the_adapter_speaks(model_server, home):
    from kin_nb.core.llm.backend.generic import BACKEND_ADAPTERS

    exec(blocks("how-to/extend-kin-nb.md", "python")[1], {})
    try:
        configure(home, model_server, "loud")
        agent = Agent(KinConfig.load())
        model_server.enqueue("quiet words")
        async for _ in agent.act("go"):
            pass
        assert agent.messages[-1].content == "QUIET WORDS"
        await agent.aclose()
    finally:
        del BACKEND_ADAPTERS["loud"]


def test_the_mode_is_one(home, tmp_path):
    (home / "agents").mkdir()
    (home / "agents" / "strict.toml").write_text(blocks("how-to/teach-it-your-ways.md", "toml")[0])
    mode = load_mode("strict", tmp_path, trusted=False)
    assert (mode.base, mode.description) == ("plan", "Looks only")
    assert KinConfig.load(agent="strict").warnings == ()


def test_the_skill_is_found(home):
    from kin_nb.core.skills import SkillManager

    (home / "skills" / "release-notes").mkdir(parents=True)
    (home / "skills" / "release-notes" / "SKILL.md").write_text(blocks("how-to/teach-it-your-ways.md", "markdown")[0])
    skills = SkillManager(KinConfig.load(), trusted=False)
    assert (list(skills.available), skills.warnings) == (["release-notes"], [])


async def test_the_program_runs(model_server, home, capsys):
    configure(home, model_server)
    scope: dict = {}
    exec(blocks("how-to/use-it-from-scripts.md", "python")[0], scope)
    model_server.enqueue("An empty folder.")
    await scope["main"]()
    assert capsys.readouterr().out == "An empty folder."


WORDS_OF_OTHERS = {
    *("Cell magic %%kin not found", "Did you mean the line magic %kin", "No module named 'kin_nb'"),  # IPython, Python
    *("invalid api key", "rate limit", "maximum context", "model not found"),  # servers
    *("rm -rf /", r"curl ... \| sh", "config.toml:14: ...", "kin-nb failed: ..."),  # commands, places, a bug
}


def test_each_message_that_the_page_on_problems_names_is_one():
    """An ellipsis in a message stands for what differs each time."""
    known = " ".join((ROOT / "docs/project/messages.md").read_text(encoding="utf-8").split()).lower()
    page = (ROOT / "docs/how-to/fix-problems.md").read_text(encoding="utf-8")
    named = {words for cell in re.findall(r"^\| (.+?) \|", page, re.MULTILINE) for words in re.findall("`(.+?)`", cell)}
    assert named > WORDS_OF_OTHERS
    parts = [part.strip().lower() for words in named - WORDS_OF_OTHERS for part in words.split("...")]
    assert [part for part in parts if part not in known] == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/explanation/architecture.md"])
def test_each_module_that_a_map_names_exists(page):
    """A name may be short ("player.py"): then some module of the package or of the tests has it."""
    modules = [
        path.relative_to(ROOT).as_posix() for folder in ("kin_nb", "tests") for path in (ROOT / folder).rglob("*.py")
    ]
    named = set(re.findall(r"[\w/]+\.py\b", (ROOT / page).read_text(encoding="utf-8")))
    assert named
    assert [name for name in named if not any(f"/{module}".endswith(f"/{name}") for module in modules)] == []
