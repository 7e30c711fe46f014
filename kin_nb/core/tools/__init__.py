"""Tools: typed arguments, typed result, prompt beside the class (seed 000).

Owns tool classes, their discovery, and the calls of a reply: resolved, ordered, authorized, run and answered. Never decides
whether a call may run: core.safety's chain does, and ApprovalGate asks it. May import: core.config, core.llm's wire format,
core.safety, core.session, core.file_history, core.web, core.processes, and the values of core. Never core.agent or core.turn.
"""
