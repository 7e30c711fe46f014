"""The conversation: history that only appends, and what is computed from it.

Never edits or removes a message; never talks to a server. May import: core.types, core.session.records.
"""
