"""Tools, and the execution of tool calls.

Owns tool classes, their discovery, and the calls of a reply: resolving, scheduling, authorizing, running and answering them. Never
decides whether a call may run: ApprovalGate asks the safety chain in core.safety. May import: core.config, core.llm, core.safety,
core.session, core.file_history, core.web, core.processes, and the values of core. Never core.agent or core.turn.
"""
