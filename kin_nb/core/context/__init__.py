"""The conversation: history that appends, what is computed from it, and the four ways in which it gets shorter.

Those are clear, compaction (compaction.py), pruning (context_window.py) and `History.restore`; a message that stays is the same
object. Loops (loop_detector.py) are found in the calls and the replies alone. Never talks to a server: a compaction is handed
`ask`. May import: core.messages, core.records, core.redaction, core.llm.errors.
"""
