"""The built-in tools: one module each, with its prompt in a Markdown file of the same name.

Owns the work of the tools: reading and changing files (with text_file.py), running programs (with core.processes). Never decides
whether a call may run, never records and never draws. May import: core.tools.base, call_context and truncation, core.workspace,
core.safety.shell, core.config, core.web, core.skills, core.memory and the values of core.
"""

from __future__ import annotations

from typing import Any

from kin_nb.core.tools.base import BaseTool


def builtin_tools() -> dict[str, type[BaseTool[Any, Any, Any, Any]]]:
    """The built-in tools by name. The order is fixed: tool schemas are sent to the model in this order."""
    from kin_nb.core.tools.builtins.apply_patch import ApplyPatch  # noqa: PLC0415  (tools are imported on first use)
    from kin_nb.core.tools.builtins.ask_user import AskUser  # noqa: PLC0415
    from kin_nb.core.tools.builtins.bash import Bash  # noqa: PLC0415
    from kin_nb.core.tools.builtins.edit_file import EditFile  # noqa: PLC0415
    from kin_nb.core.tools.builtins.glob import Glob  # noqa: PLC0415
    from kin_nb.core.tools.builtins.grep import Grep  # noqa: PLC0415
    from kin_nb.core.tools.builtins.list_dir import ListDir  # noqa: PLC0415
    from kin_nb.core.tools.builtins.memory import Memory  # noqa: PLC0415
    from kin_nb.core.tools.builtins.read_file import ReadFile  # noqa: PLC0415
    from kin_nb.core.tools.builtins.search_replace import SearchReplace  # noqa: PLC0415
    from kin_nb.core.tools.builtins.send_dmail import SendDMail  # noqa: PLC0415
    from kin_nb.core.tools.builtins.skill import Skill  # noqa: PLC0415
    from kin_nb.core.tools.builtins.task import Task  # noqa: PLC0415
    from kin_nb.core.tools.builtins.todo import Todo  # noqa: PLC0415
    from kin_nb.core.tools.builtins.web_fetch import WebFetch  # noqa: PLC0415
    from kin_nb.core.tools.builtins.web_search import WebSearch  # noqa: PLC0415
    from kin_nb.core.tools.builtins.write_file import WriteFile  # noqa: PLC0415

    tools: tuple[type[BaseTool[Any, Any, Any, Any]], ...] = (
        ReadFile,
        ListDir,
        Glob,
        Grep,
        WriteFile,
        SearchReplace,
        EditFile,
        ApplyPatch,
        Bash,
        WebFetch,
        WebSearch,
        Todo,
        Task,
        AskUser,
        Memory,
        Skill,
        SendDMail,
    )
    return {tool.get_name(): tool for tool in tools}
