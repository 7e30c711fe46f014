"""The tokens that every request of a session begins with: the system prompt and the schemas of all tools."""

from __future__ import annotations

import json
from pathlib import Path

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.host_facts import HostFacts
from kin_nb.notebook.namespace.notebook_cells import NotebookCells
from kin_nb.notebook.namespace.python import Python
from kin_nb.notebook.namespace.variables import Variables

MOST_TOKENS = 4_000
CHARACTERS_PER_TOKEN = 4


async def test_a_default_session_begins_with_fewer_than_4000_tokens(workspace: Path):
    """In a notebook, where most tools are on offer. Schemas count as they are sent."""
    agent = Agent(KinConfig(workdir=workspace), host=HostFacts(in_notebook=True))
    tools = agent.parts.toolset.manager
    for tool in (NotebookCells, Python, Variables):
        tools.add(tool)
    schemas = [schema.model_dump(mode="json", exclude_none=True) for schema in tools.schemas()]
    prompt = str(agent.messages[0].content).replace(str(workspace.resolve()), "/home/user/project")
    await agent.aclose()
    names = [schema["function"]["name"] for schema in schemas]
    assert {"apply_patch", "bash", "web_search", "ask_user", "python"} <= set(names)
    assert "Jupyter notebook" in prompt
    sizes = [len(json.dumps(schema, ensure_ascii=False, separators=(",", ":"))) for schema in schemas]
    assert (len(prompt) + sum(sizes)) / CHARACTERS_PER_TOKEN < MOST_TOKENS, dict(zip(names, sizes, strict=True))
