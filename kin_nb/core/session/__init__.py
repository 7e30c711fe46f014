"""What survives of a session: the append-only log, what its lines come to (state), and the store of sessions.

A record is written before its effect happens. Never renders, never decides. May import: the standard library, pydantic,
core.records, core.messages, core.paths, core.redaction, core.text, core.stopping, core.workspace_commit, core.config.
"""
