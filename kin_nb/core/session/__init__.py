"""What survives: records (pure values), the append-only log, and the store of sessions.

A record is written before its effect happens. Never renders, never decides.
May import: the standard library, pydantic, core.types, core.paths, core.safety.secrets; document.py and paid_since.py
also what they recount with: core.usage, core.context. session.py is the door for programs, above all of core.
"""
