"""What a session does with its cells: ask the model, play what is recorded, run it again, or nothing.

A mode returns a record, or GoLive: only the session changes its mode.
"""
