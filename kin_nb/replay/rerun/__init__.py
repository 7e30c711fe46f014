"""Rerun: the model's replies come from the recording, the tools really run, and what came out otherwise is drift.

Owns turns and undos that run again (turns.py), the comparison of a call (drift.py and its rules), and the copy of
the workspace. Never asks a model, and masks no difference that no rule names. May import: replay's errors; core.
"""
