"""The messages of a conversation, and everything that is computed from messages and calls alone.

History only appends, with four exceptions: clear, compaction (compaction.py), pruning (context_window.py) and `History.restore`. A
message that stays is the same object. loop_detector.py finds calls and texts that repeat. Nothing here talks to a server: a
compaction receives `ask`. May import: core.messages, core.records, core.redaction, core.llm.errors.
"""
