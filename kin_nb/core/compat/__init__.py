"""Names and views for programs that were written for other agents' interfaces. They add nothing to what the agent does.

`event_names`: other names of the events. `tool_registry`: a ToolManager with the methods of a tool registry. kin_nb itself uses
these only where it offers such an interface (documents.session).
"""
