"""The conversation: history that appends, what is computed from it, and the four ways in which it gets shorter.

Those are clear, compaction (compaction.py, parts.py), pruning and `History.restore`; a message that stays is the same object.
Never talks to a server: a compaction is handed `ask`. May import: core.types, core.session.records, core.safety.secrets,
core.llm.errors.
"""
