"""Rerun: the model's replies come from the recording, the tools really run, and differences are reported as drift.

Owns turns and undos that run again (turn_replayer.py), the comparison of a call (drift.py and its rules), and the copy of
the workspace. Never asks a model, and hides no difference that no rule names. May import: replay's errors; core.
"""
