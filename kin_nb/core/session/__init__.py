"""What survives: records (pure values), the append-only log, and the store of sessions.

A record is written before its effect happens. Never renders, never decides.
May import: the standard library, pydantic, core.records, core.messages, core.paths, core.redaction, core.config.
"""
