"""Build the system prompt in a fixed order: the sections that change least come first, for the prompt cache.

With its sections: facts of the system, skills, memories (their names and what each is about, never their text), and
AGENTS.md, which says what the person and the project want every agent to know.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kin_nb.core.config import KinConfig
from kin_nb.core.config.trusted_folders import TrustedFolders
from kin_nb.core.config.values import SystemPrompt, load_prompt
from kin_nb.core.environment import child_environment
from kin_nb.core.host_facts import A_PROGRAM, HostFacts
from kin_nb.core.memory import SCOPES, MemoryFile, list_memories
from kin_nb.core.paths import kin_home, shown
from kin_nb.core.python_environment import (
    ProjectEnvironment,
    command_environment,
    commands_interpreter,
    project_environments,
    project_tools,
)
from kin_nb.core.sensitive_names import sensitive_reason
from kin_nb.core.skills.models import SkillInfo
from kin_nb.core.system_prompt.git_facts import repository_root
from kin_nb.core.system_prompt.project_context import NOT_A_PROJECT, is_dangerous, project_context
from kin_nb.core.text import escaped_line
from kin_nb.core.tool_types import ToolError
from kin_nb.core.workspace import open_regular

_IN_NOTEBOOK = (
    "You work inside a Jupyter notebook. The prompt is a cell, and you answer in that cell: the user sees your text, tool "
    "calls and diffs as they happen."
)
_IN_TERMINAL = "You work on the command line. The user sees your last answer and the changes in the files."
_HAS_USER = "If a decision is the user's to make, ask (ask_user)."
_NO_USER = (
    "No one can answer questions or approve calls while you work: decide yourself, and say what you assumed. A call that "
    "would need approval is refused."
)
FACTS = "Workspace: "
COMMIT_SIGNATURE = "When you make a git commit, end its message with the line `Co-authored-by: kin_nb`."
_SKILLS = "Skills. When a task fits a description, load that skill with the skill tool before you begin:"
_SKILLS_ROOM = 6_000
"""Characters for all descriptions together; each has at least _SHORTEST of them."""
_SHORTEST = 100
_MEMORIES = (
    "Memories of earlier sessions. Before related work, read a memory with the memory tool. They are notes: "
    "facts in them may have changed since."
)
_HEADINGS = {"user": "The user's:", "project": "This project's:"}
_MEMORIES_ROOM = 1_500
"""Bytes of the whole section, without the line that counts the rest."""
_DESCRIPTION = 200
REPLACEABLE = (FACTS, _IN_NOTEBOOK, _IN_TERMINAL, _SKILLS, _MEMORIES, NOT_A_PROJECT)
"""The beginnings of sections that are not instructions: a note may replace them."""
AGENTS_MD = "AGENTS.md"
_INTRODUCTION = (
    "Instructions from files, in order of increasing precedence: if two contradict each other, follow the later one."
)


def build_system_prompt(
    config: KinConfig,
    *,
    trusted: bool,
    skills: Sequence[SkillInfo] = (),
    model: str = "",
    memory: bool = True,
    host: HostFacts = A_PROGRAM,
) -> str:
    """Build the system prompt of a new session: see `prompt_sections`."""
    sections = prompt_sections(config, trusted=trusted, skills=skills, model=model, memory=memory, host=host)
    return joined(sections)


def prompt_sections(
    config: KinConfig,
    *,
    trusted: bool,
    skills: Sequence[SkillInfo] = (),
    model: str = "",
    memory: bool = True,
    host: HostFacts = A_PROGRAM,
    environment: Mapping[str, str] | None = None,
    with_state: bool = True,
) -> list[str]:
    """Return the sections of the system prompt, those that change least first.

    Nothing of the project itself but git's facts and the names of its files unless `trusted`. `skills`: none when the
    skill tool is not on offer. `memory`: whether the memory tool is. `environment`: the variables of commands; None: this
    process's. `with_state`: with what git and the files are like, which takes longest to find out. Raises ConfigError when
    `system_prompt_id` names no usable prompt.
    """
    if environment is None:
        environment = command_environment(child_environment(os.environ), host.interpreter)
    workdir, most_bytes = config.effective_workdir, config.project_context.max_doc_bytes
    sections = [
        load_prompt(config.system_prompt_id, workdir, trusted=trusted, may_use=config.is_as_trusted),
        _host(host),
        config.instructions.strip(),
        read_document(kin_home() / "instructions.md", most_bytes),
        _facts(config, workdir, model, host, environment),
        COMMIT_SIGNATURE if config.include_commit_signature else "",
        _skills(skills) if config.include_prompt_detail else "",
        memories(workdir, trusted=trusted) if memory else "",
        project_context(workdir, config.project_context) if with_state and config.include_project_context else "",
        agents_md(workdir, trusted=trusted, most_bytes=most_bytes),
    ]
    return [section for section in sections if section]


def joined(sections: Iterable[str]) -> str:
    return "\n\n".join(sections)


def system_prompt(config: KinConfig) -> str:
    """Return the base prompt and the facts about the system, without anything of the user or the project."""
    return f"{SystemPrompt.DEFAULT.read()}\n\n{_facts(config, config.effective_workdir, '', A_PROGRAM, os.environ)}"


def _host(host: HostFacts) -> str:
    place = _IN_NOTEBOOK if host.in_notebook else _IN_TERMINAL
    return f"{place} {_HAS_USER if host.has_user else _NO_USER}"


def _facts(config: KinConfig, workdir: Path, model: str, host: HostFacts, environment: Mapping[str, str]) -> str:
    facts = [f"{FACTS}{escaped_line(str(workdir), 1_000)}"]
    if config.include_prompt_detail:
        facts.append(f"System: {platform.system()}; shell: bash")
        facts += _python(workdir, host, environment)
    if config.include_model_info and model:
        facts.append(f"Model: {escaped_line(model, 200)}")
    return "\n".join(facts)


def _python(workdir: Path, host: HostFacts, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the Python of commands, and the environments and tools of the project, a line each."""
    used = commands_interpreter(environment, host.interpreter)
    if used is None:
        yield "Python: none on PATH"
    else:
        version = f"{used.version}, " if used.version else ""
        yield f"Python in commands: {version}{escaped_line(str(used.path), 300)} ({used.source})"
    if is_dangerous(workdir):
        return
    found = [f"{each.path} ({_described(each)})" for each in project_environments(workdir)]
    if found:
        yield f"Python environments of the project: {', '.join(found)}"
    tools = project_tools(workdir)
    if tools:
        yield f"The project uses: {', '.join(tools)}"


def _described(environment: ProjectEnvironment) -> str:
    version = f"Python {environment.version}" if environment.version else "Python"
    return f"{version}, {environment.tool}" if environment.tool else version


def _skills(skills: Sequence[SkillInfo]) -> str:
    room = max(_SHORTEST, _SKILLS_ROOM // max(1, len(skills)))
    lines = [f"- {s.name}: {escaped_line(' '.join(s.description.split()), room)}" for s in sorted(skills, key=_name)]
    return "\n".join([_SKILLS, *lines]) if lines else ""


def _name(skill: SkillInfo) -> str:
    return skill.name


def memories(workdir: Path, *, trusted: bool) -> str:
    """The newest that there is room for, by scope, and how many more; "" without any. A project's only when `trusted`."""
    usable = [m for m in list_memories(workdir, SCOPES if trusted else ("user",)) if not m.problem]
    room = _MEMORIES_ROOM - sum(len(text) + 1 for text in (_MEMORIES, *_HEADINGS.values()))
    shown_memories: list[MemoryFile] = []
    for memory in usable:
        room -= len(_memory_line(memory).encode()) + 1
        if room < 0:
            break
        shown_memories.append(memory)
    if not shown_memories:
        return ""
    lines = [_MEMORIES]
    for scope in SCOPES:
        listed = [_memory_line(memory) for memory in shown_memories if memory.scope == scope]
        lines += [_HEADINGS[scope], *listed] if listed else []
    rest = len(usable) - len(shown_memories)
    return "\n".join([*lines, *([f"… {rest} more, older: the memory tool lists them."] if rest else [])])


def _memory_line(memory: MemoryFile) -> str:
    return f"- {memory.name}: {escaped_line(memory.description, _DESCRIPTION)}"


def agents_md(workdir: Path, *, trusted: bool, most_bytes: int) -> str:
    """The person's own file, then, in a trusted folder, those from the repository's root down to `workdir`; "" without any.

    Of each at most `most_bytes`. A file that cannot be read, or is a link out of its folder, is replaced by a note.
    """
    own = kin_home() / AGENTS_MD
    text = read_document(own, most_bytes)
    parts = [_part(shown(own), text)] if text else []
    root = repository_root(workdir)
    for path in agents_md_present(workdir) if trusted else ():
        name = path.relative_to(root).as_posix()
        parts.append(_part(name, _refusal(path, root) or read_document(path, most_bytes)))
    return "\n\n".join([_INTRODUCTION, *parts]) if parts else ""


def agents_md_present(workdir: Path) -> list[Path]:
    """The project's AGENTS.md files that a trusted `workdir` brings in, the root's first. Reads none of them.

    A folder above that the person refused brings in none.
    """
    root, workdir, trust = repository_root(workdir), workdir.resolve(), TrustedFolders()
    around = [folder for folder in workdir.parents if folder.is_relative_to(root)]
    folders = [workdir, *(folder for folder in around if trust.is_trusted(folder) is not False)]
    return [folder / AGENTS_MD for folder in reversed(folders) if os.path.lexists(folder / AGENTS_MD)]


def read_document(path: Path, most_bytes: int) -> str:
    """The text of a file; "" when it is empty or not there. An error is returned as a note in its place."""
    if not os.path.lexists(path):
        return ""
    try:
        with open_regular(path.resolve(), path.name) as file:
            content = file.read(most_bytes + 1)
    except (ToolError, OSError, RuntimeError) as error:
        return f"[not read: {escaped_line(str(error), 300)}]"
    text = content[:most_bytes].removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="replace").strip()
    if len(content) <= most_bytes:
        return text
    return f"{text}\n[… cut here: the file is longer than max_doc_bytes, {most_bytes:,} …]"


def _refusal(path: Path, root: Path) -> str:
    """Why a project's file is not read, in its place; "" when it may be."""
    try:
        target = path.resolve()
    except (OSError, RuntimeError):
        return ""  # a loop: reading it says so
    if target == path:
        return ""
    if not target.is_relative_to(root):
        return "[not read: it is a link that leads out of the repository]"
    reason = sensitive_reason(target.relative_to(root))
    return f"[not read: it is a link to {escaped_line(target.name, 80)}, which {reason}]" if reason else ""


def _part(name: str, text: str) -> str:
    return f'<instructions from="{escaped_line(name, 200)}">\n{text}\n</instructions>'
