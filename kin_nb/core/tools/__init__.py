"""Tools: typed arguments, typed result, prompt beside the class (seed 000).

Owns tool classes, their discovery and the running of calls. Never decides whether a call may run (core.safety does).
May import: core.tool_types, core.safety's values, the standard library, pydantic.
"""
