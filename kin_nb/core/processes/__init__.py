"""Commands that end, with all that they started, when kin_nb asks for it or ends itself.

May import: the standard library, core.tool_types.
"""
